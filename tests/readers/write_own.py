"""``OUT.json STORE MDS OWN LIMIT``: the documents of an MDS folder, and LitData's first chunk, by their own writers."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "stub"))

import numpy as np
import torch
from litdata import TokensLoader
from litdata.streaming.writer import BinaryWriter
from streaming import MDSWriter

out, root, mds, own, limit = sys.argv[1:]
shards = json.loads((Path(mds) / "index.json").read_text())["shards"]
encodings = dict(zip(shards[0]["column_names"], shards[0]["column_encodings"], strict=True))
dtype = np.dtype(encodings["tokens"].partition(":")[2])


def samples(path, count):
    """Of a shard, by its layout as this project has it written down."""
    data = path.read_bytes()
    places = np.frombuffer(data, "<u4", count + 1, 4)
    for start, stop in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
        sizes = np.frombuffer(data, "<u4", 3, start).tolist()
        ends = np.cumsum([start + 12, *sizes]).tolist()
        tokens = data[ends[1] : ends[2]]
        skip = 1 + (1 << (tokens[0] & 3))
        assert ends[3] == stop
        yield {
            "doc_id": data[ends[0] : ends[1]].decode(),
            "tokens": np.frombuffer(tokens[skip:], dtype),
            "url": data[ends[2] : ends[3]].decode(),
        }


everything = [s for shard in shards for s in samples(Path(mds) / shard["raw_data"]["basename"], shard["samples"])]
with MDSWriter(out=f"{own}/mds", columns=encodings, hashes=["sha256"], size_limit=int(limit)) as writer:
    for sample in everything:
        writer.write(sample)

ids = np.concatenate([np.fromfile(p, dtype) for p in sorted(Path(root).glob("tokens/*.bin"))])
first = (int(limit) - 12) // (7 * dtype.itemsize) * 7
chunk = BinaryWriter(f"{own}/litdata", chunk_size=1, item_loader=TokensLoader(block_size=7))
chunk[0] = torch.from_numpy(ids[:first])
chunk.done()
chunk.merge()
Path(out).write_text("{}")
