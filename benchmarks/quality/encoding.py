"""Are bytes read by the right charset, is damaged text mended, and sound text left alone?

    python benchmarks/quality/encoding.py --samples SAMPLES [--packages FOLDER]

Packages: a folder of .deb files (or CLEANPIPE_PACKAGES), each page, message list and text of which is a clean document.
"""

from __future__ import annotations

import argparse
import csv
import gettext
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from cleanpipe.io.charset import decide, read
from cleanpipe.io.charset_labels import NAME_OF
from cleanpipe.text.mojibake_repair import mend, suspicious
from cleanpipe.text.normalise import normalise

# Folders of chardet's test set whose Python codec is not their name
CODEC = {
    "CP932": "cp932", "SHIFT_JIS": "cp932", "GB2312": "gb18030", "EUC-KR": "cp949", "MacCyrillic": "mac_cyrillic",
    "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le", "iso-8859-1": "cp1252", "TIS-620": "cp874", "Johab": "johab",
    "UTF-32BE": "utf-32-be", "UTF-32LE": "utf-32-le", "EUC-TW": "big5", "iso-2022-kr": "iso2022_kr",
}  # fmt: skip
NOT_WHATWG = {
    "IBM855": "no browser reads it; the detector knows it",
    "UTF-32": "no browser reads it; its byte order mark tells, but a run takes its NULs for those of a binary file",
    "UTF-32BE": "no browser reads it; without a mark its NULs make it binary",
    "UTF-32LE": "no browser reads it; without a mark its NULs make it binary",
    "Johab": "no browser reads it, the detector does not know it: by default",
    "EUC-TW": "no browser reads it, nor does Python (so no truth), the detector does not know it: by default",
    "iso-2022-kr": "a label of the replacement encoding, which browsers refuse",
}
MISSED = {
    ("iso-2022-jp", "_ude_1.txt"): "its bytes are ASCII (escape sequences), so they are UTF-8, as HTTP says",
    ("windows-1252", "_ude_2.txt"): "one byte beyond ASCII: a page in UTF-8 with one damaged character looks the same",
}
TIKA = {
    "big-preamble.html": "windows-1251", "testHTMLNoisyMetaEncoding_1.html": "iso-8859-6",
    "testHTMLNoisyMetaEncoding_3.html": "iso-8859-6", "testHTML_charset_utf16le.html": "utf-16le",
    "testHTML_charset_utf8.html": "utf-8", "testHTML_utf8.html": "utf-8", "testUserDefinedCharset.mhtml": "utf-8",
}  # fmt: skip
TRULY_DAMAGED = ('"1,234.50 â‚¬"',)  # Dutch help: the euro sign was encoded twice
_JAPANESE = str.maketrans("〜‖−¢£¬—", "～∥－￠￡￢―")  # as browsers read JIS X 0208
_PACKED = ("libreoffice", "installation-guide", "debian-", "postgresql", "python3", "rust-", "golang", "apache2")


# --- charsets -------------------------------------------------------------------------------------------------------


def legacy_pages(samples: Path) -> list[tuple[str, str, bytes]]:
    """Folder, which names the charset, file name and bytes of chardet's pages."""
    found = sorted((samples / "unicode" / "chardet").glob("*/*"))
    return [(p.parent.name, p.name, p.read_bytes()) for p in found]


def truth(folder: str, body: bytes) -> str:
    """The page's text by its folder's charset."""
    name = re.sub(r"^((?:iso-8859|windows)-\d+)-[a-z]+$", r"\1", folder)
    text = body.decode(CODEC.get(name, name), "replace").removeprefix("\ufeff")
    return text.translate(_JAPANESE) if folder in ("EUC-JP", "iso-2022-jp") else text


def hide(body: bytes) -> bytes:
    """Without declarations in the page."""
    return re.sub(rb"(encoding|charset)=", rb"hidden=", body)


def html5lib_cases(samples: Path) -> list[tuple[str, bytes, str]]:
    """Name, bytes and the charset that must come out of html5lib's encoding tests."""
    found = []
    for path in sorted((samples / "unicode" / "html5lib").glob("encoding-tests*.dat")):
        for number, case in enumerate(path.read_bytes().split(b"#data\n")[1:]):
            data, _, label = case.partition(b"\n#encoding\n")
            found.append((f"{path.stem} {number}", data, NAME_OF[label.split()[0].decode().lower()]))
    return found


def html5lib_right(data: bytes, name: str) -> bool:
    """Where the set names the fallback (windows-1252), nothing may have been taken for a declaration."""
    charset, source = decide(data, None, True)
    return charset == name or (name == "windows-1252" and source in ("utf8", "detector", "default"))


def charset_rows(samples: Path) -> Iterator[tuple[str, int, int, list[str]]]:
    """What was asked, of how many, how many are right, and the misses."""
    pages = [p for p in legacy_pages(samples) if p[0] not in NOT_WHATWG]
    ways: dict[str, Callable[[bytes], tuple[bytes, str | None]]] = {
        "chardet, as they are": lambda body: (body, None),
        "chardet, declarations hidden": lambda body: (hide(body), None),
        "chardet, declarations hidden, HTTP says utf-8": lambda body: (hide(body), "utf-8"),
        "chardet, declarations hidden, HTTP says nonsense": lambda body: (hide(body), "utf8mb4; x"),
    }
    for what, way in ways.items():
        missed, right = [], 0
        for folder, name, body in pages:
            seen, label = way(body)
            found = read(seen, label, True)
            if found.text == truth(folder, seen):
                right += 1
            else:
                why = MISSED.get((folder, name), "not traced")
                missed.append(f"{folder}/{name} read as {found.charset} ({found.source}): {why}")
        yield what, len(pages), right, missed
    cases = html5lib_cases(samples)
    missed = [name for name, data, label in cases if not html5lib_right(data, label)]
    yield "html5lib encoding tests", len(cases), len(cases) - len(missed), missed
    tika = samples / "unicode" / "charset"
    missed = [n for n, label in TIKA.items() if decide((tika / n).read_bytes(), None, True)[0] != label]
    yield "Tika pages", len(TIKA), len(TIKA) - len(missed), missed
    utf8 = [(n, b) for f, n, b in legacy_pages(samples) if f.startswith("utf-8") and not b.isascii()]
    bodies = [(n, hide(b).removeprefix(b"\xef\xbb\xbf")) for n, b in utf8]
    missed = [n for n, b in bodies if read(b, "iso-8859-1", True).text != b.decode()]
    yield "chardet's UTF-8 pages, HTTP says iso-8859-1", len(bodies), len(bodies) - len(missed), missed


def not_whatwg_rows(samples: Path) -> Iterator[str]:
    """One row for each page in a charset that browsers do not know: how it is read, and what a run does with it."""
    pages = [(folder, name, hide(body)) for folder, name, body in legacy_pages(samples) if folder in NOT_WHATWG]
    fates = run_fates([body for _, _, body in pages])
    for (folder, name, body), fate in zip(pages, fates, strict=True):
        found = read(body, None, True)
        right = "–" if folder == "EUC-TW" else "yes" if found.text == truth(folder, body) else "no"
        how = f"{found.charset} ({found.source})"
        yield f"| {folder}/{name} | {how} | {right} | {fate} | {NOT_WHATWG[folder]} |"


def run_fates(bodies: Sequence[bytes]) -> list[str]:
    """What the recipe `web` does with these pages, sent as text/html without a charset: the ledger's word."""
    import pyarrow.dataset as ds
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    headers = [("Content-Type", "text/html")]
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "pages.warc.gz").open("wb") as file:
            writer = WARCWriter(file, gzip=True)
            for n, body in enumerate(bodies):
                http = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
                url = f"http://a.example/{n}"
                writer.write_record(
                    writer.create_warc_record(url, "response", payload=io.BytesIO(body), http_headers=http)
                )
        command = [str(Path(sys.executable).with_name("cleanpipe")), "run", "web", file.name, "--engine", "serial"]
        subprocess.run([*command, "--out", f"{folder}/out", "-q"], check=True, stderr=subprocess.DEVNULL)
        files = [str(p) for p in Path(folder, "out", "ledger").rglob("*.parquet")]
        rows = ds.dataset(files).to_table(columns=["url", "fate", "stage", "reason"]).to_pylist()
    told = {row["url"]: f"{row['stage']}: {row['reason']}" if row["reason"] else row["fate"] for row in rows}
    return [told.get(f"http://a.example/{n}", "–") for n in range(len(bodies))]


# --- mojibake -------------------------------------------------------------------------------------------------------


def browser(data: bytes, codec: str) -> str:
    """Bytes read as that charset; those that it leaves open as C1 controls."""
    return "".join(c if c != "\ufffd" else chr(b) for b in data for c in [bytes([b]).decode(codec, "replace")])


KINDS: dict[str, Callable[[str], str]] = {
    "Latin-1": lambda text: text.encode().decode("latin-1"),
    "Windows-1252": lambda text: browser(text.encode(), "cp1252"),
    "Windows-1252, no-break spaces made blanks": lambda text: browser(text.encode(), "cp1252").replace("\xa0", " "),
    "Windows-1252, twice": lambda text: browser(browser(text.encode(), "cp1252").encode(), "cp1252"),
    "Windows-1251": lambda text: browser(text.encode(), "cp1251"),
    "Windows-1250": lambda text: browser(text.encode(), "cp1250"),
    "Mac Roman": lambda text: text.encode().decode("mac_roman"),
    "code page 437": lambda text: text.encode().decode("cp437"),
}


def sentences(samples: Path) -> list[tuple[str, str]]:
    """Language and text."""
    with (samples / "lid" / "lingua-sentences.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(row[0], row[-1]) for row in rows]


def recall_rows(samples: Path) -> Iterator[tuple[str, int, int, int]]:
    """Kind of damage; sentences that it touches; mended to the letter; of those in French, German, Spanish, Italian,
    Portuguese, Polish, Czech and Russian that are mended, per mille.
    """
    plain = [(language, normalise(text)) for language, text in sentences(samples)]
    for kind, damage in KINDS.items():
        n = right = common = common_right = 0
        for language, text in plain:
            if (damaged := damage(text)) == text:
                continue
            mended = normalise(damaged, mojibake=True) == text
            n, right = n + 1, right + mended
            if language in ("fr", "de", "es", "it", "pt", "pl", "cs", "ru"):
                common, common_right = common + 1, common_right + mended
        yield kind, n, right, 1000 * common_right // max(1, common)


def ftfy_cases(samples: Path, name: str) -> list[dict[str, str]]:
    """The cases of ftfy: "original", and "fixed-encoding" or "fixed"."""
    found: list[dict[str, str]] = json.loads((samples / "unicode" / name).read_text(encoding="utf-8"))
    return found


def ftfy_missed(cases: Sequence[dict[str, str]]) -> list[str]:
    """Labels of the cases that do not come out as ftfy's authors want, under our other repairs."""
    wanted = [normalise(c.get("fixed-encoding", c["fixed"])) for c in cases]
    found = [normalise(c["original"], mojibake=True) for c in cases]
    return [c["label"] for c, want, got in zip(cases, wanted, found, strict=True) if want != got]


def sample_documents(samples: Path) -> Iterator[tuple[str, str]]:
    """Origin and text of what the samples hold of packaged text and of labelled languages."""
    for path in sorted((samples / "neardup").glob("*.jsonl.gz")):
        if path.name.startswith(("installation", "libreoffice")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    yield path.name.partition(".")[0], json.loads(line)["text"]
    for line in (samples / "lid" / "mixed-debian-handbook.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield "debian-handbook", "\n".join(str(v) for v in row.values() if isinstance(v, str))
    with (samples / "lid" / "udhr-articles-01-14.tsv").open(encoding="utf-8") as lines:
        yield from (("udhr", line) for line in lines)


def packaged_documents(folder: Path) -> Iterator[tuple[str, str]]:
    """Package and text of each page, text file and ten messages of a catalogue; the same text once."""
    from resiliparse.extract.html2text import extract_plain_text

    seen: set[int] = set()
    for deb in sorted(folder.glob("*.deb")):
        package = deb.name.partition("_")[0]
        if not package.startswith(_PACKED):
            continue
        archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() and member.size < 2 << 20 else None
                for text in _texts(member.name, file.read(), extract_plain_text) if file else ():
                    if len(text) >= 40 and hash(text) not in seen:
                        seen.add(hash(text))
                        yield package, text


def _texts(name: str, data: bytes, extract: Callable[..., str]) -> list[str]:
    if name.endswith(".mo"):
        messages = [m for m in gettext.GNUTranslations(io.BytesIO(data))._catalog.values() if m]  # type: ignore[attr-defined]
        return ["\n".join(map(str, messages[i : i + 10])) for i in range(0, len(messages), 10)]
    if not name.endswith((".html", ".txt", ".md")):
        return []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return []
    return [extract(text, main_content=False) if name.endswith(".html") else text]


def changes(documents: Iterator[tuple[str, str]], origins: Counter[str] | None = None) -> tuple[int, int, list[str]]:
    """Documents; those that the pre-check names; and of each changed one the first such line, with what it becomes.

    origins counts the documents by what they are from.
    """
    origins = Counter() if origins is None else origins
    suspects = 0
    changed = []
    for origin, text in documents:
        origins[re.sub(r"^(libreoffice-help|debian-(?:faq|reference)|installation-guide)-.*", r"\1", origin)] += 1
        if not suspicious(text):
            continue
        suspects += 1
        mended = mend(text)
        if mended != text:
            pairs = zip(text.split("\n"), mended.split("\n"), strict=False)
            a, b = next((a, b) for a, b in pairs if a != b)
            at = max(0, next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0) - 30)
            changed.append(f"{origin}: `{_shown(a[at : at + 70])}` → `{_shown(b[at : at + 70])}`")
    return origins.total(), suspects, changed


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else f"<{ord(c):02X}>" for c in text).replace("|", "/").replace("`", "'")


def speed_rows(samples: Path) -> Iterator[tuple[str, float]]:
    """CPU µs a document (pages of the samples' guides, and the sentences joined by 50)."""
    guides = [t for origin, t in sample_documents(samples) if origin.startswith(("installation", "libreoffice"))]
    plain = sentences(samples)
    mixed = ["\n".join(t for _, t in plain[i : i + 50]) for i in range(0, len(plain), 50)]
    for what, texts in (("English guides", guides), ("75 languages", mixed)):
        size = sum(map(len, texts)) / len(texts)
        for rule, mojibake in (("without", False), ("with", True)):
            yield f"{what}, {size:,.0f} characters, {rule} mojibake repair", _cpu(texts, mojibake)


def _cpu(texts: Sequence[str], mojibake: bool) -> float:
    best = float("inf")
    for _ in range(3):
        fresh = [text[:-1] + text[-1:] for text in texts]  # nothing remembered of them
        began = time.process_time()
        for text in fresh:
            normalise(text, mojibake=mojibake)
        best = min(best, time.process_time() - began)
    return best / len(texts) * 1e6


# --- the section ----------------------------------------------------------------------------------------------------


def measure(samples: Path, packages: Path | None = None) -> str:
    """The section of quality.md."""
    packages = packages or (Path(p) if (p := os.environ.get("CLEANPIPE_PACKAGES")) else None)
    out = ["## Encoding", "", f"ftfy {version('ftfy')}, resiliparse {version('resiliparse')} (the detector).", ""]
    out += ["| files whose charset WHATWG can decode | files | right | share |", "| --- | --- | --- | --- |"]
    misses: Counter[str] = Counter()
    total = good = 0
    for what, n, right, missed in charset_rows(samples):
        out.append(f"| {what} | {n} | {right} | {right / n:.1%} |")
        misses.update(f"{what}: {m}" for m in missed)
        total, good = total + n, good + right
    out += [f"| all | {total} | {good} | {good / total:.1%} |", ""]
    out += ["Missed:", "", *(f"- {m}" for m in misses), ""] if misses else ["None is missed.", ""]
    out += [
        "Charsets that no browser decodes, declarations hidden, and what a run of `web` (English) does with them:",
        "",
    ]
    out += ["| file | read as | right | fate | why |", "| --- | --- | --- | --- | --- |", *not_whatwg_rows(samples), ""]
    out += ["### Mojibake", "", "| ftfy's cases | cases | right | missed |", "| --- | --- | --- | --- |"]
    for file, what in (("ftfy-in-the-wild.json", "repaired"), ("ftfy-negative.json", "left alone")):
        cases = ftfy_cases(samples, file)
        missed = ftfy_missed(cases)
        out.append(f"| {file}: {what} | {len(cases)} | {len(cases) - len(missed)} | {', '.join(missed) or '–'} |")
    out += ["", "Sentences in 75 languages (lingua) whose UTF-8 was read as another charset, mended to the letter:", ""]
    out += ["| read as | sentences | mended | of fr de es it pt pl cs ru |", "| --- | --- | --- | --- |"]
    out += [
        f"| {kind} | {n} | {right / n:.1%} | {common / 10:.1f} % |" for kind, n, right, common in recall_rows(samples)
    ]
    out += ["", "Clean documents that the repair changes, each change shown:", ""]
    sources = [("samples", sample_documents(samples))]
    sources += [("packaged text", packaged_documents(packages))] if packages else []
    for what, documents in sources:
        origins: Counter[str] = Counter()
        n, suspects, changed = changes(documents, origins)
        named = ", ".join(f"{name} {count:,}" for name, count in origins.most_common())
        out += [f"- {what}: {n:,} documents, {suspects:,} named by the pre-check, {len(changed)} changed ({named})."]
        out += [f"  - {c}" for c in changed]
        if what == "packaged text":
            harms = [c for c in changed if not any(mark in c for mark in TRULY_DAMAGED)]
            lines = len({re.sub(r"^[^`]*`[\s/]*", "", c).partition("`")[0] for c in harms})
            each, once = 1e5 * len(harms) / n, 1e5 * lines / n
            verdict = "held" if each <= 1 else "held only with each line once" if once <= 1 else "missed"
            out += [
                f"  - Of these {len(changed) - len(harms)} truly damaged in the package, and mended rightly; harmed: "
                f"{len(harms)} documents by {lines} different line{'s' * (lines != 1)}: {each:.1f} in 10^5 documents, "
                f"{once:.1f} with each line once. Required: at most 1; {verdict}."
            ]
    out += [] if packages else ["- Packaged text: not measured (CLEANPIPE_PACKAGES is not set)."]
    out += ["", "| all repairs of a text | CPU µs |", "| --- | --- |"]
    out += [f"| {what} | {cost:.0f} |" for what, cost in speed_rows(samples)]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--packages", type=Path)
    arguments = parser.parse_args()
    sys.stdout.write(measure(arguments.samples, arguments.packages))
