"""Where a run's inputs lie now, which may be elsewhere than where the run read them."""

from __future__ import annotations

from collections.abc import Sequence

from cleanpipe.io.inputs import resolve_inputs
from cleanpipe.options import StorageOptions
from cleanpipe.queries.opened_run import OpenRun


def uris_now(run: OpenRun, inputs: Sequence[str], storage: StorageOptions) -> dict[str, str]:
    """Source → URI: as the run read it, or of ``inputs`` the one known by the end of its path or by its name alone.

    Raises:
        ConfigError: one of ``inputs`` cannot be resolved.
    """
    found = {i["source"]: i["uri"] for i in run.facts["inputs"] if i.get("uri")}
    sources = [str(i["source"]) for i in run.facts["inputs"]]
    for given in resolve_inputs(list(inputs), source_root=None, storage=storage) if inputs else ():
        path = given.uri.partition("?")[0]
        fitting = [s for s in sources if path == s or path.endswith(f"/{s}")]
        named = [s for s in sources if s.rpartition("/")[2] == path.rpartition("/")[2]]
        if fitting or len(named) == 1:
            found[max(fitting or named, key=len)] = given.uri
    return found
