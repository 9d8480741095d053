"""Rows of a made ledger, part by part: columns like a crawl's, and the fates that recipe ``web`` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import synthetic_columns as made

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.builtin import READ
from cleanpipe.engine.opened import opened
from cleanpipe.recipe import Recipe
from cleanpipe.tally import Tally
from cleanpipe_stages.quality.judge import CHARS, FIGURES, REASONS, fails
from cleanpipe_stages.quality.measure import PARAGRAPHS

PART_ROWS = 20_000  # about what 64 MiB of a WARC hold
SPAN = 64 << 20
UNITS = 15  # of one file
SHARD_ROWS = 500_000  # ledger rows whose kept ones fill a shard
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
LANGUAGES: dict[str, float] = {
    "en": 45,
    "ru": 6,
    "de": 6,
    "zh": 5,
    "ja": 5,
    "fr": 5,
    "es": 5,
    "it": 3,
    "nl": 2,
    "pl": 2,
    "pt": 2,
    "und": 1,
}
STATUS: dict[str, float] = {"200": 87, "404": 4, "301": 3, "302": 3, "403": 1.5, "500": 1, "503": 0.3, "206": 0.2}
TYPES: dict[str, float] = {
    "text/html": 93,
    "application/xhtml+xml": 2,
    "text/plain": 1,
    "application/pdf": 1.6,
    "image/jpeg": 1.4,
    "application/json": 1,
}
CHARSETS: dict[str, float] = {"utf-8": 93, "iso-8859-1": 3, "windows-1251": 2, "shift_jis": 1, "gbk": 1}


class Maker:
    """Rows part by part. Duplicates name kept rows of this part or of earlier ones."""

    def __init__(self, recipe: Recipe, rows: int, part_rows: int, seed: int) -> None:
        self.recipe, self.have = recipe, opened(recipe)
        self.rows, self.part_rows, self.seed = rows, part_rows, seed
        stages = {s.name: s for p in self.have.passes for s in p.stages}
        self.stages: Any = stages
        self.hosts = made.host_names()
        self.pool: Ints = np.zeros(0, np.int64)  # kept rows so far
        self.stands = np.zeros(rows, np.int32)  # how many rows each one stands for
        self.shards = max(1, -(-rows // SHARD_ROWS))
        self.hundredths = np.zeros(101, np.int64)

    def source(self, part: int) -> str:
        """The file that a part is of."""
        return f"crawl-data/CC-MAIN-2026-47/warc/CC-MAIN-20261101000000-made-{part // UNITS:05d}.warc.gz"

    def part(self, part: int) -> tuple[pa.Table, Tally]:
        """One part's ledger, and its tally by stage."""
        first = part * self.part_rows
        at = np.arange(first, min(first + self.part_rows, self.rows))
        n, rng = len(at), np.random.default_rng([self.seed, part])
        c: dict[str, Any] = {}
        length = np.maximum(400, rng.lognormal(np.log(SPAN / self.part_rows) - 0.5, 1.0, n)).astype(np.int64)
        begin = np.concatenate([[0], np.cumsum(length)[:-1]])
        broken, raised = rng.random(n) < 0.0005, rng.random(n) < 0.0002
        status, codes = made.pick(rng, n, STATUS)
        kind, types = made.pick(rng, n, TYPES)
        dns = ~broken & (rng.random(n) < 0.002)
        read = ~broken & ~dns
        c[col.DOC_ID] = made.ids(made.sixteen(at, self.seed * 4))
        c[col.SOURCE] = made.labels(np.zeros(n, np.int64), [self.source(part)])
        c[col.RECORD_OFFSET] = pa.array(begin + part % UNITS * SPAN)
        c[col.RECORD_LENGTH], c[col.OFFSET_KIND] = pa.array(length), made.labels(np.zeros(n, np.int64), ["file"])
        c[col.RECORD_ID] = made.record_ids(at, self.seed * 4 + 1, broken)
        c[col.RECORD_TYPE] = made.labels(np.zeros(n, np.int64), ["response"], broken)
        c[col.URL] = pc.if_else(pa.array(broken), pa.scalar(None, pa.string()), made.urls(rng, self.hosts, n, 0.02))
        c[col.DATE] = pa.array(1_793_491_200 + rng.integers(0, 1_000_000, n), mask=broken).cast(col.TIME)
        c[col.HTTP_STATUS] = made.labels(status, codes, ~read).cast(pa.int16())
        c[col.IS_HTTP] = pa.array(read, mask=broken)
        c[col.DECLARED_TYPE] = c[col.MEDIA_TYPE] = made.labels(kind, types, ~read)
        c[col.PAYLOAD_TYPE] = c[col.SNIFFED_TYPE] = made.labels(kind, types, ~read | (rng.random(n) < 0.05))
        c[col.BYTES_IN] = pa.array(np.where(broken, 0, rng.lognormal(np.log(45_000), 1.0, n)).astype(np.int64))
        self.fates = np.full((3, n), None, object)
        self.alive = np.ones(n, bool)
        self.tally: Tally = {}
        self._steps: list[tuple[str, Flags, Flags, dict[str, int], Any]] = []
        self._sizes = c[col.BYTES_IN].to_numpy(), made.characters(at)
        self._go(READ, {"damaged_range": broken}, fate=col.QUARANTINED)
        http = {"not_http": dns, "bad_status": status > 0, "bad_type": kind > 2}
        self._go("http_filter", http)
        self._go("url_filter", {})
        decoded = self.alive
        self._go("decode", {})
        self._go("rights", {})
        c |= self._language(rng, n, raised, kind < 2)
        c |= self._quality(rng, n)
        c |= self._duplicates(rng, at)
        c[col.CHARSET] = made.labels(*made.pick(rng, n, CHARSETS), ~decoded)
        c |= self._kept(at)
        for i, name in enumerate((col.FATE, col.STAGE, col.REASON)):
            c[name] = pa.array(self.fates[i], pa.string())
        return ledger.finish(ledger.conform(c, n, self.have.ledger)), self.tally

    def _go(self, stage: str, drops: Mapping[str, Flags], *, fate: str = col.DROPPED, facts: Any = None) -> None:
        """Take out what the stage drops; the first reason counts."""
        before = self.alive
        reasons: dict[str, int] = {}
        for reason, flags in drops.items():
            gone = self.alive & flags
            if gone.any():
                self.fates[:, gone] = np.array([[fate], [stage], [reason]], object)
                reasons[reason] = int(gone.sum())
                self.alive = self.alive & ~gone
        self._steps.append((stage, before, self.alive, reasons, facts))

    def _count(self) -> None:
        """The tally of every stage, once the sizes of all texts are known."""
        for stage, before, out, reasons, facts in self._steps:
            size, (old, new) = self._sizes[0], self._chars(stage)
            lost, change = before & ~out, (new - old)[out]
            counts = {"docs_in": before.sum(), "docs_out": out.sum(), "rows_out": out.sum()}
            counts |= {"bytes_in": size[before].sum(), "bytes_out": size[out].sum(), "skipped": 0}
            counts |= {"chars_in": old[before].sum(), "chars_dropped": old[lost].sum(), "chars_out": new[out].sum()}
            counts |= {"chars_removed": -change[change < 0].sum(), "chars_added": change[change > 0].sum()}
            whole: Tally = {k: int(v) for k, v in counts.items()}
            self.tally[stage] = {**whole, "dropped": reasons, "facts": dict(facts or {})}

    def _chars(self, stage: str) -> tuple[Ints, Ints]:
        """Characters of each row before and after the stage: none, then as many as bytes, then those of its text."""
        none, (markup, text) = np.zeros(len(self.alive), np.int64), self._sizes
        if stage in (READ, "http_filter", "url_filter"):
            return none, none
        if stage == "decode":
            return none, markup
        if stage in ("rights", "language_preview"):
            return markup, markup
        return (markup, text) if stage == "html_scrub" else (text, text)

    def _language(self, rng: np.random.Generator, n: int, raised: Flags, html: Flags) -> dict[str, pa.Array]:
        code, names = made.pick(rng, n, LANGUAGES)
        glance = np.where(rng.random(n) < 0.97, code, 0)
        silent = glance == len(names) - 1
        sure = np.where(silent, 0.0, np.round(rng.beta(6, 1.2, n), 6))
        preview = self.stages["language_preview"]
        seen = self.alive & html
        wanted = [names.index(x) for x in preview.languages if x in names]
        letters = np.where(
            rng.random(n) < 0.2, rng.integers(0, preview.letters, n), rng.integers(preview.letters, 500, n)
        )
        letters = np.where(silent, 0, letters)
        other = seen & ~np.isin(glance, wanted) & (sure >= preview.confidence) & (letters >= preview.letters)
        self._go("language_preview", {"other_language": other})
        out = {
            "language_preview_letters": pa.array(letters.astype(np.int32), mask=~seen),
            col.LANGUAGE_PREVIEW: made.labels(glance, names, ~seen),
            col.LANGUAGE_PREVIEW_SCORE: pa.array(sure, mask=~seen),
        }
        self._go("html_scrub", {"empty": rng.random(n) < 0.004, "stage_error": raised})
        self.fates[0, self.fates[2] == "stage_error"] = col.QUARANTINED
        self._go("normalise", {"empty_text": rng.random(n) < 0.002}, facts={"before documents": n // 300})
        judged, limits = self.alive, self.stages["language_id"].limits()
        score = np.round(1 - rng.beta(0.5, 4, n), 6)
        limit = np.array([limits.get(x, np.inf) for x in names])[code]
        silent = code == len(names) - 1
        drops = {"no_text": silent, "other_language": np.isinf(limit), "low_confidence": score < limit}
        self._go("language_id", drops)
        score = np.where(silent, 0.0, score)
        out |= {col.LANGUAGE: made.labels(code, names, ~judged), col.LANGUAGE_ID_SCORE: pa.array(score, mask=~judged)}
        out[col.CHARS_OUT] = pa.array(self._sizes[1], mask=~judged)
        self._texts = judged
        return out

    def _quality(self, rng: np.random.Generator, n: int) -> dict[str, pa.Array]:
        seen, chars = self.alive, self._sizes[1]
        self._judged = seen
        entropy = rng.normal(4.2, 0.18, n) - np.where(rng.random(n) < 0.02, 1.0, 0.0)
        raw = [
            entropy, entropy + 0.04, 1 - rng.beta(0.4, 20, n), rng.beta(1, 40, n),
            np.where(rng.random(n) < 0.02, rng.random(n), rng.beta(0.4, 20, n)),
            rng.normal(0.46, 0.07, n).clip(0.02, 1),
        ]  # fmt: skip
        scores = {name: np.round(values, 6) for name, values in zip(FIGURES, raw, strict=True)}
        scores[col.PERPLEXITY] = np.round(rng.lognormal(np.log(900), 0.9, n), 6)
        scores |= dict.fromkeys(PARAGRAPHS, scores[col.PERPLEXITY])  # of one paragraph
        failed = fails(chars, pa.array(["en"] * n), scores, self.stages["quality_score"].limits())
        table = np.array([failed[r] & seen for r in REASONS])
        alone = table.sum(axis=0) == 1
        facts = {f"failed_{r}": int(f.sum()) for r, f in zip(REASONS, table, strict=True)}
        facts |= {f"alone_{r}": int((f & alone).sum()) for r, f in zip(REASONS, table, strict=True)}
        self._go("quality_score", failed, facts=facts)
        self._go("minhash_sign", {})
        out = {name: pa.array(v, mask=~seen) for name, v in scores.items()}
        out["shingles"] = pa.array((chars // 6).astype(np.int32), mask=~self.alive)
        return out

    def _duplicates(self, rng: np.random.Generator, at: Ints) -> dict[str, pa.Array]:
        """About a tenth of all rows, each of one that is kept: of any with equal chance, or one of a few big groups."""
        n, threshold = len(at), self.stages["minhash_drop"].threshold
        reached = np.flatnonzero(self.alive)
        twice = rng.random(n) < 0.1 * n / max(len(reached), 1)
        if len(reached):
            twice[reached[0]] = False  # one there must be to stand for the others
        gone = np.flatnonzero(self.alive & twice)
        self.pool = np.concatenate([self.pool, at[self.alive & ~twice]])
        u = rng.random(len(gone))
        u = np.where(rng.random(len(gone)) < 0.3, u**12, u)
        keeper = self.pool[(len(self.pool) * u).astype(np.int64)] if len(gone) else gone
        own = self._sizes[1][gone] >= self.stages["quality_score"].judge_from  # with the text of another: judged alike
        exact = own & (rng.random(len(gone)) < 0.4)
        jaccard = np.where(exact, 1.0, np.round(threshold + (1 - threshold) * rng.random(len(gone)) * 0.999, 6))
        np.add.at(self.stands, keeper, 1)
        np.add.at(self.hundredths, (jaccard * 100).astype(np.int64), 1)
        same, content = np.zeros(n, bool), at.copy()
        same[gone[exact]] = True
        content[gone[exact]] = keeper[exact]
        self._sizes[1][gone[exact]] = made.characters(keeper[exact])
        names = np.zeros((n, 16), np.uint8)
        names[gone], values = made.sixteen(keeper, self.seed * 4), np.zeros(n)
        values[gone] = jaccard
        missing = ~(self.alive & twice)
        stands = at.copy()
        stands[gone] = keeper
        related = self.alive & made.alike(stands)
        self._go("minhash_drop", {"exact_duplicate": same, "near_duplicate": twice})
        return {
            col.KEPT_DOC_ID: made.ids(names, missing),
            col.JACCARD: pa.array(values, mask=missing),
            "minhash_drop_component": made.ids(made.sixteen(stands, self.seed * 4)[:, :8], ~related),
            col.CONTENT_ID: made.ids(made.sixteen(content, self.seed * 4 + 2), ~self._texts),
            col.CHARS_OUT: pa.array(self._sizes[1], mask=~self._texts),
            CHARS: pa.array(self._sizes[1], mask=~self._judged),
        }

    def _kept(self, at: Ints) -> dict[str, pa.Array]:
        cut, chars = self.stages["windowing"], self._sizes[1]
        windows = np.maximum(1, -(-(chars - cut.overlap) // (cut.size - cut.overlap)))
        kept = self.alive
        again = int(((windows - 1) * cut.overlap)[kept].sum())
        self._go("windowing", {})
        self._go("utf8_normalize", {})
        self._count()
        total = int(windows[kept].sum())
        self.tally["windowing"] |= {"rows_out": total, "chars_added": again}
        self.tally["windowing"]["chars_out"] += again
        for name in ("chars_in", "chars_out"):
            self.tally["utf8_normalize"][name] += again
        self.tally["utf8_normalize"]["rows_out"] = total
        which = at * self.shards // self.rows
        self.shard_of = which[kept], windows[kept]
        names = [f"data-{i:05d}-of-{self.shards:05d}.arrow" for i in range(self.shards)]
        return {
            col.WINDOWS: pa.array(windows.astype(np.int32), mask=~kept),
            col.SHARD: made.labels(which, names, ~kept),
        }

    def meeting(self) -> dict[str, Any]:
        """What a meeting reports, as far as it can be said of documents that never met."""
        sizes, counts = np.unique(self.stands[self.stands > 0] + 1, return_counts=True)
        return {
            "documents": len(self.pool) + int(self.stands.sum()),
            "threshold": self.stages["minhash_drop"].threshold,
            "cluster_sizes": {str(s): n for s, n in zip(sizes.tolist(), counts.tolist(), strict=True)},
            "jaccard_histogram": {f"{i / 100:.2f}": int(n) for i, n in enumerate(self.hundredths) if n},
        }
