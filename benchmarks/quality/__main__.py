"""What cleanpipe's judgements are worth, measured on labelled pages and texts: every figure of quality.md.

    python benchmarks/quality --samples SAMPLES                 every part, into benchmarks/quality.md
    python benchmarks/quality --samples SAMPLES language rights   these parts, to standard output

Each part is a module of this folder with ``measure(samples)``, which gives its section; ``python
benchmarks/quality/PART.py --samples SAMPLES`` prints one alone. Nothing is trained here: models and limits are those
that ship.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = ("extraction", "encoding", "language", "perplexity", "neural", "heuristics", "rights")
OUT = HERE.parent / "quality.md"
HEAD = """# Quality, measured

Written by `make quality` (`python benchmarks/quality`): every figure below comes out of that command, on labelled pages
and texts, with one exception: the table of hosts left out of the training is copied from the `blocks` model's card.
Where a figure misses what was aimed at, the section says so and why; the last section lists all.

Three tables need packages of Debian, in the folder that CLEANPIPE_PACKAGES names (`apt-get download PACKAGE …`), and
say "not measured" without it: harm in packaged text (libreoffice-help-*, installation-guide-*, debian-*,
postgresql-doc-*, python3*-doc, rust-doc, apache2-doc), manuals that no n-gram model has read (apache2-doc,
debian-reference-*, debian-faq-ru, maint-guide-ru, maint-guide-zh-cn), Debian's documentation (debian-handbook,
installation-guide-amd64, apache2-doc).
"""
MISSED = HERE / "missed.md"  # the closing section, by hand: what no figure can say


def main() -> int:
    """Measures the parts asked for; returns the process's exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; none: all, into quality.md")
    parser.add_argument("--samples", type=Path, required=True, help="folder with pages/, lid/, unicode/")
    args = parser.parse_args()
    if not (args.samples / "pages").is_dir():
        parser.error(f"no folder pages/ in {args.samples}")
    if unknown := sorted(set(args.parts) - set(PARTS)):
        parser.error(f"{unknown[0]} is no part: {', '.join(PARTS)}")
    sections = []
    for part in args.parts or PARTS:
        began = time.process_time()
        sections.append(importlib.import_module(part).measure(args.samples).strip())
        print(f"{part}: {time.process_time() - began:.0f} CPU s", file=sys.stderr, flush=True)
    if args.parts:
        print("\n\n".join(sections))
        return 0
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    machine = f"{platform.machine()}, {os.cpu_count()} processors, {memory} GiB, Python {platform.python_version()}"
    OUT.write_text(
        f"{HEAD}\n{machine}, cleanpipe {version('cleanpipe')}.\n\n"
        + "\n\n".join([*sections, MISSED.read_text("utf-8")]),
        "utf-8",
    )
    print(f"wrote {OUT}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
