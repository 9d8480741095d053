"""Lists of hosts and URLs: read, normalised, and looked up by sorted hashes."""
