"""Pages to read in a browser: one file, no script, nothing fetched; the audit's, and the blocks that others share."""
