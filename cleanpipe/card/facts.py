"""What the card says, as data: both of its files are made from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.audit.lines import NOT_APPLICABLE, NOT_MEASURED
from cleanpipe.queries.columns import meanings
from cleanpipe.recipe import Recipe
from cleanpipe.stage import Stage

INPUTS = 100  # listed one by one, at most
_FIRST_DAY, _LAST_DAY = "0001-01-01", "9999-12-31"
# labels of language models that follow Wikipedia's names, not ISO 639
_ISO = {"als": "gsw", "bh": "bih", "eml": "", "nah": "", "sh": "hbs", "und": ""}
_CODE = re.compile(r"[a-z]{2,3}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja "
    "jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb "
    "nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq "
    "sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu "
)

LICENCE = (
    "The pages are their authors' works. cleanpipe grants no licence; the archives came under terms of their own "
    "(Common Crawl's are its Terms of Use). Whoever passes these files on has to settle the licence."
)
NOT_DONE = {  # by topic; a stage that does look tells what it did (``Stage.looked_for``)
    "personal": "Personal data was not looked for and not removed by cleanpipe's stages: names, postal and e-mail "
    "addresses, telephone numbers and the like stand as they stood on the pages.",
    "content": "Nothing was judged by what it says: false, hateful, sexual or illegal content was neither looked for "
    "nor removed.",
    "rights": "Copyright, licences in pages, robots.txt and opt-outs after the crawl were not looked at.",
    "evaluation": "Evaluation sets were not searched for: benchmark texts that stand on web pages may be in here.",
}


def captured(table: pa.Table) -> dict[str, int]:
    """Kept documents of a ledger part by the day of their capture, for ``cleanpipe.tally.add``."""
    dates = pc.drop_null(table.filter(pc.equal(table.column(col.FATE), col.KEPT)).column(col.DATE))
    days = pc.value_counts(pc.strftime(dates, format="%Y-%m-%d").combine_chunks()).to_pylist()
    return {d["values"]: d["counts"] for d in days}


def plain(text: str) -> str:
    """Text from outside as it can stand in a file: no lone surrogate."""
    return _SURROGATE.sub("\ufffd", text)


@dataclass(frozen=True, slots=True)
class Card:
    """See ``card_files``."""

    audit: Mapping[str, Any]
    recipe: Recipe
    stages: Sequence[Stage]
    schema: pa.Schema
    captured: Mapping[str, int]

    @property
    def config(self) -> str:
        """Configuration hash, 8 hexadecimal digits."""
        return str(self.audit["identity"]["config_hash"])

    @property
    def title(self) -> str:
        """A name for people."""
        return plain(f"{' '.join(self.recipe.name.split())[:100] or 'unnamed'}, cleaned web text, {self.config}")

    @property
    def documents(self) -> int:
        """Kept documents."""
        return int(self.audit["ledger"]["fates"].get(col.KEPT, {}).get("documents", 0))

    @property
    def rows(self) -> int:
        """Windows: rows of the shards."""
        return int(self.audit["shards"]["rows"]["value"])

    @property
    def characters(self) -> int:
        """Code points of the kept documents; what windows repeat is not counted."""
        return int(self.audit["ledger"]["chars_kept"])

    @property
    def shards(self) -> Sequence[Mapping[str, Any]]:
        """file, rows, bytes, sha256 of each, in order."""
        return list(self.audit["shards"]["files"])

    @property
    def read(self) -> int:
        """Records and damaged ranges that were read."""
        return int(self.audit["ledger"]["rows"])

    @property
    def languages(self) -> list[str]:
        """ISO 639 codes of the kept documents' languages, of more documents first; what is no such code is left out."""
        section = self.audit["languages"]
        kept = section["kept"] if isinstance(section, Mapping) else {}
        found = []
        for label in sorted(kept, key=lambda k: (-kept[k], k)):
            short = re.split("[-_]", label)[0]
            code = _ISO.get(short, short)
            if _CODE.fullmatch(code) and (len(code) == 3 or f"{code} " in _ISO_639_1) and code not in found:
                found.append(code)
        return found

    @property
    def days(self) -> tuple[str, str] | None:
        """First and last day on which a kept document was captured; None where none says."""
        days = sorted(d for d in self.captured if _FIRST_DAY <= d <= _LAST_DAY and len(d) == len(_FIRST_DAY))
        return (days[0], days[-1]) if days else None

    @property
    def inputs(self) -> Sequence[Mapping[str, Any]]:
        """source, size, sha256 of each."""
        return list(self.audit["identity"]["inputs"])

    @property
    def code(self) -> str:
        """SHA-256 of cleanpipe's code; of both, where a run was completed by other code than it began with."""
        identity = self.audit["identity"]
        return " and ".join(str(identity[k]) for k in ("code", "kept_code") if identity.get(k))

    @property
    def models(self) -> dict[str, str]:
        """SHA-256 of every model file, by ``stage.model``."""
        return dict(sorted(self.audit["identity"]["models"].items()))

    def columns(self) -> list[tuple[str, pa.DataType, str]]:
        """Name, type and meaning of every column of the shards."""
        said = meanings(self.schema.names, "shards", self.stages)
        return [(f.name, f.type, said[f.name]) for f in self.schema]

    def settings(self) -> list[tuple[str, bool, dict[str, Any]]]:
        """Of each stage: name, whether it ran, and its options. A path of this machine is cut to its last part."""
        return [(n, on, _without_paths(o)) for n, on, o in self.recipe.canonical()["stages"]]

    def steps(self) -> Iterator[tuple[str, str, int, int, dict[str, int]]]:
        """Of each step of the funnel: name, rule in words, documents in and out, and those lost by reason."""
        for row in self.audit["funnel"]:
            stage = self.audit["stages"][row["stage"]]
            lost = {**stage["dropped"], **stage["quarantined"]}
            lost = dict(sorted(lost.items(), key=lambda item: (-item[1], item[0])))
            yield row["stage"], " ".join(stage["rule"].split()), row["documents"]["in"], row["documents"]["out"], lost

    def balance(self) -> str:
        """One sentence: whether every record is accounted for."""
        lines = self.audit["conservation"]["lines"]
        broken = [line["what"] for line in lines if not line["ok"]]
        if broken:
            return f"The balance does NOT close: {len(broken):,} of {len(lines):,} laws are broken, {broken[0]} first."
        return (
            f"The balance closes: {len(lines):,} laws of records, bytes and characters hold, from the archives to the "
            "shards."
        )

    def looked_for(self) -> dict[str, str]:
        """Of each topic of NOT_DONE, what was not done, or what the last stage that looked for it did."""
        return NOT_DONE | {k: v for stage in self.stages for k, v in stage.looked_for().items()}

    def limits(self) -> list[str]:
        """What was not done, not measured, or should be known before use."""
        out = list(self.looked_for().values())
        languages = ", ".join(self.languages)
        if languages:
            out.append(
                f"Languages ({languages}) were told by a model for whole documents: passages in others may be inside."
            )
        windows = self.audit["windows"]
        if isinstance(windows, Mapping) and isinstance(windows["duplication"]["value"], (int, float)):
            out.append(
                f"Windows overlap: the text is written {windows['duplication']['value']:.2f} times. Without the first "
                f"{col.OVERLAP} characters of each window, the windows of a {col.DOC_ID}, in order, are the document."
            )
        duplicates = self.audit["duplicates"]
        if not isinstance(duplicates, Mapping):
            out.append("Duplicates were not looked for.")
        else:
            out.append("Duplicates were looked for within this run alone, and by whole documents, not by passages.")
        off = [n for n, on, _ in self.settings() if not on]
        if off:
            out.append(f"Switched off in this run: {', '.join(off)}.")
        lost = sum(sum(s["quarantined"].values()) for s in self.audit["stages"].values())
        if lost:
            out.append(f"{lost:,} records or damaged ranges could not be treated and are not in it.")
        raised = [a for a in self.audit["alarms"]["raised"] if not a["by_design"]]
        for kind in sorted({a["kind"] for a in raised}):
            names = sum(a["kind"] == kind for a in raised)
            above = f"{self.audit['alarms']['above']:.0%}".replace("%", " %")
            many = f"{names:,} {kind}{'s lost' if names != 1 else ' lost'}"
            out.append(f"{many} more than {above} of the documents that were wanted: see the run's audit.")
        out += [f"Not measured: {what}: {why}." for what, why in _missing(self.audit)]
        return out


def _missing(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Audit lines that say "not measured" and why, each once."""
    found: dict[str, str] = {}

    def walk(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, Mapping):
            if value.get("value") == NOT_MEASURED and isinstance(value.get("reason"), str):
                found.setdefault(" ".join(path[-1].split("_")), value["reason"])
                return
            for key, part in value.items():
                walk(part, (*path, str(key)))

    for name in ("input", "http", "languages", "scrub", "quality", "duplicates", "windows", "characters"):
        if audit[name] != NOT_APPLICABLE:
            walk(audit[name], (name,))
    return sorted(found.items())


def _without_paths(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_paths(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_paths(v) for v in value]
    if isinstance(value, str):
        digest, at, path = value.rpartition("@") if value.startswith("sha256:") else ("", "", value)
        if path.startswith(("/", "~", "./", "../")) or at:
            return plain(digest + at + path.rpartition("/")[2])
        return plain(value)
    return value
