"""The job that makes a token store of a run's shards: ``cleanpipe.tokens.making.run.tokenize``."""
