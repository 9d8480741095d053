"""Backends of one contract: chosen, proven, and blind to control strings; and where tokens begin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

pytest.importorskip("tokenizers")
pytest.importorskip("tiktoken")
pytest.importorskip("sentencepiece")

import made_tokenizers as made

from cleanpipe.errors import ConfigError, StageContractError
from cleanpipe.tokens.backend import Backend, Encoded
from cleanpipe.tokens.backends import fast, open_backend, reference, splitters_of
from cleanpipe.tokens.backends.proving import probe_texts
from cleanpipe.tokens.backends.starts import starts_of
from cleanpipe.tokens.tokenizer import Tokenizer, open_tokenizer
from cleanpipe.tokens.tokenizer.opening import made as opened

SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES", Path(__file__).parents[4] / "shared" / "samples"))
KINDS = ["gpt2", "cleanpipe-16k", *made.FILES, "ranks", "unigram", "sp-bpe", "identity"]
ODD = "naïve \U0001f469\u200d\U0001f467 e\u0301\u0323 日本語\r\n\t  ½ \U00010348 \ufeffend"


def tokenizer(kind: str) -> Tokenizer:
    if kind in ("gpt2", "cleanpipe-16k"):
        return open_tokenizer(kind)
    if kind in made.FILES:
        return opened(kind, "json", made.FILES[kind](), "", "auto", "auto")
    if kind == "ranks":
        return opened(kind, "tiktoken", made.tiktoken_ranks(), "cl100k", "auto", "auto")
    model = {
        "unigram": made.unigram_model(),
        "sp-bpe": made.unigram_model(kind="bpe"),
        "identity": made.unigram_model(nfkc=False),
    }[kind]
    return opened(kind, "sentencepiece", model, "", "auto", "auto")


FORGED = [
    "<|endoftext|>",
    "</s>",
    "<s>",
    "[INST]",
    "<|im_end|>",
    "<|begin_of_text|>",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "<0x0A>",
]


@pytest.mark.parametrize("kind", KINDS)
def test_control_strings_in_text_stay_text(kind: str) -> None:
    found = tokenizer(kind)
    strings = [*FORGED, *found.controls]
    texts = [form.format(name) for name in strings for form in ("{0}", "a{0}b", " {0} ", "\n{0}\n{0}{0}", "▁{0}")]
    backend, _ = open_backend(found)
    forbidden = {*found.controls.values()} - {found.unk}
    for one in (backend, reference(found)):
        assert not forbidden & {*one.encode(texts).ids.tolist()}
    if found.lossless:
        encoded = backend.encode(texts)
        parts = np.split(encoded.ids, encoded.ends[:-1])
        assert [found.decode(part) for part in parts] == texts


@pytest.mark.parametrize("kind", ["gpt2", "cleanpipe-16k", "llama3_like", "unigram"])
def test_the_page_about_special_tokens(kind: str) -> None:
    # QwenLM/Qwen#24
    path = SAMPLES / "bugs" / "b137-token.warc.gz"
    if not path.exists():
        pytest.skip("no samples: set CLEANPIPE_SAMPLES")
    with path.open("rb") as stream:
        page = next(ArchiveIterator(stream, WarcRecordType.response)).reader.read().decode()
    found = tokenizer(kind)
    assert "&lt;|endoftext|&gt;" in page or "<|endoftext|>" in page
    page = page.replace("&lt;", "<").replace("&gt;", ">")
    for name in ("<|endoftext|>", "</s>", "<s>", "[INST]", "<|im_end|>"):
        assert name in page
    ids = open_backend(found)[0].encode([page]).ids
    assert not {*found.controls.values()} & {*ids.tolist()}
    if found.lossless:
        assert found.decode(ids) == page


@pytest.mark.parametrize("kind", KINDS)
def test_starts(kind: str) -> None:
    found = tokenizer(kind)
    backend, _ = open_backend(found)
    texts = ["", ODD, made.CODE, "", "a", *[text for _, text in made.languages()][::9]]
    encoded = backend.encode(texts, starts=True)
    assert encoded.starts is not None
    assert encoded.starts.dtype == np.int64
    np.testing.assert_array_equal(encoded.ids, backend.encode(texts).ids)
    begin = 0
    for text, end in zip(texts, encoded.ends.tolist(), strict=True):
        ids, starts = encoded.ids[begin:end], encoded.starts[begin:end]
        begin = end
        assert not len(ids) or (starts[0] in (0, 1) and starts[-1] < len(text))
        assert (np.diff(starts) >= 0).all()
        if found.lossless:  # each token's bytes are those of the text there
            data, place = text.encode(), 0
            for token, start in zip(ids.tolist(), starts.tolist(), strict=True):
                piece = found.token_bytes(token)
                assert data[place : place + len(piece)] == piece
                assert start == len(data[:place].decode("utf-8", "ignore"))
                place += len(piece)
            assert place == len(data)


def test_starts_by_hand() -> None:
    # "aé中😀b": 1 + 2 + 3 + 4 + 1 bytes, tokens of 2, 1, 2, 1, 3, 2 bytes, and then "xy" in one
    lengths = np.array([0, 1, 2, 3], np.int32)
    ids = np.array([2, 1, 2, 1, 3, 2, 2], np.uint32)
    ends = np.array([0, 6, 6, 7])
    got = starts_of(ids, ends, ["", "aé中😀b", "", "xy"], lengths)
    assert got.tolist() == [0, 1, 2, 2, 3, 3, 0]
    with pytest.raises(StageContractError, match="not a lossless tokenizer"):
        starts_of(ids, ends, ["", "aé中😀", "", "xy"], lengths)
    assert starts_of(ids[:0], np.zeros(2, np.int64), ["", ""], lengths).tolist() == []


@pytest.mark.parametrize("kind", KINDS)
def test_auto_is_the_fast_one_where_it_is_exact(kind: str) -> None:
    found = tokenizer(kind)
    sample = [text for _, text in made.languages()][:10]
    backend, proof = open_backend(found, sample=sample)
    exact = found.lossless
    assert (proof.asked, proof.used, backend.name) == ("auto", "fast" if exact else "hf", "fast" if exact else "hf")
    assert bool(proof.reason) != exact
    assert proof.differing is None
    if exact:
        assert (proof.probe_texts, proof.sampled_texts) == (len(probe_texts(found)), 10)
        assert {*proof.versions} == {"tokenizers", "tiktoken"}
        assert backend.facts()["texts"] == 0  # the proof's are not the corpus's
    else:
        with pytest.raises(ConfigError, match=r"the fast backend cannot encode .* exactly: .*; take --backend hf"):
            open_backend(found, "fast")
    json.dumps(proof.as_dict())


def test_splitters_by_device_and_as_asked() -> None:
    assert splitters_of("cpu", None) == 0
    assert splitters_of("cuda", None) == splitters_of("cuda:1", None) == min(4, len(os.sched_getaffinity(0)))
    assert (splitters_of("cpu", 3), splitters_of("cuda", 0)) == (3, 0)
    with pytest.raises(ConfigError, match="--splitters -1"):
        splitters_of("cpu", -1)


def test_hf_needs_no_proof() -> None:
    backend, proof = open_backend(tokenizer("gpt2_like"), "hf")
    assert (backend.name, proof.asked, proof.used, proof.reason) == ("hf", "hf", "hf", "")


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="it is one of auto, hf, fast, torch"):
        open_backend(tokenizer("gpt2_like"), "quick")


class Wrong(Backend):
    """Right, but for one id of texts with a certain word."""

    name = "fast"

    def __init__(self, found: Tokenizer) -> None:
        self.truth = reference(found)

    def forget_counts(self) -> None:
        """As the one whose place it takes."""

    def encode(self, texts: Any, *, starts: bool = False) -> Encoded:
        encoded = self.truth.encode(texts)
        ids = encoded.ids.copy()
        for place, text in enumerate(texts):
            if "xylophone" in text:
                ids[encoded.ends[place] - 1] += 1
            if "bomb" in text:
                raise RuntimeError("boom")
        return Encoded(ids, encoded.ends)


def test_one_differing_id_falls_back_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "FastBackend", Wrong)
    found = tokenizer("gpt2_like")
    assert open_backend(found, "fast", sample=["all well"])[1].used == "fast"
    for name in ("fast", "auto"):
        backend, proof = open_backend(found, name, sample=["all well", "a xylophone"])
        assert (backend.name, proof.used) == ("hf", "hf")
        ids = reference(found).encode(["a xylophone"]).ids.tolist()
        assert proof.differing == {
            "text": "sample 1",
            "token": len(ids) - 1,
            "got": [ids[-1] + 1],
            "expected": [ids[-1]],
        }
        assert proof.reason == (
            f"fast is not exact here: sample 1, token {len(ids) - 1}: [{ids[-1] + 1}] where hf gives [{ids[-1]}]"
        )
    failed = open_backend(found, sample=["bomb"])[1]
    assert (failed.used, failed.reason) == ("hf", "fast failed on sample texts: RuntimeError: boom")


def test_loading_costs_nothing_before_use() -> None:
    code = (
        "import sys, cleanpipe.tokens.tokenizer, cleanpipe.tokens.backends, cleanpipe.tokens.backends.fast, "
        "cleanpipe.tokens.backends.sentencepiece, cleanpipe.tokens.backends.proving;"
        "print(sorted({'tokenizers', 'tiktoken', 'sentencepiece', 'torch', 'ray', 'datasets'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_reference_works_on_one_thread() -> None:
    code = (
        "import os; os.environ['TOKENIZERS_PARALLELISM'] = 'true'\n"
        "from cleanpipe.tokens.tokenizer import open_tokenizer\n"
        "from cleanpipe.tokens.backends import open_backend\n"
        "b, _ = open_backend(open_tokenizer('gpt2'), 'hf'); b.encode(['some text'] * 3000)\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    if not Path("/proc/self/task").exists():
        pytest.skip("threads are counted in /proc")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) <= 2
