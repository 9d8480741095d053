"""The token store's files: written once, streaming; opened lazily; proven block by block as they are read."""

from cleanpipe.tokens.store.manifest import write_store
from cleanpipe.tokens.store.opened import TokenStore, open_tokens
from cleanpipe.tokens.store.writer import PayloadWriter

__all__ = ["PayloadWriter", "TokenStore", "open_tokens", "write_store"]
