"""Ask the package index whether every pinned version has a wheel for each supported Python: check_pins.py FILE.

Only names and metadata are asked for; nothing is installed. What is asked is "is there a wheel", version by version
(``--no-deps``), since pip judges environment markers by the Python it runs on and not by the one it is asked about.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
    "manylinux2014_x86_64",
)  # Debian 11 and later
SOURCES = ("jsonpath-rw",)  # pure Python, published without a wheel; mlcroissant, a tool of the tests, needs it


def main(constraints: str) -> int:
    """Return how many Pythons lack a wheel."""
    failed = 0
    for version in PYTHONS:
        with tempfile.TemporaryDirectory() as target:
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--dry-run",
                "--no-deps",
                "--only-binary=:all:",
            ]
            command += ["--python-version", version, "--target", target, "--requirement", constraints]
            command += [f"--no-binary={name}" for name in SOURCES]
            for platform in PLATFORMS:
                command += ["--platform", platform]
            code = subprocess.run(command, check=False).returncode
        print(f"Python {version}: {'every pinned version has a wheel' if code == 0 else 'FAILED'}", flush=True)
        failed += code != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
