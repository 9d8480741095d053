"""Short drivers: the `cleanpipe` command and the jobs behind it."""
