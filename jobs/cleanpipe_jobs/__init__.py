"""Short drivers: the `cleanpipe` command and the jobs behind it."""

import os

# Arrow's allocator would give each batch's memory back and fault it in again for the next: 4 % of the CPU time, to save
# 30 MB. It is read when pyarrow loads, so it is set before any of our modules is imported.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")

# The extractor's matrices are small: more threads than one would cost ten times their use, and workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
