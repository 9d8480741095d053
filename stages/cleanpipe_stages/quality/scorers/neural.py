"""A local Hugging Face folder as a language model: what ``mlm`` and ``causal`` have in common.

Nothing is ever downloaded, and no code of the folder is run. A text's tokens never become control tokens: a page that
says ``<mask>`` is text. Sums are 64-bit over 32-bit log-probabilities. On a CPU one thread works, so that the figures
are those of one core whatever the machine has.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.lm_text import head
from cleanpipe_stages.quality.scorers import NOT_MEASURED, Scored, Scorer

DTYPES = ("float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda")
LOGITS = 1 << 26  # log-probabilities made at once, 4 bytes each; one row of a batch may make more
LONGEST = 512  # tokens of a piece of a sentence, where the model's own length is more
_DECIDES = (".json", ".safetensors", ".bin", ".model", ".txt")
_WORDS = ("vocab", "spiece", "sentencepiece")
_INSTALL = 'needs torch and transformers: pip install "cleanpipe[neural]"'
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")

Ids = list[int]


def folder_files(folder: Path) -> dict[str, Path]:
    """The files of a model's folder that may decide a figure, by name. ``config.json`` is always among them."""
    found = {"config.json": folder / "config.json"}
    if folder.is_dir():
        found |= {p.name: p for p in sorted(folder.iterdir()) if p.suffix in _DECIDES and p.is_file()}
    return found


@contextmanager
def offline() -> Iterator[None]:
    """No request leaves the process from in here by Hugging Face's libraries, which also hold their tongues."""
    before = {name: os.environ.get(name) for name in _OFFLINE}
    os.environ |= dict.fromkeys(_OFFLINE, "1")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class Language:
    """A loaded model and its tokenizer.

    before, after: the control tokens that the tokenizer puts around a text. length: tokens the model takes at once,
    these among them; 0 where it names no limit. pad: id that fills a row's end, which the model is told to overlook.
    mask: id of the mask token; -1 where there is none.
    """

    model: Any
    tokenizer: Any
    device: str
    before: Ids
    after: Ids
    length: int
    pad: int
    vocabulary: int
    mask: int = -1

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The tokens of each text, without control tokens."""
        if not texts:
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a text longer than the model: it is cut later
            found = self.tokenizer(
                list(texts), add_special_tokens=False, split_special_tokens=True, return_attention_mask=False,
                return_token_type_ids=False, verbose=False,
            )["input_ids"]  # fmt: skip
        return [list(ids) for ids in found]

    def losses(
        self,
        rows: Sequence[Ids],
        row: npt.NDArray[np.int64],
        column: npt.NDArray[np.int64],
        truth: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.float64]:
        """Negative log-likelihood, nats, of the tokens ``truth`` by the model's words at (row, column); each [n].

        ``rows`` go into one forward pass, padded at their ends. The head sees the asked places alone.
        """
        import torch

        width = max(map(len, rows))
        ids = np.full((len(rows), width), self.pad, np.int64)
        seen = np.zeros((len(rows), width), np.int64)
        for i, tokens in enumerate(rows):
            ids[i, : len(tokens)] = tokens
            seen[i, : len(tokens)] = 1
        at = [torch.from_numpy(x).to(self.device) for x in (row, column)]
        picked = False

        def pick(_module: Any, _inputs: Any, output: Any) -> Any:
            nonlocal picked
            hidden = output.last_hidden_state
            if hidden.shape[:2] == ids.shape:  # what comes after it treats each place by itself
                output.last_hidden_state = hidden[at[0], at[1]].unsqueeze(0)
                picked = True
            return output

        hook = self.model.base_model.register_forward_hook(pick)
        try:
            with torch.inference_mode():
                logits = self.model(
                    input_ids=torch.from_numpy(ids).to(self.device),
                    attention_mask=torch.from_numpy(seen).to(self.device),
                ).logits
                chosen = logits[0] if picked else logits[at[0], at[1]]
                likely = torch.log_softmax(chosen.float(), -1)
                told = likely.gather(1, torch.from_numpy(truth).to(self.device).unsqueeze(1)).squeeze(1)
                return np.asarray(-told.double().cpu().numpy(), np.float64)
        finally:
            hook.remove()


def load(folder: Path, kind: Literal["mlm", "causal"], *, device: str = "auto", dtype: str = "float32") -> Language:
    """Load the folder's model, ready to be asked.

    Raises:
        ConfigError: torch or transformers are missing; the folder is none, or holds no model of this kind with a
            language head and a tokenizer; CUDA was asked for and is not there.
    """
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is no Hugging Face folder: it has no config.json")
    if not any(p.name == "tokenizer.json" or p.stem in _WORDS or p.suffix == ".model" for p in folder.iterdir()):
        raise ConfigError(f"{folder} holds no tokenizer")  # the library would make an empty one up
    with offline():
        try:
            import torch

            transformers: Any = import_module("transformers")  # its types are a world of their own
        except ImportError as e:
            raise ConfigError(f"perplexity = {kind!r} {_INSTALL}") from e
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("device = 'cuda', but torch sees no CUDA device: set 'auto' or 'cpu'")
        where = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
        if where == "cpu":
            torch.set_num_threads(1)
        else:
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
        auto = transformers.AutoModelForMaskedLM if kind == "mlm" else transformers.AutoModelForCausalLM
        log = transformers.utils.logging
        level, bar = log.get_verbosity(), log.is_progress_bar_enabled()
        log.set_verbosity(log.CRITICAL)
        log.disable_progress_bar()
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            model, told = auto.from_pretrained(str(folder), local_files_only=True, output_loading_info=True)
        except Exception as e:  # the library raises whatever the folder's content makes it stumble over
            raise ConfigError(f"{folder} cannot be read as a {kind} model: {_first_line(e)}") from e
        finally:
            log.set_verbosity(level)
            if bar:
                log.enable_progress_bar()
    if missing := sorted(map(str, told["missing_keys"])):
        raise ConfigError(f"{folder} holds no whole {kind} model: {missing[0]} and {len(missing) - 1} more are missing")
    if kind == "mlm" and tokenizer.mask_token_id is None:
        raise ConfigError(f"{folder}: its tokenizer names no mask token")
    model = model.to(getattr(torch, dtype)).to(where).eval()
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    before, after = _around(tokenizer)
    pad = tokenizer.pad_token_id or 0
    mask = int(tokenizer.mask_token_id) if kind == "mlm" else -1
    used = [*before, *after, mask, *_words(tokenizer)]
    if max(used) >= vocabulary:
        raise ConfigError(f"{folder}: its tokenizer has an id {max(used)}, its model {vocabulary} entries")
    length, pad = _length(model, tokenizer), pad if pad < vocabulary else 0
    return Language(model, tokenizer, where, before, after, length, pad, vocabulary, mask)


def scorer(one: Callable[[str], Scored], language: str, chars: int) -> Scorer:
    """Of each text in ``language`` ("": in any) what ``one`` says of its first ``chars`` code points."""

    def score(texts: Sequence[str], languages: Sequence[str]) -> list[Scored]:
        return [
            one(head(text, chars)) if language in ("", told) else NOT_MEASURED
            for text, told in zip(texts, languages, strict=True)
        ]

    return score


def perplexity(losses: npt.NDArray[np.float64]) -> float:
    """The exponential of the mean, held below infinity."""
    return float(np.exp(min(700.0, float(losses.mean()))))


def _around(tokenizer: Any) -> tuple[Ids, Ids]:
    """Control tokens before and behind a text, told from what the tokenizer makes of one."""
    bare = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    full = list(tokenizer("a", add_special_tokens=True)["input_ids"])
    for i in range(len(full) - len(bare) + 1):
        if full[i : i + len(bare)] == bare:
            return full[:i], full[i + len(bare) :]
    return [], []


def _words(tokenizer: Any) -> Iterator[int]:
    """The highest ids that a text can get: control tokens, which it cannot, may lie beyond the model's entries."""
    yield int(tokenizer.vocab_size) - 1
    yield from (int(i) for i, token in tokenizer.added_tokens_decoder.items() if not token.special)


def _length(model: Any, tokenizer: Any) -> int:
    """Tokens the model takes at once: what tokenizer and config say, less the places that RoBERTa never uses."""
    said = [int(getattr(model.config, "max_position_embeddings", None) or 0)]
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            said[0] = int(module.num_embeddings) - int(module.padding_idx) - 1
    if tokenizer.model_max_length < 1 << 24:  # else it means: unknown
        said.append(int(tokenizer.model_max_length))
    return min((x for x in said if x > 0), default=0)


def _first_line(e: Exception) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0][:300]
