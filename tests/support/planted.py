"""Corpora with faults planted in known numbers, from prose of this repository; and writers of every format."""

import bz2
import csv
import gzip
import json
import lzma
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import zstandard

_PROSE = Path(__file__).parents[1] / "hostile" / "prose.txt"
SENTENCES = [line for line in _PROSE.read_text(encoding="utf-8").splitlines() if line]
WORDS = sorted({word.strip(".,") for sentence in SENTENCES for word in sentence.split()})

# what stands in the mojibake documents: the kind by which it is named, and the damaged words, made here by the codecs
MOJIBAKE = [
    ("cp1252", "Le café d’à côté".encode().decode("cp1252", "ignore")),
    ("cp1252", "Zürich, Größe, Straße".encode().decode("latin-1")),
    ("cp1252_twice", "café Müller".encode().decode("latin-1").encode().decode("latin-1")),
    ("cp1251", "Привет".encode().decode("cp1251")),
    ("cp437", "It’s a naïve café".encode().decode("cp437")),
    ("macroman", "It’s a café".encode().decode("mac_roman")),
]
SHARES = {"invisible": 0.17, "mojibake": 0.05, "near_duplicate": 0.12, "wiped": 0.03}
SPAM = "spam.example.com"


def sentence(rng):
    """One of the sentences with three words exchanged."""
    words = rng.choice(SENTENCES).rstrip(".").split()
    for _ in range(3):
        words[rng.randrange(len(words))] = rng.choice(WORDS).lower()
    return " ".join(words) + "."


def essay(rng, sentences=14, sep=" "):
    """English that no other seed gives."""
    return sep.join(sentence(rng) for _ in range(sentences))


def planted(n, seed=1):
    """n documents ({"text", "url"}), shuffled, and how many hold each fault: SHARES of n, no document two of them."""
    rng = random.Random(seed)
    counts = {fault: round(share * n) for fault, share in SHARES.items()}
    documents = [{"text": essay(rng), "url": f"https://site{i % 37}.example.org/{i}"} for i in range(n)]
    at = 0
    for i in range(counts["invisible"]):
        text = documents[at + i]["text"]
        for _ in range(1 + i % 3):
            cut = rng.randrange(1, len(text))
            text = text[:cut] + "\u200e" + text[cut:]
        documents[at + i]["text"] = text
    at += counts["invisible"]
    for i in range(counts["mojibake"]):
        text = documents[at + i]["text"]
        documents[at + i]["text"] = f"{text[:200]} {MOJIBAKE[i % len(MOJIBAKE)][1]} {text[200:]}"
    at += counts["mojibake"]
    for i in range(counts["wiped"]):  # letters in no order: no language
        words = ("".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(rng.randrange(3, 9))) for _ in range(120))
        documents[at + i] = {"text": " ".join(words), "url": f"http://www@{SPAM.title()}:80/{i}"}
    at += counts["wiped"]
    for i in range(counts["near_duplicate"]):  # the last word is another one
        whole = documents[at + counts["near_duplicate"] + i]["text"]
        documents[at + i]["text"] = whole[: whole.rindex(" ")] + " otherwise."
    rng.shuffle(documents)
    return documents, counts


def _lines(documents):
    return "".join(json.dumps(d, ensure_ascii=False) + "\n" for d in documents).encode()


def _table(documents):
    return pa.table({name: pa.array([d[name] for d in documents], pa.string()) for name in documents[0]})


def write(documents, folder, form):
    """The corpus in one of FORMATS; what to audit."""
    folder.mkdir(parents=True, exist_ok=True)
    return FORMATS[form](documents, folder)


def _bytes(name, pack):
    def save(documents, folder):
        (folder / name).write_bytes(pack(_lines(documents)))
        return folder / name

    return save


def _two_members(data):
    half = data.index(b"\n", len(data) // 2) + 1
    return gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0)


def _two_frames(data):
    half = data.index(b"\n", len(data) // 2) + 1
    return zstandard.compress(data[:half]) + zstandard.compress(data[half:])


def _parquet(documents, folder):
    pq.write_table(_table(documents), folder / "c.parquet", row_group_size=300)
    return folder / "c.parquet"


def _arrow(documents, folder):
    table = _table(documents)
    with pa.ipc.new_file(str(folder / "c.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=250)
    return folder / "c.arrow"


def _stream(documents, folder):
    table = _table(documents).cast(pa.schema([("text", pa.large_string()), ("url", pa.string())]))
    with pa.ipc.new_stream(str(folder / "c.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=250)
    return folder / "c.arrow"


def _feather(documents, folder):
    pyarrow.feather.write_feather(_table(documents), str(folder / "c.feather"), compression="lz4")
    return folder / "c.feather"


def _saved(documents, folder):
    """A saved dataset in two files, with a stray cache file that is none of it."""
    half = len(documents) // 2
    names = []
    for i, part in enumerate((documents[:half], documents[half:])):
        names.append(f"data-{i:05d}-of-00002.arrow")
        table = _table(part)
        with pa.ipc.new_stream(str(folder / names[-1]), table.schema) as writer:
            writer.write_table(table)
    (folder / "cache-0123456789abcdef.arrow").write_bytes((folder / names[0]).read_bytes())
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": n} for n in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def _csv(delimiter, name):
    def save(documents, folder):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(documents[0]), delimiter=delimiter)
            writer.writeheader()
            writer.writerows(documents)
        return folder / name

    return save


def _folder(documents, folder):
    """A tree of files of several kinds."""
    third = len(documents) // 3
    write(documents[:third], folder / "a", "jsonl.gz")
    write(documents[third : 2 * third], folder / "b" / "deep", "parquet")
    write(documents[2 * third :], folder, "jsonl")
    (folder / "README.md").write_text("no corpus file")
    return folder


FORMATS = {
    "jsonl": _bytes("c.jsonl", lambda b: b),
    "json lines named .json": _bytes("c.json", lambda b: b),
    "jsonl.gz": _bytes("c.jsonl.gz", _two_members),
    "jsonl.zst": _bytes("c.jsonl.zst", _two_frames),
    "jsonl.bz2": _bytes("c.jsonl.bz2", bz2.compress),
    "jsonl.xz": _bytes("c.jsonl.xz", lzma.compress),
    "parquet": _parquet,
    "arrow file": _arrow,
    "arrow stream": _stream,
    "feather": _feather,
    "saved dataset": _saved,
    "csv": _csv(",", "c.csv"),
    "tsv": _csv("\t", "c.tsv"),
    "folder": _folder,
}
