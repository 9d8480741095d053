"""What a run tells while it runs. The base class is silent; the command line shows a bar or a line."""

from __future__ import annotations


class Observer:
    """Called by the driver, in its process and thread."""

    def started(self, files: int, size: int, resumed: int, reused: int) -> None:
        """Work begins: files and bytes still to read; files that were done before, and files taken over."""

    def phase(self, name: str, tasks: int) -> None:
        """A phase of so many tasks begins: "read", "meet", "window", "publish"."""

    def progress(self, label: str, done: int) -> None:
        """So many bytes of this input are consumed."""

    def finished(self, label: str, documents: int, alive: int) -> None:
        """One task ended; documents that entered and that came through."""

    def warn(self, message: str) -> None:
        """Something a person should know now."""
