"""The error tree, named by how far the damage reaches.

    CleanpipeError
    ├── ConfigError          nothing has started: a recipe, option, input or output folder is wrong   exit 2
    ├── ShardError           one input is set aside, the run goes on and ends non-zero                exit 1
    │   └── RetryableError   the same, after another try failed too
    ├── StopError            the run stops before its end and can be resumed (disk full, storage lost) exit 3
    │   └── DamagedFileError a file of the run itself is gone or changed; its unit is done again by the next start
    └── StageContractError   a stage broke its promise: stop, and mend the stage                      exit 1

A bad *record* is data, never an exception: it leaves with a reason or lies in quarantine.
Foreign errors are translated once, in ``io`` and ``engine``.
"""

from __future__ import annotations


class CleanpipeError(Exception):
    """Base of every error raised on purpose; carries where it happened.

    Args:
        message: one line for a person, with the way out where there is one.
        stage: name of the stage at work, if any.
        source: input the record came from, if any.
        offset: record offset in that input, in bytes, if known.
    """

    exit_code = 1
    public = False  # its URLs are of pages in the corpus, none of a place that is reached with secrets: shown whole

    def __init__(
        self, message: str, *, stage: str | None = None, source: str | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.stage, self.source, self.offset = message, stage, source, offset

    def __str__(self) -> str:
        where = [self.stage] if self.stage else []
        if self.source is not None:
            where.append(self.source if self.offset is None else f"{self.source}@{self.offset}")
        return f"{' '.join(where)}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[object, ...]:  # keyword arguments survive the way back from a worker
        return _rebuild, (type(self), self.message, self.stage, self.source, self.offset)


def _rebuild(
    kind: type[CleanpipeError], message: str, stage: str | None, source: str | None, offset: int | None
) -> CleanpipeError:
    return kind(message, stage=stage, source=source, offset=offset)


class ConfigError(CleanpipeError):
    """Wrong before anything started: recipe, option, input, model file or output folder."""

    exit_code = 2


class ShardError(CleanpipeError):
    """One whole input could not be read or processed; the others go on."""


class RetryableError(ShardError):
    """May succeed when tried again (a storage time-out); becomes a ShardError when it does not."""


class StopError(CleanpipeError):
    """The run cannot go on but loses nothing: start the same line again to resume."""

    exit_code = 3


class DamagedFileError(StopError):
    """A file that an earlier part of the run published is gone, or is not as it was written; ``source`` is its name."""


class StageContractError(CleanpipeError):
    """A stage broke a promise of its declaration; a fault of the program, not of the data."""
