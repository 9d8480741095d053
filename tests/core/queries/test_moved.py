"""Where a run's inputs lie now."""

from types import SimpleNamespace

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.options import StorageOptions
from cleanpipe.queries.moved import uris_now

SOURCES = ["crawl/a/one.warc.gz", "crawl/b/one.warc.gz", "crawl/b/two.warc.gz"]
RUN = SimpleNamespace(facts={"inputs": [{"source": s, "uri": f"/old/{s}"} for s in SOURCES] + [{"source": "lost"}]})
WAS = {s: f"/old/{s}" for s in SOURCES}


def test_an_input_is_known_by_the_end_of_its_path_or_by_a_name_that_one_alone_has(tmp_path):
    for name in ("new/crawl/a/one.warc.gz", "flat/one.warc.gz", "flat/two.warc.gz", "flat/three.warc.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    new, flat = str(tmp_path / "new/crawl/a/one.warc.gz"), tmp_path / "flat"
    cases = [
        ([], {}),
        ([new], {SOURCES[0]: new}),
        ([str(flat / "one.warc.gz")], {}),  # two have that name
        ([str(flat / "two.warc.gz")], {SOURCES[2]: str(flat / "two.warc.gz")}),
        ([str(flat / "three.warc.gz")], {}),  # of no input
        ([new, str(flat / "two.warc.gz")], {SOURCES[0]: new, SOURCES[2]: str(flat / "two.warc.gz")}),
    ]
    for given, moved in cases:
        assert uris_now(RUN, given, StorageOptions()) == {**WAS, **moved}
    with pytest.raises(ConfigError):
        uris_now(RUN, [str(tmp_path / "nowhere.warc.gz")], StorageOptions())
