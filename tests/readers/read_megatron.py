"""``OUT.json PREFIX…``: each prefix read by megatron-core's IndexedDataset, and by its GPTDataset."""

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.datasets.utils import Split

LENGTH = 8


def documents(prefix, mmap):
    dataset = IndexedDataset(prefix, mmap=mmap)
    return [dataset.get(i).tolist() for i in range(len(dataset))]


def samples(prefix):
    """Of one epoch, in the order of their making: ids, the next ids, which of these count, places in the document."""
    dataset = IndexedDataset(prefix)
    config = GPTDatasetConfig(
        random_seed=1, sequence_length=LENGTH, blend=([prefix], None), split="1,0,0", path_to_cache=tempfile.mkdtemp(),
        reset_position_ids=True, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
        tokenizer=SimpleNamespace(vocab_size=None, eod=2, pad=None, unique_identifiers={"name": "test"}),
    )  # fmt: skip
    made = GPTDataset(dataset, prefix, np.arange(len(dataset), dtype=np.int32), None, Split.train, config)
    out = [{k: v.tolist() for k, v in made[i].items()} for i in range(len(made))]
    return {"order": made.document_index.tolist(), "shuffle": made.shuffle_index.tolist(), "samples": out}


def read(prefix):
    dataset = IndexedDataset(prefix)
    return {
        "documents": documents(prefix, True),
        "by file": documents(prefix, False),
        "dtype": np.dtype(dataset.index.dtype).name,
        "lengths": dataset.sequence_lengths.tolist(),
        "borders": dataset.document_indices.tolist(),
        "part": dataset.get(0, offset=1, length=1).tolist(),
        "gpt": samples(prefix),
    }


Path(sys.argv[1]).write_text(json.dumps([read(prefix) for prefix in sys.argv[2:]]))
