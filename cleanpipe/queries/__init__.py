"""Questions to a run: why a page went, what another threshold would do, what changed between two runs."""
