"""Raw web crawls in, text that language models can be trained on out: every record accounted for.

from cleanpipe.opening import ledger, shards
from cleanpipe.run import run

done = run("web", ["crawl/*.warc.gz"], "run/web")
ledger(done.out).to_table(columns=["url", "fate", "reason"])
shards(done.out).head(5)
"""
