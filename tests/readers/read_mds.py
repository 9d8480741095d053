"""``OUT.json FOLDER…``: each read by mosaicml-streaming's StreamingDataset, every file checked against its SHA-256."""

import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "stub"))

from streaming import StreamingDataset


def read(folder):
    cache = tempfile.mkdtemp()
    try:
        dataset = StreamingDataset(
            remote=folder, local=cache, shuffle=False, batch_size=1, validate_hash="sha256", num_canonical_nodes=1
        )
        in_turn = [sample["tokens"].tolist() for sample in dataset]
        rows = [dataset[i] for i in range(len(dataset))]
        return {
            "in turn": in_turn,
            "documents": [row["tokens"].tolist() for row in rows],
            "dtype": rows[0]["tokens"].dtype.name,
            "doc_ids": [row["doc_id"] for row in rows],
            "urls": [row["url"] for row in rows],
        }
    finally:
        shutil.rmtree(cache, ignore_errors=True)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps([read(folder) for folder in sys.argv[2:]]))
