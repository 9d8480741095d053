"""Windows encoded by themselves: what two of them share is learned once, whatever a tokenizer does with blanks."""

import pyarrow as pa
import pytest
from made_tokenizers import metaspace_bpe_byte_fallback, on_disk, unigram_model, with_normalizer, wordpiece
from token_runs import made_run, small_crawl, tokens

from cleanpipe import batch as col
from cleanpipe.tokens.backends import reference
from cleanpipe.tokens.layout import DOC_START, TOKEN_COUNT, TOKEN_OVERLAP, TOKEN_START
from cleanpipe.tokens.store import open_tokens
from cleanpipe.tokens.tokenizer import open_tokenizer

SENTENCE = "the harbour pilot boards each ship outside the bar and knows the depth of every channel of it"
WORDS = SENTENCE.split()
TEXTS = {
    f"blanks{size}": "".join(word + " " * (1 + at % size) for at, word in enumerate(WORDS * 60)) for size in (1, 2, 3)
} | {
    "lines": "\n\n".join(WORDS * 60),
    "wide": "\u3000".join([*WORDS, "港の水先人", "e\u0301te\u0301", "🙂🇩🇪"] * 60),
    "short": "Salt is raked by hand.",
}
KINDS = {
    "wordpiece.json": wordpiece,
    "normal.json": with_normalizer,
    "metaspace.json": metaspace_bpe_byte_fallback,
    "unigram.model": unigram_model,
}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlap")
    made_run(small_crawl(folder / "crawl", TEXTS), folder / "out")
    return folder / "out"


def texts_of(out):
    """The documents of a run, put together from their windows."""
    found = {}
    for path in sorted((out / "data").glob("*.arrow")):
        for row in pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist():
            found[row[col.DOC_ID]] = found.get(row[col.DOC_ID], "")[: row[col.CHAR_START]] + row[col.TEXT]
    return found


@pytest.mark.parametrize("name", [*KINDS, "cleanpipe-16k"])
def test_every_token_is_learned_once(out, tmp_path, name):
    spec = str(on_disk(name, KINDS[name]())) if name in KINDS else name
    tokens(out, tmp_path / "tokens", tokenizer=spec, per_window=True, backend="auto", max_unk=1.0)
    store, told = open_tokens(tmp_path / "tokens"), 0
    truth = reference(open_tokenizer(spec))
    texts = texts_of(out)
    for shard in range(len(store.shards)):
        first = int(store.token_starts[shard])
        before = 0
        for row in store.spans(shard).to_pylist():
            body = texts[row[col.DOC_ID]].strip()
            begin, end = row[col.CHAR_START], min(row[col.CHAR_END], len(body))
            before = before if row[col.WINDOW] else 0
            found = truth.encode([body[begin:end]], starts=True)
            start = first + row[TOKEN_START]
            assert store.read(start, start + row[TOKEN_COUNT]).tolist() == found.ids.tolist()
            assert row[TOKEN_START] >= row[DOC_START]
            stops = [*found.starts[1:].tolist(), end - begin] if found.stops is None else found.stops.tolist()
            stops = [max(stop, at + 1) for at, stop in zip(found.starts.tolist(), stops, strict=True)]  # of bytes
            repeats = row[TOKEN_OVERLAP]
            for stop in stops[:repeats]:
                assert begin + stop <= before  # the window before has all of it
            for stop in stops[repeats:]:
                assert begin + stop > before  # or it is learned here
            told += repeats
            before = end
    assert told > 50
