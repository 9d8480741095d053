"""The verdict of rights, from its scores alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe_stages.permissions.licences import SEVERAL

TDM, OTHER_LICENCE = "tdm", "other_licence"
_FORBIDS = ("noindex", "nofollow", "noarchive", "nosnippet", "noai", "noimageai")
DROPS = (*_FORBIDS, TDM)


def judge_rows(
    rows: pa.RecordBatch, drop: Sequence[str], licences: Collection[str], sources: Collection[str]
) -> pa.Array:
    """One reason or null a row: the first of DROPS that is asked for and holds, then the licence. What is unknown, or
    not said, drops nothing; but where licences are asked for, a known page without one goes.
    """
    robots = rows.column("rights_robots")
    reasons = np.full(rows.num_rows, None, object)
    if licences:
        known = _flags(pc.is_valid(robots))
        licence, source = rows.column("rights_licence"), rows.column("rights_licence_source")
        wanted = _table(licence, lambda name: family(name) in licences)
        believed = _table(source, lambda name: name in sources)
        reasons[known & ~(wanted & believed)] = OTHER_LICENCE
    for word in reversed(DROPS):
        if word not in drop:
            continue
        if word == TDM:
            holds = _flags(pc.fill_null(pc.equal(rows.column("rights_tdm_reservation"), 1), False))
        else:
            holds = _table(robots, partial(_says, word))
        reasons[holds] = word
    return pa.array(reasons.tolist(), pa.string())


def _says(word: str, said: str) -> bool:
    return word in said.split(",")


def family(licence: str) -> str:
    """``cc-by-sa`` of ``cc-by-sa-4.0``: a licence without version and country."""
    if licence == SEVERAL:
        return licence
    return "-".join(part for part in licence.split("-") if not part[:1].isdigit() and not _is_country(part, licence))


def _is_country(part: str, licence: str) -> bool:
    parts = licence.split("-")
    return part == parts[-1] and len(parts) > 2 and parts[-2][:1].isdigit()


def _flags(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _table(values: pa.Array, holds: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Where it holds, asked once for each distinct value; not of nulls."""
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    answers = np.array(
        [*(value is not None and holds(value) for value in coded.dictionary.to_pylist()), False], np.bool_
    )
    at = np.asarray(pc.fill_null(coded.indices, len(answers) - 1).to_numpy(zero_copy_only=False))
    return np.asarray(answers[at])
