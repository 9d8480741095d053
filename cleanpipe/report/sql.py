"""How anyone gets the page's numbers from the ledger alone: by ``cleanpipe query``, or in DuckDB after VIEW."""

# ruff: noqa: S608  nothing here is run: people read it
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe import batch as col

LEDGER = "ledger"
VIEW = "CREATE VIEW ledger AS FROM 'ledger/part-*.parquet';"  # what a ledger is in plain DuckDB, in the run's folder
_DOCUMENTS = f"{col.RECORD_TYPE} IS NOT NULL"  # a damaged range is no document


def fates() -> str:
    """Documents and bytes by fate, stage and reason."""
    return f"""\
SELECT {col.FATE}, {col.STAGE}, {col.REASON}, count(*) AS documents, sum({col.BYTES_IN}) AS bytes
FROM {LEDGER} GROUP BY ALL ORDER BY documents DESC;"""


def counted(column: str, null: str = "unknown") -> str:
    """Documents by the values of a column."""
    return f"""\
SELECT coalesce({column}::VARCHAR, '{null}') AS {column}, count(*) AS documents
FROM {LEDGER} WHERE {_DOCUMENTS} GROUP BY 1 ORDER BY documents DESC;"""


def known(column: str) -> str:
    """Documents by the values of a column, those without one left out."""
    return f"""\
SELECT {column}, count(*) AS documents, count(*) FILTER ({col.FATE} = 'kept') AS kept
FROM {LEDGER} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY documents DESC;"""


def types() -> str:
    """Declared by sniffed type."""
    return f"""\
SELECT coalesce({col.DECLARED_TYPE}, 'unknown') AS declared, coalesce({col.SNIFFED_TYPE}, 'unknown') AS sniffed,
       count(*) AS documents
FROM {LEDGER} WHERE {_DOCUMENTS} GROUP BY ROLLUP (1, 2) ORDER BY ALL;  -- NULL: of all of them"""


def keep_curve(thresholds: Sequence[str]) -> str:
    """Documents of each language whose score reaches each threshold."""
    at = ",\n       ".join(f'count(*) FILTER ({col.LANGUAGE_ID_SCORE} >= {t}) AS "{t}"' for t in thresholds)
    return f"""\
SELECT {col.LANGUAGE}, count(*) AS judged, count(*) FILTER ({col.FATE} = 'kept') AS kept,
       {at}
FROM {LEDGER} WHERE {col.LANGUAGE} IS NOT NULL GROUP BY 1 ORDER BY judged DESC;"""


def histogram(score: str, edges: Sequence[float]) -> str:
    """Documents, and kept ones, in each bin that the chart shows; and how many reach its lower edge."""
    spelled = ", ".join(f"{e:g}" for e in edges)
    return f"""\
SELECT low, count(*) FILTER ({score} < high) AS documents,
       count(*) FILTER ({score} < high AND {col.FATE} = 'kept') AS kept, count(*) AS from_here_on,
       (SELECT count({score}) FROM {LEDGER}) - from_here_on AS below
FROM (SELECT low, lead(low, 1, 'inf'::DOUBLE) OVER (ORDER BY low) AS high
      FROM (SELECT unnest(['-inf'::DOUBLE, {spelled}]) AS low))
JOIN {LEDGER} ON {score} >= low GROUP BY ALL ORDER BY low;"""


def limit(order: Sequence[str], stage: str, cut: Mapping[str, Any], edges: Sequence[float]) -> str:
    """Documents of each bin by what became of them in the stage of a limit; how many would pass, were it there."""
    score, counts, spelled = cut["score"], cut["counts"], ", ".join(f"{e:.12g}" for e in edges)
    later = "".join(f", '{s}'" for s in order[order.index(stage) + 1 :])
    passed = f"{col.FATE} = 'kept'" + (f" OR {col.STAGE} IN ({later[2:]})" if later else "")
    of = "".join(f" AND {c} = '{v}'" for c, v in cut["where"].items())
    gone = (
        f"{col.STAGE} = '{stage}' AND {col.REASON} = '{cut['reason']}' AND NOT {score} {cut['keeps']} {cut['at']:.12g}"
    )
    every = counts["known"] == "all"
    which, total = ("asked", "v IS NOT NULL") if every else ("dropped", "dropped")
    above = f"count(*) FILTER ({which})"
    below = f"(SELECT count(*) FROM decided WHERE {which} AND {total}) - {above}"
    moved = above if every is (cut["keeps"][0] == ">") else below
    whole = f"(SELECT count(*) FROM decided WHERE asked{' AND v IS NOT NULL' if every else ''})"
    return f"""\
WITH decided AS (
    SELECT {score} AS v, {passed} AS passed,
           coalesce({gone}, false) AS dropped,
           passed OR dropped AS asked
    FROM {LEDGER} WHERE ({col.FATE} = 'kept' OR {col.STAGE} IN ('{stage}'{later})){of}),
bins AS (SELECT low, lead(low, 1, 'inf'::DOUBLE) OVER (ORDER BY low) AS high
         FROM (SELECT unnest(['-inf'::DOUBLE, {spelled}]) AS low))
SELECT low, count(*) FILTER (passed AND v < high) AS passed, count(*) FILTER (dropped AND v < high) AS dropped,
       count(*) FILTER (NOT asked AND v < high) AS otherwise,
       {moved if every else f"{whole} - ({moved})"} AS would_pass
FROM bins JOIN decided ON v >= low GROUP BY ALL ORDER BY low;"""


def quantiles(scores: Sequence[str]) -> str:
    """Quantiles of scores, exact; the page shows the lower edge of the bin that holds each."""
    names = ",\n       ".join(
        f"quantile_disc({s}, [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]) AS {s}" for s in scores
    )
    return f"SELECT {names}\nFROM {LEDGER};  -- WHERE {col.FATE} = 'kept' for the kept"


HOST = r"^[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^/?#:\[\]]+)"


def hosts() -> str:
    """Hosts that lost most."""
    return f"""\
SELECT lower(regexp_extract({col.URL}, '{HOST}', 1)) AS host, count(*) AS documents,
       count(*) FILTER ({col.FATE} = 'kept') AS kept, documents - kept AS lost
FROM {LEDGER} WHERE host <> '' GROUP BY 1 ORDER BY lost DESC, host;"""


def lost_by(expression: str, name: str) -> str:
    """Values of a column that lost most, with the reasons."""
    return f"""\
SELECT {expression} AS {name}, count(*) AS documents, count(*) FILTER ({col.FATE} = 'kept') AS kept,
       documents - kept AS lost, histogram({col.STAGE} || '/' || {col.REASON}) AS reasons
FROM {LEDGER} WHERE {name} IS NOT NULL GROUP BY 1 ORDER BY lost DESC, {name};"""


def language() -> str:
    """The language of a document: judged, else previewed."""
    return f"coalesce({col.LANGUAGE}, {col.LANGUAGE_PREVIEW})"


def windows() -> str:
    """Documents by their number of windows, doubling."""
    return f"""\
SELECT pow(2, floor(log2({col.WINDOWS})))::BIGINT AS from_, count(*) AS documents
FROM {LEDGER} WHERE {col.WINDOWS} IS NOT NULL GROUP BY 1 ORDER BY 1;"""


def duplicate_kinds() -> str:
    """Documents that another one stands for, by kind."""
    return f"""\
SELECT {col.REASON}, count(*) AS documents, min({col.JACCARD}) AS least_jaccard
FROM {LEDGER} WHERE {col.KEPT_DOC_ID} IS NOT NULL GROUP BY 1;"""


def clusters() -> str:
    """Clusters by their size, the kept document counted."""
    return f"""\
SELECT size, count(*) AS clusters
FROM (SELECT {col.KEPT_DOC_ID}, count(*) + 1 AS size FROM {LEDGER} WHERE {col.KEPT_DOC_ID} IS NOT NULL GROUP BY 1)
GROUP BY 1 ORDER BY 1;"""


def biggest() -> str:
    """The largest clusters, by the document that stands for them."""
    return f"""\
SELECT lower(hex({col.KEPT_DOC_ID})) AS stands, count(*) + 1 AS size
FROM {LEDGER} WHERE {col.KEPT_DOC_ID} IS NOT NULL GROUP BY 1 ORDER BY size DESC, stands LIMIT 10;"""


def duplicate_hosts() -> str:
    """Hosts of documents that another one stands for."""
    return f"""\
SELECT lower(regexp_extract({col.URL}, '{HOST}', 1)) AS host, count(*) AS duplicates
FROM {LEDGER} WHERE {col.KEPT_DOC_ID} IS NOT NULL AND host <> '' GROUP BY 1 ORDER BY duplicates DESC, host;"""


def funnel(stages: Sequence[str]) -> str:
    """Documents and bytes that came out of each stage."""
    steps = ", ".join(f"({i}, '{s}')" for i, s in enumerate(stages))
    return f"""\
WITH steps(nr, {col.STAGE}) AS (VALUES {steps}),
     lost AS (SELECT {col.STAGE}, count(*) AS n, sum({col.BYTES_IN}) AS size
              FROM {LEDGER} WHERE {col.FATE} <> 'kept' GROUP BY 1),
     whole AS (SELECT count(*) AS n, sum({col.BYTES_IN}) AS size FROM {LEDGER})
SELECT {col.STAGE}, any_value(whole.n) - sum(coalesce(any_value(lost.n), 0)) OVER (ORDER BY nr) AS documents_out,
       any_value(whole.size) - sum(coalesce(any_value(lost.size), 0)) OVER (ORDER BY nr) AS bytes_out
FROM steps LEFT JOIN lost USING ({col.STAGE}), whole GROUP BY nr, {col.STAGE} ORDER BY nr;"""


def sources() -> str:
    """Documents of each input by record type."""
    return f"""\
SELECT {col.SOURCE}, {col.RECORD_TYPE}, count(*) AS documents
FROM {LEDGER} GROUP BY ALL ORDER BY ALL;  -- requests and the like are no documents, and in no ledger"""


def shards() -> str:
    """Documents and windows of each shard."""
    return f"""\
SELECT {col.SHARD}, count(*) AS documents, sum({col.WINDOWS}) AS rows
FROM {LEDGER} WHERE {col.SHARD} IS NOT NULL GROUP BY 1 ORDER BY 1;"""


def samples(fate: str, stage: str, reason: str) -> str:
    """Every document of the group that samples are of."""
    where = f"{col.FATE} = 'kept'" if fate == "kept" else f"{col.STAGE} = '{stage}' AND {col.REASON} = '{reason}'"
    return f"SELECT * FROM {LEDGER} WHERE {where};"


def totals() -> str:
    """The run's documents, bytes and characters."""
    return f"""\
SELECT count(*) FILTER ({_DOCUMENTS}) AS documents, count(*) FILTER ({col.FATE} = 'kept') AS kept,
       sum({col.BYTES_IN}) AS bytes, sum({col.CHARS_OUT}) FILTER ({col.FATE} = 'kept') AS characters_kept,
       sum({col.WINDOWS}) AS windows, count(DISTINCT {col.SHARD}) AS shards
FROM {LEDGER};"""
