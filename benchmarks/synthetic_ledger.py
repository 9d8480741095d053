"""A run folder with a ledger of any size, for benchmarks of the commands that ask a run. THE DATA ARE MADE.

    python benchmarks/synthetic_ledger.py OUT --rows 10000000

Rows have the real schema of recipe ``web`` and fates that its own thresholds give; about a tenth are duplicates of
kept rows. There are no archives and no shards behind them: `cleanpipe verify` says so, a replay finds nothing to read.
The audit is made by the real code of the tallies. Bytes depend on rows, rows of a part, and seed alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from synthetic_rows import PART_ROWS, SPAN, UNITS, Maker

from cleanpipe import batch as col
from cleanpipe.audit.build import build_audit, stage_files
from cleanpipe.audit.facts import ledger_tally, merge_samples
from cleanpipe.audit.markdown import to_markdown
from cleanpipe.builtin import READ
from cleanpipe.identity import config_hash
from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import spelled
from cleanpipe.quarantine import QUARANTINE_SCHEMA
from cleanpipe.recipe import fingerprint, load_recipe
from cleanpipe.tally import Tally, add


def make(out: Path | str, rows: int, *, seed: int = 1, part_rows: int = PART_ROWS) -> Path:
    """Write a run folder of so many ledger rows to ``out``, which must not be there yet."""
    folder = Path(out)
    for name in ("ledger", "quarantine", "audit"):
        (folder / name).mkdir(parents=True)
    recipe = replace(load_recipe("web"), description="MADE DATA for benchmarks: no archive and no shard is behind it.")
    maker = Maker(recipe, rows, part_rows, seed)
    parts = -(-rows // part_rows)
    files: dict[str, dict[str, Any]] = {}
    tally: Tally = {}
    ledger_sum: Tally = {}
    samples: dict[str, list[Any]] = {}
    by_source: dict[str, dict[str, int]] = {}
    shards = np.zeros((maker.shards, 2), np.int64)
    aside = 0
    for part in range(parts):
        table, counted = maker.part(part)
        name = f"part-{part:05d}.parquet"
        files[f"ledger/{name}"] = _parquet(folder / "ledger" / name, table)
        failed = table.filter(pc.equal(table.column(col.FATE), col.QUARANTINED))
        if failed.num_rows or part == 0:
            files[f"quarantine/{name}"] = _parquet(folder / "quarantine" / name, _set_aside(failed))
        aside += failed.num_rows
        _index(folder, part, table, files)
        one, seen = ledger_tally(table, maker.have.scores, seed=recipe.audit.seed, samples=recipe.audit.samples)
        samples = merge_samples(samples, seen, recipe.audit.samples)
        add(ledger_sum, one)
        add(tally, counted)
        records = by_source.setdefault(maker.source(part), {"request": 0, "response": 0})
        responses = int(pc.sum(pc.is_valid(table.column(col.RECORD_TYPE))).as_py())
        add(records, {"request": responses, "response": responses})
        which, windows = maker.shard_of
        np.add.at(shards, which, np.stack([windows, windows * 2000], axis=1))
    records = dict.fromkeys(("request", "response"), sum(r["response"] for r in by_source.values()))
    size = parts * SPAN
    add(tally, {READ: {"files": len(by_source), "file_bytes": size, "block_bytes": size * 5, "records": records}})
    _small_files(folder, maker, files, tally, ledger_sum, samples, by_source, shards.tolist(), aside)
    return folder


def _parquet(path: Path, table: pa.Table) -> dict[str, Any]:
    pq.write_table(table, path, compression="zstd", row_group_size=1 << 16, store_schema=True)
    return {"rows": table.num_rows, "bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _set_aside(rows: pa.Table) -> pa.Table:
    n = rows.num_rows
    error = pc.if_else(pc.equal(rows.column(col.REASON), "stage_error"), "RuntimeError", "bad_crc")
    columns = {c: rows.column(c) for c in QUARANTINE_SCHEMA.names if c in rows.schema.names}
    columns |= {"error": error, "message": pa.array(["made"] * n, pa.string()), "trace": pa.nulls(n, pa.string())}
    return pa.table([columns[c] for c in QUARANTINE_SCHEMA.names], schema=QUARANTINE_SCHEMA)


def _index(folder: Path, part: int, table: pa.Table, files: dict[str, dict[str, Any]]) -> None:
    """The index of the part, as a run writes it."""
    try:
        from cleanpipe.queries.index import index_name, index_of
    except ImportError:
        return
    path = folder / index_name(part)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(index_of(table))
    files[index_name(part)] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _small_files(
    folder: Path, maker: Maker, files: dict[str, dict[str, Any]], tally: Tally, ledger_sum: Tally,
    samples: Mapping[str, list[Any]], by_source: Mapping[str, Mapping[str, int]], shards: list[list[int]], aside: int,
) -> None:  # fmt: skip
    """Audit, run.json, recipe and manifest."""
    recipe = maker.recipe
    code = f"made data: {maker.rows} rows, {maker.part_rows} a part, seed {maker.seed}"
    parts = -(-maker.rows // maker.part_rows)
    inputs: list[dict[str, Any]] = [
        {"source": s, "size": min(UNITS, parts - i * UNITS) * SPAN, "sha256": fingerprint(s)}
        for i, s in enumerate(by_source)
    ]
    identity: dict[str, Any] = {"settings": recipe.canonical(), "models": {}, "code": code}
    identity["inputs"] = [{"source": i["source"], "size": i["size"], "stamp": ""} for i in inputs]
    digest = config_hash(identity, inputs)
    said = {"config_hash": digest[:8], "recipe": recipe.name, "code": code, "models": {}, "inputs": inputs}
    audit = build_audit(
        identity=said,
        recipe=recipe,
        stages=[s for p in maker.have.passes for s in p.stages],
        tally=tally,
        ledger=ledger_sum,
        samples=samples,
        by_source=by_source,
        meetings={"minhash_meet": maker.meeting()},
        shards=[
            {
                "file": f"data-{i:05d}-of-{len(shards):05d}.arrow", "rows": rows, "bytes": size, "sha256": "0" * 64,
                "limit": recipe.shards.max_bytes,
            }
            for i, (rows, size) in enumerate(shards)
        ],
    )  # fmt: skip
    run = {
        "made": "by benchmarks/synthetic_ledger.py: no archive and no shard is behind these rows",
        "config_hash": digest[:8], "run_id": digest[:8], "identity": identity,
        "inputs": [
            {**i, "reader": "fast", "reread": "", "units": i["size"] // SPAN, "uri": f"/made/{i['source']}"}
            for i in inputs
        ],
        "failed": {}, "quarantined": aside, "again": 0, "engine": "none", "host": "none", "machine": "none",
        "processors": 1, "started": "2026-11-01T00:00:00+00:00", "ended": "2026-11-01T01:00:00+00:00",
        "wall_seconds": 3600.0, "units": {"total": parts, "resumed": 0, "reused": 0, "retries": 0},
        "work": {"cpu_seconds": 3600.0, "opening_seconds": 1.0, "stage_seconds": {}, "peak_memory_bytes": 1 << 29},
        "versions": {}, "kept_work": False,
    }  # fmt: skip
    texts = {
        "audit/audit.json": spelled(audit),
        "audit/audit.md": to_markdown(audit).encode(),
        "recipe.toml": recipe.to_toml(machine=False).encode(),
        "config_hash.txt": f"{digest[:8]}\n".encode(),
        "run.json": spelled(run),
        **{f"audit/{name}.json": spelled(part) for name, part in stage_files(audit).items()},
    }
    for name, data in texts.items():
        (folder / name).write_bytes(data)
        files[name] = {"bytes": len(data), "sha256": sha256_of(folder / name)}
    manifest = {"format": 1, "config_hash": digest[:8], "files": dict(sorted(files.items()))}
    (folder / "manifest.json").write_bytes(spelled({**manifest, "digest": fingerprint(manifest)}))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part-rows", type=int, default=PART_ROWS, help="rows of one ledger part")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.perf_counter()
    make(args.out, args.rows, seed=args.seed, part_rows=args.part_rows)
    size = sum(f.stat().st_size for f in args.out.rglob("*") if f.is_file())
    facts = {"out": str(args.out), "rows": args.rows, "bytes": size, "seconds": round(time.perf_counter() - began, 1)}
    print(json.dumps({**facts, "made_data": True}))


if __name__ == "__main__":
    main()
