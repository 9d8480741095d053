"""What a run of a recipe over inputs would keep and cost, told from a sample of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cleanpipe.engine.machine import peak_memory
from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io.inputs import Input
from cleanpipe.planning.estimate import Estimate
from cleanpipe.planning.figures import Forecast
from cleanpipe.planning.places import choose
from cleanpipe.planning.reading import Reading
from cleanpipe.planning.trial import try_sample
from cleanpipe.recipe import Recipe

SAMPLE_BYTES, PLACES, MOST_PLACES = 64 << 20, 128, 20_000


def forecast(
    recipe: Recipe,
    inputs: Sequence[Input],
    *,
    seed: int = 0,
    places: int = PLACES,
    sample_bytes: int = SAMPLE_BYTES,
    cores: Sequence[int] = (1,),
    progress: Callable[[int], None] = lambda _size: None,
    starting: Callable[[Path], float | None] = lambda _folder: None,
) -> Forecast:
    """Read a sample, take it through the recipe, and say what all of the inputs would give.

    Args:
        inputs: as ``prepare`` resolved them for a run.
        seed: of the places. places, sample_bytes: how many, and of how many compressed bytes together.
        cores: numbers of cores to tell the wall time for.
        progress: called with the compressed bytes of each place that was read.
        starting: measures, in an empty folder, the wall seconds of a run of one record; None if it cannot.

    Raises:
        ConfigError: an option that cannot be, or none of the inputs can be read.
        StopError: storage of the inputs or of temporary files failed. StageContractError: as a run.
    """
    if not 1 <= places <= MOST_PLACES or sample_bytes < places or any(c < 1 for c in cores):
        raise ConfigError(f"1 to {MOST_PLACES:,} places, at least 1 byte for each of them, and at least 1 core")
    chosen = choose(inputs, seed=seed, places=places, sample_bytes=sample_bytes)
    reading = Reading(recipe, chosen, progress)
    _forget_peak()
    try:
        with tempfile.TemporaryDirectory(prefix="cleanpipe-plan-", dir=recipe.storage.scratch or None) as scratch:
            trial = try_sample(recipe, reading.batches(), Path(scratch))
            peak = peak_memory()
            took = starting(Path(scratch))
    except OSError as error:  # those of reading were translated where they rose
        raise StopError(
            f"the folder for temporary files failed ({error.strerror or error}): name another (TMPDIR, storage.scratch)"
        ) from error
    if chosen.chosen and not any(p.read for p in reading.places):
        source, why = next(iter(reading.unread.items()), ("", "the inputs have no size"))
        raise ConfigError(f"no input can be read; the first, {source}: {why}" if source else f"no plan: {why}")
    return Estimate(recipe, inputs, chosen, reading, trial, seed=seed, peak=peak, starting=took).make(cores)


def _forget_peak() -> None:
    """The kernel counts this process' peak of memory anew."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
