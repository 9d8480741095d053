"""url_filter: lists in every format, addresses in every spelling, and what decides."""

from __future__ import annotations

import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.blocklists.address import address
from cleanpipe_stages.blocklists.index import build
from cleanpipe_stages.url_filter import LIST, SOFT_WORDS, WORDS, UrlFilter

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "cases" / "url_filter.jsonl").read_text("utf-8").splitlines()
]


def listed(folder: Path, lines: list[str], name: str = "list.txt") -> str:
    path = folder / name
    path.write_bytes("\n".join(lines).encode())
    return str(path)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["comment"])
def test_cases(case: dict[str, Any], tmp_path: Path) -> None:
    stage = UrlFilter(lists=(listed(tmp_path, case["lines"]),))
    done = check_stage(stage, batch(url=[*case["on"], *case["off"]]))
    expected = ["blocked_url"] * len(case["on"]) + [None] * len(case["off"])
    assert dict(zip([*case["on"], *case["off"]], done.reasons, strict=True)) == dict(
        zip([*case["on"], *case["off"]], expected, strict=True)
    )


def test_all_lists_at_once_agree_with_each_alone(tmp_path: Path) -> None:
    urls = [u for case in CASES for u in [*case["on"], *case["off"]]]
    paths = [listed(tmp_path, case["lines"], f"{i:02}.txt") for i, case in enumerate(CASES)]
    alone = [run(UrlFilter(lists=(path,)), batch(url=urls)).scores[LIST] for path in paths]
    first = [next((found for found in row if found), None) for row in zip(*alone, strict=True)]
    assert run(UrlFilter(lists=tuple(paths)), batch(url=urls)).scores[LIST] == first


def test_folders_of_ut1_and_packed_lists(tmp_path: Path) -> None:
    for category, domain, url in (("adult", "a.example", "p.example/x"), ("games", "g.example", "q.example/y")):
        (tmp_path / "ut1" / category).mkdir(parents=True)
        listed(tmp_path / "ut1" / category, [domain], "domains")
        listed(tmp_path / "ut1" / category, [url], "urls")
        listed(tmp_path / "ut1" / category, ["(a|b)"], "expressions")
    packed = tmp_path / "more.txt.gz"
    packed.write_bytes(gzip.compress(b"m.example\n"))
    stage = UrlFilter(lists=(str(tmp_path / "ut1"), str(packed)))
    urls = ["http://a.example", "http://p.example/x", "http://g.example", "http://q.example/", "http://m.example/"]
    found = run(stage, batch(url=urls)).scores[LIST]
    assert found == ["ut1/adult/domains", "ut1/adult/urls", "ut1/games/domains", None, "more.txt.gz"]
    assert sorted(stage.models()) == [
        "lists.more.txt.gz", "lists.ut1/adult/domains", "lists.ut1/adult/urls", "lists.ut1/games/domains",
        "lists.ut1/games/urls",
    ]  # fmt: skip


def test_words(tmp_path: Path) -> None:
    hard, soft = listed(tmp_path, ["casino", "# no", "КАЗИНО"], "hard"), listed(tmp_path, ["free", "win"], "soft")
    urls = ["http://x.example/casino-1", "http://x.example/free", "http://free.example/win/free", "http://casinos.example/",
            "http://казино.example/", None]  # fmt: skip
    stage = UrlFilter(words=(hard,), soft_words=(soft,))
    done = check_stage(stage, batch(url=urls))
    assert done.scores[WORDS] == [1, 0, 0, 0, 1, None]
    assert done.scores[SOFT_WORDS] == [0, 1, 2, 0, 0, None]
    assert done.reasons == ["blocked_url", None, "blocked_url", None, "blocked_url", None]
    ledger = pa.RecordBatch.from_pydict({n: pa.array(done.scores[n], t) for n, t in stage.scores.items()})
    assert stage.judge().judge(ledger).to_pylist() == done.reasons
    stricter = UrlFilter(words=(hard,), soft_words=(soft,), soft_limit=1)
    assert stricter.judge().judge(ledger).to_pylist()[1] == "blocked_url"
    assert UrlFilter(words=(hard,), drop=False).judge().judge(ledger).to_pylist() == [None] * 6


def test_without_lists_nothing_is_asked() -> None:
    done = check_stage(UrlFilter(), batch(url=["http://a.example", None, "x"]))
    assert done.reasons == [None] * 3
    assert done.scores == {LIST: [None] * 3, WORDS: [None] * 3, SOFT_WORDS: [None] * 3}


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    good = [f"host{i}.example" for i in range(300)]
    assert run(UrlFilter(lists=(listed(tmp_path, [*good, "<!doctype html>"]),)), batch(url=["http://host3.example"]))
    for lines in (["<html>", "<body>"], ["a b c", *good[:10], "x y", "z"], ["com"]):
        with pytest.raises(ConfigError, match="are no domain, host or URL; the first"):
            UrlFilter(lists=(listed(tmp_path, lines),)).open()
    with pytest.raises(ConfigError, match="no such file or folder"):
        UrlFilter(lists=(str(tmp_path / "none"),)).open()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no file called domains or urls"):
        UrlFilter(lists=(str(tmp_path / "empty"),)).open()
    with pytest.raises(ConfigError, match="soft_limit = 0"):
        UrlFilter(soft_limit=0).open()
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b\x08broken")
    with pytest.raises(ConfigError, match="cannot be read"):
        UrlFilter(lists=(str(tmp_path / "bad.gz"),)).open()


LABEL = st.text("abcxyz-0139", min_size=1, max_size=6)
HOSTS = st.lists(LABEL, min_size=1, max_size=5).map(".".join)


@given(st.lists(HOSTS.filter(lambda h: "." in h.strip("-")), min_size=1, max_size=12), st.lists(HOSTS, max_size=12))
def test_domains_as_a_plain_search_finds_them(tmp_path_factory: Any, domains: list[str], hosts: list[str]) -> None:
    path = tmp_path_factory.mktemp("lists") / "list"
    path.write_text("\n".join(domains))
    bare = {d.removeprefix("www.") if d.count(".") > 1 else d for d in domains}
    found = build([path]).find([f"http://{host}/" for host in [*hosts, *domains]])
    for host, at in zip([*hosts, *domains], found.tolist(), strict=True):
        name = (address(f"http://{host}/") or ("", ""))[0]
        parts = name.split(".")
        assert (at == 0) == any(".".join(parts[i:]) in bare for i in range(len(parts)))


def test_a_million_domains_are_read_without_an_object_for_each(tmp_path: Path) -> None:
    path = tmp_path / "big"
    rng = random.Random(3)
    names = [f"{rng.getrandbits(48):x}.example" for _ in range(300_000)]
    path.write_text("\n".join(names))
    began = time.process_time()
    index = build([path])
    assert time.process_time() - began < 3  # 0.1 s here
    assert index.keys.nbytes + index.lists.nbytes <= 10 * len(names)
    assert (index.find([f"http://www.{name}/x" for name in names[::1000]]) == 0).all()
    assert (index.find([f"http://no-{name}/x" for name in names[::1000]]) == -1).all()


@pytest.mark.parametrize("option", ["lists", "words", "soft_words"])
@pytest.mark.parametrize(
    "content", [b"", b"\n# none\n\r\n", "a.example\n".encode("utf-16"), b"a.ex\0mple\n", b"caf\xe9\n"]
)
def test_a_list_that_names_nothing_or_is_no_text_is_refused(tmp_path: Path, option: str, content: bytes) -> None:
    (tmp_path / "list.txt").write_bytes(content)
    with pytest.raises(ConfigError, match=r"list\.txt"):
        UrlFilter(**{option: (str(tmp_path / "list.txt"),)}).open()  # type: ignore[arg-type]


def test_one_file_of_a_category_may_be_empty(tmp_path: Path) -> None:
    folder = tmp_path / "ut1" / "games"
    folder.mkdir(parents=True)
    (folder / "urls").write_bytes(b"")
    (folder / "domains").write_bytes(b"a.example\n")
    UrlFilter(lists=(str(tmp_path / "ut1"),)).open()
    (folder / "domains").write_bytes(b"")
    with pytest.raises(ConfigError, match="names none: one domain, host or URL a line"):
        UrlFilter(lists=(str(tmp_path / "ut1"),)).open()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_a_mark_of_byte_order(tmp_path: Path, end: str) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(("\ufeff" + end.join(["a.example", "b.example", ""])).encode())
    done = run(UrlFilter(lists=(str(path),)), batch(url=["http://a.example", "http://b.example", "http://c.example"]))
    assert done.scores[LIST] == ["list.txt", "list.txt", None]
    path.write_bytes(("\ufeff" + end.join(["casino", "poker", ""])).encode())
    done = run(UrlFilter(words=(str(path),)), batch(url=["http://a.example/casino-poker"]))
    assert done.scores[WORDS] == [2]
