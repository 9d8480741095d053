"""All that one page says, of the places that the scan found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe_stages.html.tags import views
from cleanpipe_stages.permissions.licences import SOURCES, has_licence, licence_id, of_header, of_json, strictest
from cleanpipe_stages.permissions.robots import Rules, read_header, read_meta
from cleanpipe_stages.permissions.scan import scan
from cleanpipe_stages.permissions.tokens import Tag, tags

HEADERS = (col.X_ROBOTS_TAG, col.TDM_RESERVATION, col.TDM_POLICY, col.LINK_LICENCE)
_METAS = frozenset(("meta",))
_BOTH = frozenset(("meta", "a", "link", "area", "script"))


@dataclass(slots=True)
class Said:
    """What a page and its head say. licences: by source."""

    rules: Rules = field(default_factory=Rules)
    licences: dict[str, list[str]] = field(default_factory=dict)

    def licence(self) -> tuple[str | None, str | None]:
        """The licence, and the surest source that names one."""
        source = next((s for s in SOURCES if s in self.licences), None)
        return (strictest(self.licences[source]), source) if source else (None, None)

    def header(self, robots: str | None, reservation: str | None, policy: str | None, link: str | None) -> None:
        """The HTTP head's part."""
        if robots:
            read_header(self.rules, robots)
        if reservation:
            for value in reservation.split(","):
                self.rules.reserve(value)
        if policy:
            self.rules.policy = policy[:2048]
        for found in of_header(link) if link else ():
            self.licences.setdefault("header", []).append(found)

    def markup(self, page: bytes, metas: Sequence[int], licences: Sequence[int]) -> None:
        """The markup's part; metas, licences: places that may say something."""
        last = max((*metas, *licences))
        for tag in tags(page, _BOTH if licences else _METAS, last):
            if tag.name == "meta":
                attributes = tag.attributes()
                read_meta(self.rules, attributes)
                self._licence("meta", attributes.get("content", ""))
            elif tag.name == "script":
                self._script(tag)
            elif b"ommons.org" in tag.raw.lower():
                attributes = tag.attributes()
                sure = any(has_licence(attributes.get(name)) for name in ("rel", "itemprop", "property"))
                self._licence("rel" if sure else "link", attributes.get("href", ""))

    def _script(self, tag: Tag) -> None:
        if b"ommons.org" in tag.content and "ld+json" in tag.attributes().get("type", "").lower():
            for found in of_json(tag.content):
                self.licences.setdefault("jsonld", []).append(found)

    def _licence(self, source: str, url: str) -> None:
        if "ommons.org" in url.lower() and (found := licence_id(url)):
            self.licences.setdefault(source, []).append(found)


def all_said(batch: pa.RecordBatch, html: npt.NDArray[np.bool_]) -> dict[int, Said]:
    """By row, those that say something. html: whose markup is read, [n]."""
    out: dict[int, Said] = {}
    heads = [batch.column(name) for name in HEADERS]
    if any(column.null_count < batch.num_rows for column in heads):
        for row, values in enumerate(zip(*(column.to_pylist() for column in heads), strict=True)):
            if any(values):
                out.setdefault(row, Said()).header(*values)
    found, view = scan(batch.column(col.MARKUP), html), views(batch.column(col.MARKUP))
    for row in sorted({*found.metas, *found.licences}):
        page = view(row).tobytes()
        out.setdefault(row, Said()).markup(page, found.metas.get(row, ()), found.licences.get(row, ()))
    return out
