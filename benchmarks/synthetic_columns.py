"""Columns of made ledger rows: ids, addresses and sizes, all of them pure functions of numbers, so that any row can be
named by any other without being held.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_WORDS = """
river lamp stone maple harbor signal copper meadow winter canvas orbit velvet amber cedar falcon granite hollow ivory
juniper kettle lantern marble nectar opal prairie quartz raven saddle timber umber violet walnut yarrow zephyr news
wiki blog shop forum guide docs travel garden recipe review sports music photo health
""".split()  # noqa: SIM905  one word a line would fill a page
_ENDS = (".html", "", "/", ".php", ".htm")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
HOSTS = 60_000


def mix(numbers: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    """splitmix64, keyed."""
    x = numbers + np.uint64((0x9E3779B97F4A7C15 * (key + 1)) & (2**64 - 1))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def sixteen(rows: Ints, key: int) -> npt.NDArray[np.uint8]:
    """16 bytes for each row number, no two alike: [n, 16]."""
    low = mix(rows.astype(np.uint64), key)
    return np.stack([mix(low, key + 1), low], axis=1).view(np.uint8).reshape(len(rows), 16)


def alike(rows: Ints) -> npt.NDArray[np.bool_]:
    """Whether near duplicates name these rows, if they are kept: a quarter of all."""
    return np.asarray(mix(rows.astype(np.uint64), 99) % np.uint64(4) == 0)


def ids(values: npt.NDArray[np.uint8], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """As fixed-size binary."""
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary(values.shape[1]), len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))]
    )


def record_ids(rows: Ints, key: int, null: npt.NDArray[np.bool_]) -> pa.Array:
    """``<urn:uuid:8-4-4-4-12>``."""
    raw = sixteen(rows, key)
    digits = _HEX[np.stack([raw >> 4, raw & 15], axis=2).reshape(len(rows), 32)]
    out = np.empty((len(rows), 47), np.uint8)
    out[:, :10] = np.frombuffer(b"<urn:uuid:", np.uint8)
    out[:, 46] = ord(">")
    at, taken = 10, 0
    for width in (8, 4, 4, 4, 12):
        out[:, at : at + width] = digits[:, taken : taken + width]
        at, taken = at + width, taken + width
        if at < 46:
            out[:, at] = ord("-")
            at += 1
    offsets = np.arange(0, 47 * (len(rows) + 1), 47, dtype=np.int32)
    whole = pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
    return whole if not null.any() else pc.if_else(pa.array(null), pa.scalar(None, pa.string()), whole)


def labels(codes: Ints, names: list[str] | pa.Array, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The names that the codes stand for, as strings."""
    of = names if isinstance(names, pa.Array) else pa.array(names, pa.string())
    return of.take(pa.array(codes, mask=null))


def host_names() -> pa.Array:
    """HOSTS names, the first ones the most visited."""
    w = len(_WORDS)
    made = [f"{_WORDS[i % w]}-{_WORDS[i // w % w]}{i // w // w or ''}.example" for i in range(HOSTS)]
    return pa.array([f"www.{h}" if i % 3 else h for i, h in enumerate(made)], pa.string())


def urls(rng: np.random.Generator, hosts: pa.Array, n: int, again: float) -> pa.Array:
    """URLs of hosts by a power law; a share ``again`` are captures of another row's URL."""
    host = (HOSTS * rng.random(n) ** 3).astype(np.int64)
    scheme, end = (rng.random(n) < 0.15).astype(np.int64), rng.integers(0, len(_ENDS), n)
    words = rng.integers(0, len(_WORDS), (3, n))
    number = rng.integers(1, 2_000_000, n)
    twice, first = rng.choice(n, int(n * again), replace=False), rng.integers(0, n, int(n * again))
    for column in (host, scheme, end, number, *words):
        column[twice] = column[first]
    parts = [labels(scheme, ["https://", "http://"]), hosts.take(pa.array(host))]
    parts += [labels(w, [f"/{x}" for x in _WORDS]) for w in words]
    return pc.binary_join_element_wise(*parts, "-", pa.array(number).cast(pa.string()), labels(end, list(_ENDS)), "")


def characters(rows: Ints) -> Ints:
    """Code points of each row's text: lognormal, median 2,400."""
    u = (mix(rows.astype(np.uint64), 77) >> np.uint64(11)).astype(np.float64) / 2**53
    v = (mix(rows.astype(np.uint64), 78) >> np.uint64(11)).astype(np.float64) / 2**53
    normal = np.sqrt(-2 * np.log(np.maximum(u, 1e-12))) * np.cos(2 * np.pi * v)
    return np.asarray(np.clip(np.exp(np.log(2400) + 1.1 * normal), 1, 2_000_000), dtype=np.int64)


def pick(rng: np.random.Generator, n: int, weights: dict[str, float]) -> tuple[Ints, list[str]]:
    """Codes of labels, drawn by their weights."""
    edges = np.cumsum(list(weights.values()))
    return np.searchsorted(edges, rng.random(n) * edges[-1], side="right").clip(0, len(weights) - 1), list(weights)
