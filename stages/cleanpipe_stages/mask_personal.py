"""mask_personal: puts placeholders in the place of e-mail addresses, IP addresses and telephone numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Outcome, Stage, Step, option
from cleanpipe.text.normalise import normalise
from cleanpipe_stages._checks import one_of
from cleanpipe_stages.personal.find import EMAIL, IP, PHONE
from cleanpipe_stages.personal.mask import Masked, Placeholders, masked

KINDS = (EMAIL, IP, PHONE)
EMAILS, IPS, PHONES = "mask_personal_emails", "mask_personal_ips", "mask_personal_phones"
_COUNTS = {EMAILS: EMAIL, IPS: IP, PHONES: PHONE}


@dataclass(frozen=True, kw_only=True)
class MaskPersonal(Stage):
    """Changes texts, drops none. Stands after minhash_drop, so that what is a duplicate is judged on the true text, and
    before windowing. Private, local and documentation addresses stay.

    The placeholders are addresses and numbers that are reserved for examples and belong to nobody, so the text stays
    natural. A masked text is masked again without a change; its placeholders are not counted.
    """

    name: ClassVar[str] = "mask_personal"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT, col.LENGTH, col.BYTES})
    writes: ClassVar[Mapping[str, pa.DataType]] = col.TEXT_COLUMNS
    scores: ClassVar[Mapping[str, pa.DataType]] = dict.fromkeys(_COUNTS, pa.int32())
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    meanings: ClassVar[Mapping[str, str]] = {
        EMAILS: "e-mail addresses that were replaced",
        IPS: "public IP addresses that were replaced",
        PHONES: "telephone numbers that were replaced",
    }

    kinds: tuple[str, ...] = option(KINDS, f"what is replaced, of {', '.join(KINDS)}")
    email: str = option("email@example.com", "in place of an e-mail address", source="RFC 2606, and FineWeb's choice")
    ipv4: str = option("192.0.2.1", "in place of a public IPv4 address", source="RFC 5737, for documentation")
    ipv6: str = option("2001:db8::1", "in place of a public IPv6 address", source="RFC 3849, for documentation")
    phone: str = option(
        "202-555-0100", "in place of a telephone number", source="NANPA, 555-0100 to 0199 are fictional"
    )

    def check(self) -> None:
        """Raises ConfigError for an unknown kind, or a placeholder that is no normal text."""
        for kind in self.kinds:
            one_of(self.name, "kinds", kind, KINDS)
        for name in ("email", "ipv4", "ipv6", "phone"):
            value = getattr(self, name)
            if not value or normalise(value, whitespace="space") != value:
                raise ConfigError(f"{name} = {value!r}: one line of normalised text that is not empty", stage=self.name)

    def in_words(self) -> str:
        """With what is replaced, and by what."""
        by = {EMAIL: self.email, IP: f"{self.ipv4} and {self.ipv6}", PHONE: self.phone}
        return f"Replaces {', '.join(f'each {kind} by {by[kind]}' for kind in self.kinds) or 'nothing'}; drops nothing."

    def looked_for(self) -> Mapping[str, str]:
        """What was replaced."""
        names = {EMAIL: "e-mail addresses", IP: "public IP addresses", PHONE: "telephone numbers"}
        done = ", ".join(names[kind] for kind in KINDS if kind in self.kinds)
        rest = "names, postal addresses and the like stand as they stood on the pages"
        said = f"Of personal data, {done} were looked for by their shapes and replaced, which misses some: {rest}."
        return {"personal": said} if done else {}

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does."""
        self.check()
        placeholders = Placeholders(frozenset(self.kinds), self.email, self.ipv4, self.ipv6, self.phone)

        def step(batch: pa.RecordBatch) -> Outcome:
            return _outcome(batch, [masked(text or "", placeholders) for text in batch.column(col.TEXT).to_pylist()])

        return step


def _outcome(batch: pa.RecordBatch, done: list[Masked | None]) -> Outcome:
    """The batch with the texts that changed; of the others nothing is made again."""
    counts = [one.counts if one is not None else Counter[str]() for one in done]
    table = {n: np.fromiter((c[kind] for c in counts), np.int32, len(done)) for n, kind in _COUNTS.items()}
    facts = {n.removeprefix("mask_personal_"): int(values.sum()) for n, values in table.items()}
    facts["documents"] = sum(one is not None for one in done)
    columns = {n: batch.column(n) for n in col.TEXT_COLUMNS if n in batch.schema.names}
    if facts["documents"] or len(columns) < len(col.TEXT_COLUMNS):
        before = batch.column(col.TEXT).to_pylist()
        texts = [one.text if one is not None else text or "" for one, text in zip(done, before, strict=True)]
        encoded = [text.encode() for text in texts]
        columns = {
            col.TEXT: pa.array(encoded, pa.large_binary()).cast(pa.large_string()),
            col.LENGTH: pa.array(list(map(len, texts)), pa.int64()),
            col.BYTES: pa.array(list(map(len, encoded)), pa.int64()),
            col.CONTENT_ID: pa.array([hashlib.sha256(e).digest()[:16] for e in encoded], col.ID),
        }
    return Outcome(
        col.with_columns(batch, columns),
        scores={n: pa.array(values, pa.int32()) for n, values in table.items()},
        facts=facts,
    )
