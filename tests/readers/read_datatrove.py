"""``OUT.json WIDTH TOKENS FOLDER NAME…``: read by datatrove's DatatroveFileDataset, and the folder as one."""

import json
import sys
from pathlib import Path

from datatrove.utils.dataset import DatatroveFileDataset, DatatroveFolderDataset


def documents(path, width, tokens):
    """One window of all tokens: a document begins where the positions, which come of the index, begin again."""
    window = DatatroveFileDataset(path, seq_len=tokens - 1, token_size=width, return_positions=True)[0]
    out = []
    for token, position in zip(window["input_ids"].tolist(), window["positions"].tolist(), strict=True):
        if position == 0:
            out.append([])
        out[-1].append(token)
    return out


out, width, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
found = {}
for name, tokens in (given.split("=") for given in sys.argv[4:]):
    found[name] = documents(f"{folder}/{name}.ds", width, int(tokens))
whole = DatatroveFolderDataset(folder, seq_len=4, filename_pattern="*.ds", token_size=width)
windows = [whole[i]["input_ids"].tolist() for i in range(len(whole))]
Path(out).write_text(json.dumps({"documents": found, "windows": windows}))
