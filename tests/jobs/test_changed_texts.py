"""A stage that changes texts, before or after the meeting: ledger, shards and balance tell of what was written."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.opening import ledger, shards
from cleanpipe.recipe import load_recipe
from cleanpipe.run import run
from cleanpipe.verify import verify

ORDERS = {
    "after the meeting": ("minhash_sign", "minhash_drop", "mask_personal", "windowing", "utf8_normalize"),
    "before the meeting": ("mask_personal", "minhash_sign", "minhash_drop", "windowing", "utf8_normalize"),
    "without a meeting": ("mask_personal", "windowing", "utf8_normalize"),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_the_run_holds(order: tuple[str, ...], make: Any, tmp_path: Path) -> None:
    texts = ["\n\n".join(make.prose(i, 30)) for i in range(6)]
    texts[1] += "\n\nWrite to jane.doe@firm.example or call +49 30 901820."
    texts[4] = "Ask bob@firm.example. " + texts[4]
    source = make.write_gz(
        tmp_path / "a.warc.wet.gz",
        [make.warcinfo(), *(make.conversion(f"http://a.example.org/{i}", t) for i, t in enumerate(texts))],
    )
    recipe = tmp_path / "r.toml"
    recipe.write_text(f"name = 'r'\nstages = {list(order)}\n[read]\nbatch_rows = 2\n")
    done = run(load_recipe(recipe), [str(source)], tmp_path / "out", engine="serial")
    assert not verify(tmp_path / "out").findings
    rows = {r["url"][-1]: r for r in ledger(done.out).to_table().to_pylist()}
    assert [rows[str(i)]["mask_personal_emails"] for i in range(6)] == [0, 1, 0, 0, 1, 0]
    assert [rows[str(i)]["mask_personal_phones"] for i in range(6)] == [0, 1, 0, 0, 0, 0]
    written: dict[str, str] = {}
    for row in shards(done.out).to_table().to_pylist():
        key = row["url"][-1]
        written[key] = written.get(key, "") + row["text"][row["overlap"] :]
    assert "jane.doe" not in written["1"]
    assert written["1"].endswith("Write to email@example.com or call 202-555-0100.")
    for key, text in written.items():
        assert rows[key]["chars_out"] == len(text)
        assert rows[key]["content_id"] == hashlib.sha256(text.encode()).digest()[:16]
        assert (text == texts[int(key)]) == (key not in "14")
