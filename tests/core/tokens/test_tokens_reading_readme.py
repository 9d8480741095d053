"""The README's PyTorch example, executed as it stands there."""

import re
from pathlib import Path

import pytest
from made_tokens import make_store

pytest.importorskip("torch", reason="the extra gpu brings PyTorch")
README = Path(__file__).parents[3] / "README.md"
FENCE = re.compile(r"<!-- tokens-pytorch -->\s*```python\n(.*?)```", re.S)
RESUME = re.compile(r"<!-- tokens-resume -->\s*```python\n(.*?)```", re.S)


def test_the_example_runs_and_reads_every_sequence_twice(tmp_path, monkeypatch):
    examples = FENCE.findall(README.read_text(encoding="utf-8"))
    assert len(examples) == 1
    folder = re.search(r'open_tokens\("([^"]+)"\)', examples[0])[1]
    make_store(tmp_path / folder, [[5, 6, 7] * 4000, *([9] * n for n in range(5, 900))])
    monkeypatch.chdir(tmp_path)
    names = {}
    read = []
    names["train"] = lambda batch: read.append(batch)
    exec(compile(examples[0], str(README), "exec"), names)
    plan = names["plan"]
    sequences = [g for batch in read for g in batch["sequences"].tolist()]
    assert sequences == [*range(plan.sequences)] * 2
    assert all(b["input_ids"].shape[1] == plan.length for b in read)


def test_the_example_of_resuming_goes_on_where_it_stopped(tmp_path, monkeypatch):
    (example,) = RESUME.findall(README.read_text(encoding="utf-8"))
    for folder in re.findall(r'open_tokens\("([^"]+)"\)', example):
        make_store(tmp_path / folder, [[5, 6, 7] * 4000, *([9] * n for n in range(5, 900))])
    monkeypatch.chdir(tmp_path)
    names, read = {}, []
    example = example.replace("    batch.input_ids,", "    read.append(batch); batch.input_ids,")
    names["read"] = read
    exec(compile(example, str(README), "exec"), names)
    plan = names["plan"]
    assert names["state"]["sequences"] == 24
    assert [g for batch in read for g in batch.sequences.tolist()][:8] == [24, 25, 26, 27, 32, 33, 34, 35]
    assert max(batch.sequences.max() for batch in read) >= 2 * plan.sequences - 8
