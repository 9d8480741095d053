#!/bin/sh
# Ids and speed of the tokenization backends on this machine, its CUDA device included if it has one: under five minutes.
#
#     sh benchmarks/gpu_tokenize.sh [--mb 64] [--rounds 3] [--tokenizer gpt2] …     PYTHON=python3.12 for another Python
#
# Needs this repository (nothing of it installed) and a Python 3.11 or later with torch, tokenizers, tiktoken, pyarrow and numpy.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH="$here/.." PYTHONDONTWRITEBYTECODE=1 exec "${PYTHON:-python3}" "$here/gpu_tokenize.py" "$@"
