"""The sample archives, sound and broken, read in spans: the same items as read whole.

The samples are found by CLEANPIPE_SAMPLES, or beside the repository.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from span_laws import check

SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES") or Path(__file__).parents[2].parent / "shared" / "samples")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES} (set CLEANPIPE_SAMPLES)"),
]
NAMES = re.compile(r"\.(warc|wet|wat|arc)(\.gz)?$")
DAMAGED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/archive/broken-facts.json").read_bytes())


def archives() -> list[str]:
    folders = [SAMPLES / name for name in ("warc", "wet", "broken", "bugs")]
    paths = [path for folder in folders for path in sorted(folder.glob("*")) if NAMES.search(path.name)]
    return [str(path.relative_to(SAMPLES)) for path in paths]


@pytest.mark.parametrize("name", archives())
def test_spans_give_what_the_whole_gives(name: str) -> None:
    path = SAMPLES / name
    size = path.stat().st_size
    small = max(4096, size // 50)
    chains = check(path, sorted({small, max(small, size // 3 + 1)}), ("fast", "member", "warcio"))
    if name not in DAMAGED and path.suffix == ".gz":
        for chain in chains:
            assert not chain.again
