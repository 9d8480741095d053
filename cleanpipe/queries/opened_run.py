"""A run to be asked: the published folder, wherever it lies, or what an unfinished one has so far.

Questions read the ledger, the audit and the recipe; none of them runs a second time over the inputs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cleanpipe.audit.build import FORMAT
from cleanpipe.engine.folder import MANIFEST, PLAN, place
from cleanpipe.errors import CleanpipeError, ConfigError, StopError
from cleanpipe.io.store import LocalStore, Store, open_store
from cleanpipe.opening import ledger_of, shards_of
from cleanpipe.options import StorageOptions
from cleanpipe.recipe import Recipe, load_recipe, recipe_of
from cleanpipe.tokens.audit.build import FORMAT as TOKENS_FORMAT
from cleanpipe.tokens.audit.build import SECTIONS
from cleanpipe.tokens.layout import STORE

AUDIT = "audit.json"  # of a corpus
WANT = ("ledger", "audit", "index", "quarantine")  # folders of a run that a question may read; and "data"
_HERE = StorageOptions()


@dataclass(frozen=True, slots=True)
class OpenRun:
    """root: as a person names it. folder: where ``ledger/part-*.parquet`` lie, for the time of the ``with``.

    done, units: units of the first pass that are in it, of all; equal in a finished run. facts: run.json; of an
    unfinished run only what is known before its end (``identity``, ``inputs``; an input's ``uri`` where the plan told
    it). phase: "finished", or what its driver does or would do next. undecided: documents whose fate is null in the
    ledger, since they wait for the others; 0 in a finished run. corpus: it is the folder of a corpus audit
    (``cleanpipe audit``): its ledger has a row for each document of the corpus, and there is no other table. tokens: it
    is a token store (``cleanpipe tokenize``): its ledger has a row for each document, spans/ one for each window.
    """

    root: str
    folder: Path
    store: Store
    finished: bool
    done: int
    units: int
    audit: Mapping[str, Any]
    facts: Mapping[str, Any]
    recipe: Recipe
    phase: str = "finished"
    undecided: int = 0
    corpus: bool = False
    tokens: bool = False

    @property
    def parts(self) -> list[Path]:
        """Ledger parts, in the order of the units."""
        return sorted((self.folder / "ledger").glob("part-*.parquet"), key=lambda p: int(p.stem.partition("-")[2]))

    @property
    def caution(self) -> str:
        """A sentence for every answer that an unfinished run gives; "" for a finished one."""
        if self.finished:
            return ""
        waiting = f"; {self.undecided:,} documents are not decided yet" if self.undecided else ""
        return (
            f"{self.root} is not finished ({self.phase}): this is of {self.done:,} of its {self.units:,} units{waiting}"
        )

    def ledger(self) -> Any:
        """All parts as one ``pyarrow.dataset.Dataset``, for the time of the ``with``."""
        return ledger_of(self.root, self.folder)

    def shards(self) -> Any:
        """All shards as one ``pyarrow.dataset.Dataset``, for the time of the ``with``; opened with ``data=True``."""
        if not self.finished:
            raise ConfigError(f"{self.root} is not finished: it has no shards yet")
        return shards_of(self.root, self.folder)

    def require(self, columns: Sequence[str]) -> None:
        """Be sure that the ledger has these columns.

        Raises:
            ConfigError: it lacks one (its recipe has no stage that writes it, or an older version wrote it), or a part
                cannot be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        for part in self.parts[:1]:
            try:
                have = pq.read_schema(part).names
            except (OSError, pa.ArrowInvalid) as error:
                raise damaged(self.root, f"ledger/{part.name}", str(error)) from error
            if lacking := [c for c in columns if c not in have]:
                raise ConfigError(
                    f"the ledger of {self.root} has no column {', '.join(map(repr, lacking))}: no stage of its recipe "
                    f"writes it, or an older version did without; it has {', '.join(have)}"
                )


@contextmanager
def open_run(
    out: str | Path,
    storage: StorageOptions = _HERE,
    *,
    data: bool = False,
    want: Sequence[str] = WANT,
    corpus: bool = False,
    tokens: Sequence[str] | None = None,
) -> Iterator[OpenRun]:
    """Open a run for questions.

    Args:
        out: its folder, or ``s3://bucket/prefix``, of which what is wanted is copied to the scratch folder.
        storage: how object stores are reached.
        data: with the shards.
        want: folders of the run that are read. Without "ledger" nothing of it is copied, or made of an unfinished run.
        corpus: open the folder of a corpus audit too; else it is an error that says what can be asked there.
        tokens: open a finished token store too, and read these folders of it; None: it is such an error.

    Raises:
        ConfigError: there is no run, a later version of cleanpipe wrote it, or it is damaged. StopError: no room for
            the copy.
    """
    store = open_store(place(out, "OUT"), storage)
    if isinstance(store, LocalStore) and store.path.exists() and not store.path.is_dir():
        raise ConfigError(f"{store.root} is a file: name the folder that `cleanpipe run … --out` wrote")
    with ExitStack() as stack:
        if store.size(MANIFEST) < 0 and (audit := corpus_audit(store)) is not None:
            if not corpus:
                raise not_a_run(store.root)
            recipe = replace(load_recipe("web"), storage=storage)
            folder = stack.enter_context(_folder(store, storage, {}, ("ledger",)))
            yield OpenRun(store.root, folder, store, True, 0, 0, audit, {}, recipe, corpus=True)
            return
        if tokens is not None and (published := _published_tokens(store)) is not None:
            yield stack.enter_context(_tokens(store, storage, published, tokens))
            return
        yield _opened(store, storage, (*want, "data") if data and "data" not in want else tuple(want), stack)


def _opened(store: Store, storage: StorageOptions, want: Sequence[str], stack: ExitStack) -> OpenRun:
    if store.size(MANIFEST) >= 0:
        return stack.enter_context(finished(store, storage, want))
    if store.size(PLAN) < 0 and store.size(MANIFEST) < 0:
        raise ConfigError(f"{store.root} holds no run: name the folder that `cleanpipe run … --out` wrote")
    _no_tokens(store)
    from cleanpipe.queries.partial import open_partial

    try:
        return stack.enter_context(open_partial(store, storage, want))
    except (CleanpipeError, FileNotFoundError):
        if store.size(MANIFEST) < 0:  # else it ended while it was read
            raise
    return stack.enter_context(finished(store, storage, want))


def corpus_audit(store: Store) -> dict[str, Any] | None:
    """The audit of a corpus, where ``cleanpipe audit`` wrote the folder; else None."""
    if store.size(AUDIT) < 0 or store.size(PLAN) >= 0:
        return None
    try:
        audit = json.loads(store.read(AUDIT))
    except (OSError, ValueError, RecursionError):
        return None
    return audit if isinstance(audit, dict) and audit.get("kind") == "corpus" else None


def not_a_run(root: str) -> ConfigError:
    """What is said of the folder of a corpus audit where a run is wanted."""
    return ConfigError(
        f"{root} is the audit of a corpus, not a run: read {root}/audit.html, or ask by SQL: `cleanpipe query {root}`, "
        f"or DuckDB on '{root}/ledger/*.parquet'"
    )


@contextmanager
def finished(store: Store, storage: StorageOptions, want: Sequence[str] = WANT) -> Iterator[OpenRun]:
    """A finished run; see ``open_run``."""
    manifest = _load(store, MANIFEST, ("files",))
    if not isinstance(manifest["files"], dict):
        raise damaged(store.root, MANIFEST, "its files are no object")
    if STORE in manifest["files"]:
        raise ConfigError(
            f"{store.root} holds tokens, not a run: `cleanpipe trace`, `cleanpipe query` and `cleanpipe report` answer "
            "for tokens; for the rest name the run that they were made from"
        )
    if "config_hash" not in manifest:
        raise damaged(store.root, MANIFEST, "it has no 'config_hash'")
    audit = _load(store, "audit/audit.json", ("format",))
    check_format(audit, store.root)
    if lacking := [k for k in ("funnel", "conservation", "shards") if k not in audit]:
        raise damaged(store.root, "audit/audit.json", f"it has no {lacking[0]!r}")
    facts = _load(store, "run.json", ("identity", "inputs", "units"))
    recipe = recipe_of(store, replace(load_recipe("web"), storage=storage))
    units = int(facts["units"]["total"])
    with _folder(store, storage, manifest["files"], want) as folder:
        yield OpenRun(store.root, folder, store, True, units, units, audit, facts, recipe)


def _published_tokens(store: Store) -> dict[str, Any] | None:
    """The files of a finished token store; None of anything else."""
    if store.size(MANIFEST) < 0:
        return None
    files = _load(store, MANIFEST, ("files",))["files"]
    return files if isinstance(files, dict) and STORE in files else None


@contextmanager
def _tokens(
    store: Store, storage: StorageOptions, published: Mapping[str, Any], want: Sequence[str]
) -> Iterator[OpenRun]:
    audit = _load(store, "audit/audit.json", SECTIONS)
    if not isinstance(audit["format"], int) or audit["format"] > TOKENS_FORMAT:
        raise ConfigError(
            f"{store.root} was audited in format {json.dumps(audit['format'])}, this cleanpipe reads up to "
            f"{TOKENS_FORMAT}: use a later version"
        )
    facts = _load(store, "run.json", ())
    recipe = replace(load_recipe("web"), storage=storage)
    with _folder(store, storage, published, want) as folder:
        yield OpenRun(store.root, folder, store, True, 0, 0, audit, facts, recipe, tokens=True)


def _no_tokens(store: Store) -> None:
    """Raises ConfigError: the folder is that of a token store that is not finished."""
    try:
        plan = json.loads(store.read(PLAN))
    except (OSError, ValueError, RecursionError):
        return  # whoever reads it next says what is wrong
    if isinstance(plan, dict) and "tokenizer" in plan and "run" in plan:
        raise ConfigError(f"{store.root} holds tokens that are not finished: start the same `cleanpipe tokenize` again")


def check_format(audit: Mapping[str, Any], root: str) -> None:
    """Raises ConfigError where a later version wrote the run."""
    found = audit.get("format")
    if not isinstance(found, int) or found > FORMAT:
        raise ConfigError(
            f"{root} was written in format {json.dumps(found)}, this cleanpipe reads up to {FORMAT}: "
            "use the version that run.json names, or a later one"
        )


def damaged(root: str, name: str, why: str) -> ConfigError:
    """A file of a finished run that is not as it was published."""
    first = (why.splitlines() or [""])[0]
    return ConfigError(f"{root}/{name} is damaged ({first}): `cleanpipe verify {root}` says what else is")


def _load(store: Store, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        data = json.loads(store.read(name))
    except FileNotFoundError as error:
        raise damaged(store.root, name, "it is not there") from error
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(store.root, name, str(error)) from error
    if not isinstance(data, dict):
        raise damaged(store.root, name, "it is no JSON object")
    if lacking := [k for k in keys if k not in data]:
        raise damaged(store.root, name, f"it has no {lacking[0]!r}")
    return data


@contextmanager
def _folder(store: Store, storage: StorageOptions, published: Mapping[str, Any], want: Sequence[str]) -> Iterator[Path]:
    """A local folder with what is wanted: each file that the manifest names is proven to be there, at its size."""
    there = {name: size for kind in want for name, size in store.names(f"{kind}/")}
    for name, facts in published.items():
        if name.partition("/")[0] in want and there.get(name) != facts.get("bytes"):
            found = f"{there[name]:,} bytes, not {facts.get('bytes', 0):,}" if name in there else "it is not there"
            raise damaged(store.root, name, found)
    if isinstance(store, LocalStore):
        yield store.path
        return
    need, free = sum(there.values()), store.free()
    if need > free:
        room = f"{need / 1e9:,.1f} GB to copy, {free / 1e9:,.1f} GB free: set storage.scratch to a larger folder"
        raise StopError(room, source=store.root)
    with tempfile.TemporaryDirectory(prefix="cleanpipe-", dir=storage.scratch or None) as made:
        for name in there:
            target = Path(made) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.fetch(name) as path:
                shutil.copyfile(path, target)
        yield Path(made)
