"""The embedded RoBERTa on labelled pages: floors below the figures of benchmarks/quality.md."""

import gzip
import json
import random

import numpy as np
import pytest
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from cleanpipe_stages.quality.scorers import ScorerOptions, mlm

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow


def auc(low, high):
    return float(np.mean([[(a < b) + (a == b) / 2 for b in high] for a in low]))


def lines(text):
    return [x for x in (" ".join(line.split()) for line in text.split("\n")) if x]


def test_main_text_is_more_predictable_than_the_rest_of_its_page(samples):
    """Every third page of wcxb-dev with 200 characters of each kind: AUC .912 boilerplate, .979 shuffled."""
    folder, rng = samples / "pages" / "wcxb-dev", random.Random(1)
    main, other, mixed = [], [], []
    for path in sorted((folder / "ground-truth").glob("*.json"))[::3]:
        truth = lines(json.loads(path.read_text(encoding="utf-8"))["ground_truth"]["main_content"] or "")
        html = gzip.decompress((folder / "html" / f"{path.stem}.html.gz").read_bytes())
        page = extract_plain_text(bytes_to_str(html, detect_encoding(html) or "utf-8"), alt_texts=False)
        flat = " ".join(truth)
        rest = [x for x in lines(page) if x not in flat]
        if len(flat) >= 200:
            words = flat[:1024].split()
            rng.shuffle(words)
            main.append("\n".join(truth))
            mixed.append(" ".join(words))
            other += ["\n".join(rest)] if len("\n".join(rest)) >= 200 else []
    score = mlm.open_scorer(ScorerOptions(device="cpu", mlm_passes=4))
    low, boiler, shuffled = ([x.perplexity for x in score(t, ["en"] * len(t))] for t in (main, other, mixed))
    assert len(low) >= 60
    assert auc(low, boiler) >= 0.88
    assert auc(low, shuffled) >= 0.95
