"""Documents that crash, starve or hang their process cost themselves, and nothing else (deadly.py says how)."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cleanpipe.run import run
from cleanpipe.verify import verify

HERE = Path(__file__).parent


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hostile_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILD, SAID = _module("build"), _module("test_hostile")
PASSES = {
    "before the meeting": ["http_filter", "html_scrub", "language_id", "{deadly}", "minhash_sign", "minhash_drop",
                           "windowing", "utf8_normalize"],
    "after the meeting": ["http_filter", "html_scrub", "language_id", "minhash_sign", "minhash_drop", "{deadly}",
                          "windowing", "utf8_normalize"],
}  # fmt: skip
GUARDS = ("guards.memory=1000000000", "guards.cpu_seconds=4", "guards.stall_seconds=6")
# word → reasons that are right
ENDS = {
    "kabwcrash": ("resource_limit",),
    "kabwabort": ("resource_limit",),
    "kabwleave": ("resource_limit",),
    "kabwkill": ("resource_limit",),
    "kabwexit": ("resource_limit", "stage_error"),  # an exception that asks the process to end: either name is true
    "kabwhoard": ("resource_limit",),
    "kabwloop": ("resource_limit",),
    "kabwregex": ("resource_limit",),
    "kabwsleep": ("resource_limit",),
    "kabwclose": ("resource_limit", "stage_error"),  # the next write may raise before the worker is missed
    "kabwfail": ("stage_error",),
    "kabwshort": ("resource_limit", "stage_error"),  # raised, but by want of memory
    "kabwrecurse": ("stage_error",),
}
QUICK = ["kabwcrash", "kabwleave", "kabwfail", "kabwrecurse", "kabwshort", "kabwshout"]


def crawl(folder: Path, words: list[str]) -> list[str]:
    """Two files of 20 ordinary pages; the 3rd, 6th … hold a word each. Says the URLs of all pages."""
    folder.mkdir()
    urls = []
    for number in range(2):
        parts = []
        for i in range(20):
            word = words[(number * 6 + i // 3) % len(words)] if i % 3 == 2 else ""
            url = f"http://deadly.example.org/{number}/{i}/{word}"
            parts.append({"url": url, "body": [{"page": ["@own", f"<p>The word is {word}.</p>" if word else ""]}]})
            urls.append(url)
        case = {"name": f"file-{number}", "end": ".warc.gz", "pack": "gzip", "around": "", "part": parts}
        archive = BUILD.made(case, 5000 + number)
        (folder / archive.name).write_bytes(archive.data)
    return urls


def recipe(path: Path, stages: list[str]) -> str:
    path.write_text(f"stages = {json.dumps([s.format(deadly=HERE / 'deadly.py') for s in stages])}\n")
    return str(path)


def check(out: Path, urls: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Exactly the pages with a word that ends something are set aside; returns the rows by reason."""
    rows = {row["url"]: row for row in SAID.rows_of(out, "ledger")}
    assert sorted(rows) == sorted(urls)
    aside: dict[str, list[dict[str, Any]]] = {}
    for url, row in rows.items():
        word = url.rpartition("/")[2]
        if word not in ENDS:
            assert (row["fate"], row["reason"]) == ("kept", None), url
        else:
            assert row["fate"] == "quarantined", url
            assert row["reason"] in ENDS[word], (url, row["reason"])
            aside.setdefault(row["reason"], []).append(row)
    texts, held = SAID.texts_of(out), {row["doc_id"]: row for row in SAID.rows_of(out, "quarantine")}
    assert set(texts) == {row["doc_id"] for row in rows.values() if row["fate"] == "kept"}
    for row in [r for group in aside.values() for r in group]:
        shown = held[row["doc_id"]]
        assert shown["record_id"], shown
        assert (shown["record_offset"], shown["record_length"]) == (row["record_offset"], row["record_length"])
        assert shown["error"], shown
        assert shown["message"], shown
    assert len(held) == sum(map(len, aside.values()))
    listed = json.loads((out / "quarantine/limits.json").read_bytes())["documents"]
    limited = aside.get("resource_limit", [])
    assert sorted(d["doc_id"] for d in listed) == sorted(row["doc_id"].hex() for row in limited)
    return aside


def deadly_run(tmp_path: Path, words: list[str], where: str) -> None:
    urls = crawl(tmp_path / "in", words)
    log, path = tmp_path / "log", recipe(tmp_path / "deadly.toml", PASSES[where])
    sets = [f"deadly.log={log}", "read.batch_rows=7", *GUARDS]
    first, second = tmp_path / "first", tmp_path / "second"
    done = run(path, [str(tmp_path / "in")], first, engine="local", workers=2, sets=sets)
    assert done.exit_code == 0
    aside = check(first, urls)
    assert verify(first).findings == []
    limited = aside.get("resource_limit", [])
    met = Counter(log.read_text().split())
    ended = {row["url"].rpartition("/")[2] for row in limited}
    assert all(met[word] <= 4 * sum(u.endswith(word) for u in urls) * 2 for word in ended), met  # few tries a document
    # with the published list nothing dies, and the bytes are the same
    log.write_text("")
    again = run(
        path,
        [str(tmp_path / "in")],
        second,
        engine="local",
        workers=2,
        sets=sets,
        limits=first / "quarantine/limits.json",
    )
    assert again.exit_code == 0
    assert check(second, urls).keys() == aside.keys()
    assert not ended & set(log.read_text().split())
    one, other = (
        {n: data for n, data in SAID.files_of(out).items() if not n.startswith("quarantine/")}
        for out in (first, second)
    )
    assert [n for n in one.keys() | other.keys() if one.get(n) != other.get(n)] == []


@pytest.mark.slow
@pytest.mark.parametrize("where", PASSES)
def test_some_ends(where: str, tmp_path: Path) -> None:
    deadly_run(tmp_path, QUICK, where)


@pytest.mark.slow
@pytest.mark.parametrize("word", [w for w in ENDS if w not in QUICK])
def test_each_end(word: str, tmp_path: Path) -> None:
    deadly_run(tmp_path, [word, ""], "before the meeting")


@pytest.mark.slow
def test_all_ends_at_once(tmp_path: Path) -> None:
    deadly_run(tmp_path, [*ENDS, "kabwshout"], "before the meeting")
