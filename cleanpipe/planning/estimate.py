"""From a sample's counts to a forecast of the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cleanpipe import batch as col
from cleanpipe.audit.tables import many
from cleanpipe.builtin import READ
from cleanpipe.engine.opened import opened
from cleanpipe.engine.plan import UnitPlan
from cleanpipe.engine.rows import row_cost
from cleanpipe.io.bytesource import is_remote, local_path
from cleanpipe.io.documents import DAMAGED_RANGE
from cleanpipe.io.inputs import Input
from cleanpipe.planning.families import Duplicates, duplicates
from cleanpipe.planning.figures import Forecast, Loss
from cleanpipe.planning.intervals import Floats, Interval, Weights, interval, rare, weigh
from cleanpipe.planning.places import Places
from cleanpipe.planning.reading import Reading, shown
from cleanpipe.planning.trial import MEET, WRITE, Key, Met, Trial, sums
from cleanpipe.recipe import Recipe

MEETING_BYTES = (160, 315)  # of the driver's memory for a document that meets: measured, stages/README.md
UNIT_SECONDS = 0.006  # of the driver for a unit: journal, manifests
FEW = 20  # pairs of places below which the number of duplicates is a guess
_FATES = (col.DROPPED, col.QUARANTINED)
_FIXED = 400  # bytes of a row between passes beside its text, about
_BASE = 190 << 20  # the driver's memory without a document: measured
_REASON, _PACKED = 0.15, 0.03  # doubt about which reason of two; about how well other rows pack
_BUSY = 4.0  # what a machine's other work may make of wall time, at most
_VAGUE = 3.0  # upper by lower end of what is left by the meeting from which duplicates "could not be told"
_CLOCK = 0.10  # CPU seconds of the same work differ by so much on a machine with other work


class Estimate:
    """Figures of one recipe over these inputs, by what was made of the sample. peak: bytes of memory it took.

    starting: wall seconds of a run of one record; None where that was not measured.
    """

    def __init__(
        self,
        recipe: Recipe,
        inputs: Sequence[Input],
        chosen: Places,
        reading: Reading,
        trial: Trial,
        *,
        seed: int,
        peak: int,
        starting: float | None = None,
    ) -> None:
        self.recipe, self.inputs, self.chosen, self.reading, self.trial = recipe, inputs, chosen, reading, trial
        self.peak = peak
        self.count = len(reading.places)
        sizes = [s.size for s in chosen.strata]
        self.weights: Weights = weigh(reading.places, sizes, seed=seed, whole=chosen.whole)
        self.seed, self.starting = seed, starting
        self.twins = self._twins(trial.met)
        self.units = UnitPlan(inputs, recipe.read.unit_bytes)
        self.size = sum(sizes)

    def _twins(self, met: Met) -> Duplicates:
        blocks = sum(s.blocks for s in self.chosen.strata)
        return duplicates(met, self.weights, blocks=blocks, seed=self.seed)

    def total(self, name: object) -> Floats:
        """The estimate of a total and its replicates."""
        return self.weights.totals(self.trial.counts.of(name, self.count))

    def seen(self, name: object) -> float:
        """What the sample has of it."""
        return float(self.trial.counts.of(name, self.count).sum())

    def make(self, cores: Sequence[int]) -> Forecast:
        """All of it."""
        size = self.size
        read = sum(p.size for p in self.reading.places if p.read)
        strata = {s.name: {"files": s.files, "bytes": s.size} for s in self.chosen.strata}
        out = Forecast(
            {"files": len(self.inputs), "bytes": size, "units": len(self.units), "kinds": strata},
            {
                "whole": self.chosen.whole,
                "places": self.count,
                "bytes": read,
                "share": round(self.weights.share, 6),
                "documents": int(self.seen("documents")),
                "documents_compared": len(self.trial.met.place),
            },
        )
        self._documents(out)
        self._bytes(out)
        self._cost(out)
        self._wall(out, cores)
        self._words(out)
        return out

    def _documents(self, out: Forecast) -> None:
        unread = float(len(self.reading.unread) if self.chosen.whole else 0)  # each is one damaged range of the ledger
        documents = self.total("documents") + unread
        duplicate = self._duplicates()
        part = self._part()  # of those that the sample did not see to be duplicates, more are
        kept = np.clip(self.total("kept"), 0, None) * part
        self.kept, self.documents = kept, documents
        later = {name for names in self.trial.stages[1:] for name in names}
        figures = out.figures
        figures["documents"] = interval(documents, least=self.seen("documents"))
        figures["kept"] = interval(kept)
        share = np.divide(kept, documents, out=np.zeros_like(kept), where=documents > 0)
        figures["kept_share"] = interval(share, most=1.0)
        met = self.twins.met
        figures["duplicates_share"] = interval(
            np.divide(duplicate, met, out=np.zeros_like(met), where=met > 0), most=1.0
        )
        of_reason = self._of_reason()
        for key in self.trial.counts.names():
            if not (isinstance(key, tuple) and len(key) == 3 and key[0] in _FATES):
                continue
            count = self.seen(key)
            found = (
                interval(duplicate * of_reason[key])
                if key in of_reason
                else interval(self.total(key) * part)
                if key[1] in later
                else rare(self.total(key), count, self.weights.share, least=count)
            )
            out.losses.append(Loss(key[0], key[1], key[2], found))
        if unread:
            self._unread(out, unread)
        out.losses.sort(key=lambda loss: (-loss.documents.estimate, loss.stage, loss.reason))

    def _of_reason(self) -> dict[Key, Floats]:
        """The duplicates' reasons, as shares of all duplicates."""
        met, weight = self.trial.met, self.twins.weight
        of: dict[Key, Floats] = {}
        for index, key in enumerate(met.reasons):  # a copy that goes as exact in the sample may go as near in the run
            found = self.weights.again(sums(met.place, weight * (met.reason == index), self.count))
            of[key] = found * self._doubt(_REASON * (1 - self.weights.share), index)
        exact = self._exact()
        of = self._shares(of)
        if exact is None or not 0 < len(exact[0]) < len(of):
            return of
        keys, share = exact
        within = [self._shares({k: v for k, v in of.items() if (k in keys) is one}) for one in (True, False)]
        same = {key: values * share for key, values in within[0].items()}
        return same | {key: values * (1 - share) for key, values in within[1].items()}

    @staticmethod
    def _shares(of: dict[Key, Floats]) -> dict[Key, Floats]:
        total: Floats = sum(of.values(), np.zeros(1))
        return {key: np.divide(n, total, out=np.zeros_like(n), where=total > 0) for key, n in of.items()}

    def _exact(self) -> tuple[set[Key], Floats] | None:
        """The reasons that only documents of another's very text have, and these documents' share of all duplicates.

        In a sample a near copy may be what its exact one is in the run, which another place holds.
        """
        met = self.trial.met
        if met.content is None or self.chosen.whole:
            return None
        copy = met.content != np.arange(len(met.content))
        keys: set[Key] = {
            key for i, key in enumerate(met.reasons) if (met.reason == i).any() and copy[met.reason == i].all()
        }
        same = self._twins(replace(met, family=met.content)).documents
        gone = self.twins.documents
        share = np.divide(same, gone, out=np.zeros_like(gone), where=gone > 0)
        return keys, np.clip(share, 0, 1)

    def _doubt(self, spread: float, which: int) -> Floats:
        """Factors for what is no chance of the places: 1 for the estimate, about 1 for the replicates."""
        factors = np.exp(np.random.Generator(np.random.PCG64([which, 2])).normal(0, spread, len(self.weights.rows)))
        factors[0] = 1.0
        return factors

    def _unread(self, out: Forecast, unread: float) -> None:
        whole = Loss(col.QUARANTINED, READ, DAMAGED_RANGE, Interval(unread, unread, unread))
        same = [x for x in out.losses if (x.fate, x.stage, x.reason) == (whole.fate, whole.stage, whole.reason)]
        if same:
            out.losses.remove(same[0])
            more = same[0].documents
            whole = Loss(
                whole.fate,
                READ,
                DAMAGED_RANGE,
                Interval(more.estimate + unread, more.low + unread, more.high + unread),
            )
        out.losses.append(whole)

    def _gone(self) -> Floats:
        """Documents of each place for which the sample has another."""
        met = self.trial.met
        gone = np.flatnonzero(met.family != np.arange(len(met.family)))
        return sums(met.place[gone], None, self.count)

    def _duplicates(self) -> Floats:
        return self.twins.documents if self.trial.named else np.zeros(len(self.weights.rows))

    def _part(self) -> Floats:
        """Survivors of the meeting in all inputs, as a part of what the sample alone would say."""
        said = np.clip(self.twins.met - self.weights.totals(self._gone()), 0, None)
        part = np.divide(self.twins.survivors, said, out=np.ones_like(said), where=said > 0)
        return part if self.trial.named and not self.chosen.whole else np.ones_like(part)

    def _further(self) -> Floats:
        """Survivors' text in all inputs, as a part of what the sample alone would say."""
        twins, met = self.twins, self.trial.met
        alone = np.flatnonzero(met.family == np.arange(len(met.family)))
        said = self.weights.totals(sums(met.place[alone], met.text[alone], self.count))
        left = np.clip(twins.met_text - twins.text, 0, None)
        part = np.divide(left, said, out=np.ones_like(said), where=said > 0)
        return part if self.trial.named and not self.chosen.whole else np.ones_like(part)

    def _bytes(self, out: Forecast) -> None:
        trial, figures = self.trial, out.figures
        self.further = further = self._further()
        rows, sizes = self.total("rows") * further, self.total("row_bytes") * further
        if self.seen("rows") >= self.seen("kept"):  # every document that is kept has a row
            rows = np.maximum(rows, self.kept)
        cost, options = row_cost(opened(self.recipe).shard), self.recipe.shards
        limit = options.max_bytes - cost.base - cost.batch
        planned = sizes + rows * -(-cost.batch // options.batch_rows)
        written = sum(trial.shards)
        seen = self.seen("row_bytes")
        if self.chosen.whole and not self.reading.unread:
            output, shards = np.full_like(sizes, written), np.full_like(sizes, len(trial.shards))
        else:
            output = sizes * (written / seen if seen else 1.0)
            shards = np.maximum(1, np.ceil(planned / limit))
        figures["rows"], figures["output_bytes"] = interval(rows), interval(output)
        count = interval(shards, least=1)
        figures["shards"] = Interval(count.estimate, np.floor(count.low), np.ceil(count.high))
        work = np.full(len(sizes), float(trial.empty * len(self.units)))
        passes = len(trial.work)
        for index, size in enumerate(trial.work):
            last = index == passes - 1
            base = self.total("row_bytes") * further if last else self.twins.met_text + _FIXED * self.twins.met
            met = self.trial.met
            here = seen if last else float(met.text.sum() + _FIXED * len(met.text))
            work += base * (size / here if here else 0.0)
        whole, empty = trial.ledger
        read = self.seen("documents")
        work += self.documents * (trial.fates / read if read else 0.0)
        ledger = self.documents * ((whole - empty) / read if read else 0.0) + len(self.units) * empty
        ledger = ledger * self._doubt(_PACKED, 102)
        figures["work_bytes"], figures["ledger_bytes"] = interval(work), interval(ledger)
        figures["peak_disk_bytes"] = interval(work + ledger + output)
        remote = sum(i.size for i in self.inputs if is_remote(i.uri))
        figures["network_bytes"] = Interval(remote, remote, remote)

    def _cost(self, out: Forecast) -> None:
        """CPU by stage. What later passes do goes with the documents that survive the meeting."""
        total = np.zeros(len(self.weights.rows))
        read = self.weights.totals(np.array([p.cpu for p in self.reading.places]))
        costs = {READ: read}
        write = np.zeros_like(total)
        for index, stages in enumerate(self.trial.stages):
            more = self.further if index else np.ones_like(total)
            for name in stages:
                costs[name] = self.total(("cpu", index, name)) * more
            write = write + self.total(("cpu", index, WRITE)) * more
        met, seen = self.twins.met, len(self.trial.met.place)
        if len(self.trial.stages) > 1:
            each = self.trial.meeting / seen if seen else 0.0
            more = np.clip(self.twins.documents - self.weights.totals(self._gone()), 0, None)
            costs[MEET] = each * (met + 2 * more)
        rows = self.seen("rows")
        published = self.total("rows") * self.further
        write = write + (self.trial.publish * published / rows if rows else self.trial.publish)
        costs[WRITE] = write + UNIT_SECONDS * len(self.units)
        clock = self._doubt(_CLOCK, 101)
        for name, values in costs.items():
            out.cpu[name] = interval(values * clock)
            total = total + values
        total *= clock
        self.cpu, self.serial = total, costs.get(MEET, np.zeros_like(total)) + UNIT_SECONDS * len(self.units)
        out.figures["cpu_seconds"] = interval(total)
        base = min(self.peak, _BASE)
        low, high = (n * MEETING_BYTES[i] for i, n in enumerate((interval(met).low, interval(met).high)))
        middle = float(met[0]) * sum(MEETING_BYTES) / 2
        held = (64 << 20) if seen else 0
        out.figures["worker_memory"] = Interval(self.peak, self.peak * 0.8, self.peak * 1.3)
        out.figures["driver_memory"] = Interval(base + held / 2 + middle, base + low, base + held + high)

    def _wall(self, out: Forecast, cores: Sequence[int]) -> None:
        largest = max((self.units[n].size for n in range(min(len(self.units), 100_000))), default=0)
        longest = self.cpu * (largest / self.size if self.size else 0.0)
        starting = self.trial.opening if self.starting is None else self.starting
        for count in sorted(set(cores)):
            parallel = np.clip(self.cpu - self.serial, 0, None)
            values = np.maximum(parallel / count, longest) + self.serial + starting
            found = interval(values)
            busy = max(found.high * min(self.trial.stretch, _BUSY), found.high)
            out.wall[count] = Interval(found.estimate, found.low, busy)
        out.starting = starting
        if max(cores) > len(self.units):
            out.assumptions.append(
                f"{many(len(self.units), 'unit')} (read.unit_bytes): no more cores have work in the first pass"
            )

    def _words(self, out: Forecast) -> None:
        say = out.assumptions.append
        if self.chosen.whole:
            say("the inputs are no larger than the sample: all was read, and counts, rows and output are exact")
        else:
            say(
                f"{many(self.count, 'place')} of {self.chosen.block:,} compressed bytes, drawn by a hash of the seed, "
                f"hold {self.weights.share:.2%} of the inputs; what was not read is as what was"
            )
            say("intervals: 90 %, a bootstrap over the places; they tell chance, no other error")
        if len(self.trial.met.place) and not self.chosen.whole:
            self._say_duplicates(out)
        say(
            "CPU seconds are this machine's, with whatever else ran on it now (the intervals allow 10 % for that); "
            "other processors differ"
        )
        say("wall time: (CPU - meeting) / cores, no less than the largest unit takes, + meeting + starting (a run of "
            "one record, measured); the upper end allows for other work on this machine as the sample met it; storage, "
            "network and cores that share a processor are taken to keep up")  # fmt: skip
        say(
            "disk: work/ holds the texts between passes and is removed at the end, so the peak is work/, shards, ledger"
        )
        if self.reading.uncut:
            out.warnings.append(
                f"{shown(self.reading.uncut)} cannot be cut (one compressed member, zstd, plain ARC): read from the "
                "start alone, which may not be as the rest"
            )
        if self.reading.unread:
            source, why = next(iter(self.reading.unread.items()))
            rest = len(self.reading.unread) - 1
            others = f" (and {rest:,} more)" if rest else ""
            left = "" if self.chosen.whole else "; counted as the others, a run would set them aside"
            out.warnings.append(f"{source}{others} could not be read: {why}{left}")
        whole = self.chosen.whole
        unknown = sum(1 for i in self.inputs if i.size <= 0 and not (whole and local_path(i.uri) is not None))
        if unknown:
            out.warnings.append(f"{many(unknown, 'input')} of no or unknown size: no part of this plan")

    def _say_duplicates(self, out: Forecast) -> None:
        if not self.trial.named:
            out.assumptions.append("the meeting names no keeper: what it takes out is taken to be as in the sample")
            return
        seen = self.twins.seen
        text = (
            f"duplicates: the sample shows {seen:,} across places; of copies that lie anywhere it shows about "
            f"{self.weights.share:.2%} squared, so the rest is an estimate (unseen families, EM)"
        )
        out.assumptions.append(text)
        left = interval(self.twins.survivors)
        if seen < FEW:
            out.warnings.append(
                f"only {many(seen, 'duplicate')} across places seen: how many there are is hardly known, and kept "
                "documents and output may be far fewer; a larger --sample-bytes tells more"
            )
        elif left.high > _VAGUE * max(left.low, 1.0):
            out.warnings.append(
                f"duplicates could not be told: between {left.low:,.0f} and {left.high:,.0f} documents are left of "
                f"{self.twins.met[0]:,.0f} that are compared; a larger --sample-bytes tells more"
            )
