"""Progress of ``cleanpipe tokenize``: bytes, documents and tokens a second while shards are encoded."""

from cleanpipe_jobs.figures import Figures


def test_tokens_a_second_are_told_while_shards_are_encoded():
    now = [0.0]
    figures = Figures(lambda: now[0])
    figures.started(2, 3_000_000, 0, 0)
    figures.phase("prove", 1)
    figures.finished("the backend", 0, 0)
    figures.result("prove", "the backend", "k", {"documents": 0, "rows": 0})
    assert figures.look().phase == "proving the backend"
    figures.phase("encode", 2)
    now[0] = 10.0
    figures.progress("a", 500_000)
    assert figures.look().token_rate is None  # no shard has told its tokens
    figures.finished("a", 400, 399)
    facts = {"documents": 400, "rows": 399, "bytes": 1_000_000, "tokens": 250_000, "quarantined": 1}
    figures.result("encode", "a", "k", facts)
    look = figures.look()
    assert (look.phase, look.read, look.size, look.quarantined) == ("encoding", 1_000_000, 3_000_000, 1)
    assert (look.byte_rate, look.document_rate, look.token_rate) == (100_000.0, 40.0, 25_000.0)
    assert look.left == 20.0
    assert "25,000 tokens/s" in look.words()
    figures.phase("join", 2)
    assert figures.look().token_rate is None


def test_a_run_tells_no_tokens():
    figures = Figures(lambda: 1.0)
    figures.started(1, 100, 0, 0)
    figures.phase("read", 1)
    figures.finished("a", 1, 1)
    figures.result("pass", "a", "k", {"documents": 1, "bytes": 100, "quarantined": 0})
    assert figures.look().token_rate is None
    assert not any("tokens" in word for word in figures.look().words())
