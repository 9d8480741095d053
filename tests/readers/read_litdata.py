"""``OUT.json LENGTH FOLDER…``: each read by litdata's StreamingDataset with its TokensLoader."""

import json
import sys
from pathlib import Path

from litdata import StreamingDataset, TokensLoader


def read(folder, length):
    dataset = StreamingDataset(folder, item_loader=TokensLoader(block_size=length))
    in_turn = [block.tolist() for block in dataset]
    at_random = [dataset[i].tolist() for i in reversed(range(len(dataset)))]
    return {"blocks": in_turn, "same": in_turn == at_random[::-1], "dtype": str(dataset[0].dtype)}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps([read(folder, int(sys.argv[2])) for folder in sys.argv[3:]]))
