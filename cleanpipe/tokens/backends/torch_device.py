"""Arrays to a torch device and back. On CUDA through pinned memory on streams of their own, so that copies run while
the device computes and this process splits texts; elsewhere plainly.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError

Array = npt.NDArray[Any]


class Device:
    """A device and its streams.

    name: of the chip, for reports. seconds: by what was done, if ``timed``; then each step waits for the device.
    """

    def __init__(self, device: str, *, timed: bool = False) -> None:
        """device: "cpu", "cuda" or "cuda:1".

        Raises:
            ConfigError: torch is not installed, or knows no such device here.
        """
        try:
            import torch
        except ImportError:
            raise ConfigError("the torch backend needs torch: pip install 'cleanpipe[gpu]'") from None
        try:
            self.at = torch.device(device)
            torch.zeros(1, device=self.at)
        except (RuntimeError, AssertionError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(f"torch {torch.__version__} cannot use the device {device!r}: {reason}") from None
        self._torch = torch
        self.out_of_memory: type[Exception] = torch.cuda.OutOfMemoryError
        self._cuda = self.at.type == "cuda"
        self._computes: Any = torch.cuda.Stream(self.at) if self._cuda else None
        self._sends: Any = torch.cuda.Stream(self.at) if self._cuda else None
        self._fetches: Any = torch.cuda.Stream(self.at) if self._cuda else None
        self._timed = timed
        self.seconds: dict[str, float] = {}
        self._within = 0.0  # seconds already counted by steps within the one at work

    @property
    def name(self) -> str:
        """Of the chip."""
        return str(self._torch.cuda.get_device_name(self.at)) if self._cuda else self.at.type

    @property
    def peak_bytes(self) -> int:
        """Most memory of the device that tensors took at once; 0 where nobody counts."""
        return int(self._torch.cuda.max_memory_allocated(self.at)) if self._cuda else 0

    @contextmanager
    def work(self, what: str) -> Iterator[None]:
        """Run what follows on the stream that computes. Its time, less that of steps within it, is counted under
        ``what`` if asked for.
        """
        began, outer = time.perf_counter(), self._within
        self._within = 0.0
        with self._torch.inference_mode():
            if self._cuda:
                with self._torch.cuda.stream(self._computes):
                    yield
            else:
                yield
        if self._timed:
            self.wait()
            took = time.perf_counter() - began
            self.seconds[what] = self.seconds.get(what, 0.0) + took - self._within
            self._within = outer + took

    def release(self) -> None:
        """Give memory that no tensor has back to the device."""
        if self._cuda:
            self._torch.cuda.empty_cache()

    def wait(self) -> None:
        """Until the device has done everything."""
        if self._cuda:
            self._torch.cuda.synchronize(self.at)

    def send(self, array: Array) -> Any:
        """A copy there; what computes next waits for it, this process does not."""
        torch = self._torch
        here = torch.from_numpy(np.ascontiguousarray(array))
        if not self._cuda:
            return here.clone()
        pinned = torch.empty(here.shape, dtype=here.dtype, pin_memory=True).copy_(here)
        with torch.cuda.stream(self._sends):
            there = pinned.to(self.at, non_blocking=True)
            self._computes.wait_event(self._sends.record_event())
        there.record_stream(self._computes)
        return there

    def fetch(self, tensor: Any) -> Fetched:
        """A copy here, under way."""
        if not self._cuda:
            return Fetched(tensor, None)
        torch = self._torch
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._fetches.wait_event(self._computes.record_event())
        with torch.cuda.stream(self._fetches):
            pinned.copy_(tensor, non_blocking=True)
            tensor.record_stream(self._fetches)
            return Fetched(pinned, self._fetches.record_event())


class Fetched:
    """A tensor on its way here."""

    def __init__(self, tensor: Any, event: Any) -> None:
        self._tensor, self._event = tensor, event

    def array(self) -> Array:
        """It, once it is here."""
        here: Array = self._tensor.numpy()
        if self._event is None:
            return here
        self._event.synchronize()
        return here.copy()  # pinned memory goes back at once
