"""Runs made by us for questions that read the ledger alone: a population of pages by host, and a run folder around
any of its rows.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.audit.build import build_audit
from cleanpipe.audit.facts import ledger_tally
from cleanpipe.recipe import fingerprint, load_recipe

LANGUAGES, CHARSETS = ["en", "de", "fr", "zh"], ["utf-8", "windows-1252", "gbk"]
STATUSES, TYPES = ["200", "404", "301"], ["text/html", "text/plain", "application/pdf"]


def population(seed, pages=6000, hosts=150, files=12):
    """Pages as columns. Each host has languages, charsets, errors and quality of its own, and a size by Zipf's law."""
    rng = np.random.default_rng(seed)
    sizes = 1 / np.arange(1, hosts + 1) ** 0.6
    host = rng.choice(hosts, pages, p=sizes / sizes.sum())

    def own(options, alpha):
        """Each host its own mix of the options."""
        mixes = rng.dirichlet(alpha, hosts).cumsum(1)
        return np.array(options)[(rng.random(pages)[:, None] > mixes[host]).sum(1).clip(0, len(options) - 1)]

    confidence = np.clip(rng.normal(0.85, 0.06, hosts)[host] + rng.normal(0, 0.07, pages), 0, 1)
    return {
        "host": host,
        "file": rng.integers(0, files, pages),
        "language": own(LANGUAGES, [3, 0.6, 0.5, 0.4]),
        "charset": own(CHARSETS, [5, 0.6, 0.2]),
        "status": own(STATUSES, [8, 0.7, 0.5]),
        "type": own(TYPES, [9, 0.4, 0.3]),
        "score": np.round(confidence, 6),
        "perplexity": np.round(rng.lognormal(rng.normal(7, 0.4, hosts)[host], 0.5), 6),
        "chars": rng.lognormal(rng.normal(7.5, 0.5, hosts)[host], 0.8).astype(int) + 1,
        "twice": rng.random(pages) < 0.08,
        "names": np.array([f"host{i}.example" for i in range(hosts)])[host],
        "salt": np.full(pages, str(seed)),
    }


def some(pages, which):
    """Those rows of the population for which ``which`` is true."""
    return {name: values[which] for name, values in pages.items()}


def rows(pages, threshold=0.65, most_perplexity=5000.0, salt=""):
    """The ledger of these pages, with the fates that the limits give them. A page's ids depend on the page alone."""
    n = len(pages["host"])
    key = [
        f"{s}{salt}/{h}/{f}/{x}/{p}"
        for s, h, f, x, p in zip(*(pages[k] for k in ("salt", "names", "file", "score", "perplexity")), strict=True)
    ]
    ids = [hashlib.sha256(k.encode()).digest()[:16] for k in key]
    fate, stage, reason = (np.full(n, None, object) for _ in range(3))
    alive = np.ones(n, bool)

    def drop(name, why, mask):
        gone = alive & mask
        fate[gone], stage[gone], reason[gone] = "dropped", name, why
        alive[gone] = False

    drop("http_filter", "bad_status", pages["status"] != "200")
    drop("http_filter", "bad_type", pages["type"] == "application/pdf")
    decoded = alive.copy()
    drop("language_id", "other_language", pages["language"] != "en")
    drop("language_id", "low_confidence", pages["score"] < threshold)
    scored = alive.copy()
    drop("quality_score", "high_perplexity", pages["perplexity"] > most_perplexity)
    double = pages["twice"] & alive
    drop("minhash_drop", "near_duplicate", double)
    fate[alive] = "kept"
    columns = {
        col.DOC_ID: pa.array(ids, col.ID),
        col.SOURCE: pa.array([f"crawl-{f:03d}.warc.gz" for f in pages["file"]]),
        col.RECORD_OFFSET: pa.array(np.arange(n) * 1000),
        col.RECORD_LENGTH: pa.array(np.full(n, 900)),
        col.RECORD_ID: pa.array([f"<urn:uuid:{hashlib.md5(k.encode()).hexdigest()}>" for k in key]),
        col.RECORD_TYPE: pa.array(["response"] * n),
        col.URL: pa.array([f"https://{h}/{i.hex()}" for h, i in zip(pages["names"], ids, strict=True)]),
        col.DATE: pa.array(np.full(n, 1_790_000_000)).cast(col.TIME),
        col.FATE: pa.array(fate, pa.string()),
        col.STAGE: pa.array(stage, pa.string()),
        col.REASON: pa.array(reason, pa.string()),
        col.HTTP_STATUS: pa.array(pages["status"]).cast(pa.int16()),
        col.IS_HTTP: pa.array(np.ones(n, bool)),
        col.DECLARED_TYPE: pa.array(pages["type"]),
        col.SNIFFED_TYPE: pa.array(pages["type"]),
        col.MEDIA_TYPE: pa.array(pages["type"]),
        col.CHARSET: pa.array(pages["charset"], mask=~decoded),
        col.BYTES_IN: pa.array(pages["chars"] * 12),
        col.CHARS_OUT: pa.array(pages["chars"], pa.int64(), mask=~decoded),
        col.LANGUAGE: pa.array(pages["language"], mask=~decoded),
        col.LANGUAGE_ID_SCORE: pa.array(pages["score"], mask=~decoded),
        col.PERPLEXITY: pa.array(pages["perplexity"], mask=~scored),
        col.CONTENT_ID: pa.array([hashlib.sha256(i + b"text").digest()[:16] for i in ids], col.ID, mask=~decoded),
        col.KEPT_DOC_ID: pa.array([ids[0] if ids else b"" for _ in ids], col.ID, mask=~double),
        col.JACCARD: pa.array(np.full(n, 0.9), mask=~double),
        col.WINDOWS: pa.array(np.ones(n, np.int32), mask=~alive),
    }
    return ledger.conform(columns, n, ledger.schema({}))


def write_run(folder, table, *, sets=(), parts=1, files=None, change=None, seed=0):
    """A run folder with this ledger. files: its inputs as {source: digest}; by default those of the rows.

    change: a function of the audit, before it is written.
    """
    folder = Path(folder)
    (folder / "ledger").mkdir(parents=True)
    (folder / "audit").mkdir()
    recipe = load_recipe("web", list(sets))
    bounds = [table.num_rows * i // parts for i in range(parts + 1)]
    for i in range(parts):
        pq.write_table(table.slice(bounds[i], bounds[i + 1] - bounds[i]), folder / "ledger" / f"part-{i:05d}.parquet")
    if files is None:
        names = sorted(set(table.column(col.SOURCE).to_pylist()))
        files = {name: hashlib.sha256(f"{name}{seed}".encode()).hexdigest() for name in names}
    inputs = [{"source": s, "size": 1000, "sha256": d} for s, d in sorted(files.items())]
    identity = {
        "code": "0" * 64,
        "models": {},
        "inputs": inputs,
        "recipe": recipe.name,
        "config_hash": fingerprint(recipe.canonical())[:8],
    }
    audit = audit_of(table, recipe, identity)
    if change is not None:
        change(audit)
    (folder / "audit" / "audit.json").write_text(json.dumps(audit))
    facts = {
        "identity": {**{k: v for k, v in identity.items() if k != "config_hash"}, "settings": recipe.canonical()},
        "inputs": [{**i, "uri": f"/in/{i['source']}"} for i in inputs],
        "units": {"total": parts}, "versions": {"cleanpipe": "0.1.0"}, "failed": {},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(facts, default=list))
    (folder / "recipe.toml").write_text(recipe.to_toml(machine=False))
    (folder / "manifest.json").write_text(json.dumps({"files": {}, "config_hash": identity["config_hash"]}))
    return folder


def audit_of(table, recipe, identity):
    """The audit that the real code makes of these rows, each counted where it was lost."""
    stages = recipe.pipeline().complete()
    scores = {n: t for n, t in ledger.score_columns({}).items() if n in table.schema.names}
    tally, samples = ledger_tally(table, scores, seed=0, samples=3)
    by_stage = {}
    lost = {}
    columns = (table.column(n).to_pylist() for n in (col.STAGE, col.REASON, col.BYTES_IN, col.CHARS_OUT))
    for stage, reason, size, chars in zip(*columns, strict=True):
        entry = lost.setdefault(stage, {"n": 0, "bytes": 0, "chars": 0, "dropped": {}})
        entry["n"] += 1
        entry["bytes"] += size or 0
        entry["chars"] += chars or 0
        if reason:
            entry["dropped"][reason] = entry["dropped"].get(reason, 0) + 1
    docs, size = table.num_rows, sum(e["bytes"] for e in lost.values())
    chars, seen = sum(e["chars"] for e in lost.values()), False
    for name in ["read", *(s.name for s in stages)]:
        gone = lost.get(name, {"n": 0, "bytes": 0, "chars": 0, "dropped": {}})
        seen = seen or name == "decode"
        by_stage[name] = {
            "docs_in": docs, "docs_out": docs - gone["n"], "rows_out": docs - gone["n"], "bytes_in": size,
            "bytes_out": size - gone["bytes"], "chars_in": chars if seen else 0,
            "chars_out": chars - gone["chars"] if seen else 0, "chars_dropped": gone["chars"],
            "dropped": gone["dropped"], "facts": {},
        }  # fmt: skip
        docs, size, chars = docs - gone["n"], size - gone["bytes"], chars - gone["chars"]
    return build_audit(
        identity=identity, recipe=recipe, stages=stages, tally=by_stage, ledger=tally, samples=samples,
        by_source={}, meetings={}, shards=[],
    )  # fmt: skip
