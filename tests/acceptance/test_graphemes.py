"""Every emoji of Unicode 15 is one cluster, alone and among others, and survives normalising."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from cleanpipe.text.graphemes import Clusters
from cleanpipe.text.normalise import normalise

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES", ROOT.parent / "shared" / "samples"))
FILE = SAMPLES / "unicode" / "emoji-test-15.0.txt.gz"

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason=f"no {FILE}: set CLEANPIPE_SAMPLES")


def emoji() -> list[str]:
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    return [
        "".join(chr(int(p, 16)) for p in line.partition(";")[0].split()) for line in lines if line and line[0] != "#"
    ]


def boundaries(text: str) -> list[int]:
    clusters = Clusters(text)
    return [i for i in range(len(text) + 1) if clusters.is_boundary(i)]


def test_each_is_one_cluster() -> None:
    found = emoji()
    assert len(found) > 4_500
    assert [e for e in found if boundaries(e) != [0, len(e)]] == []


def test_all_in_a_row_are_as_many() -> None:
    # a skin tone or hair component hangs on the emoji before it: they go last, each after a letter
    row = [e for e in emoji() if not 0x1F3FB <= ord(e[0]) <= 0x1F3FF]
    cuts = [0]
    for e in row:
        cuts.append(cuts[-1] + len(e))
    assert boundaries("".join(row)) == cuts


def test_each_survives_normalising() -> None:
    found = emoji()
    assert [e for e in found if normalise(f"x {e} y {e}") != f"x {e} y {e}"] == []
    assert normalise(" ".join(found)) == " ".join(found)
