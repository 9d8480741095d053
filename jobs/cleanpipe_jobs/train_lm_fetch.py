"""Packages by name, and KenLM's training tools out of its source package; nothing is installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.parse import unquote

KENLM = "0.3.0"

_BOOST = tuple(
    f"libboost-{part}1.74{end}"
    for part in ("program-options", "thread", "system", "test", "chrono", "date-time", "atomic")
    for end in ("-dev", ".0")
)
BUILD_PACKAGES = ("libboost1.74-dev", *_BOOST)


def fetch(name: str, registry: str, wanted: str, work: Path) -> tuple[Path, str]:
    """Download (once) and unpack a package; its folder and the version that was had."""
    return fetch_debian(name, work) if registry == "debian" else fetch_npm(name, wanted, work)


def fetch_debian(name: str, work: Path) -> tuple[Path, str]:
    """Download (once) and unpack a Debian package; its folder and the version that was had."""
    debs, root = work / "debs", work / "x" / name
    debs.mkdir(parents=True, exist_ok=True)
    root.parent.mkdir(exist_ok=True)
    if not list(debs.glob(f"{name}_*.deb")):
        subprocess.run(["apt-get", "-qq", "download", name], cwd=debs, check=True, stderr=subprocess.DEVNULL)
    deb = sorted(debs.glob(f"{name}_*.deb"))[-1]
    if not root.is_dir():
        subprocess.run(["dpkg", "-x", deb, root], check=True)
    return root, unquote(deb.name.split("_")[1])


def fetch_npm(name: str, wanted: str, work: Path) -> tuple[Path, str]:
    """Download (once) and unpack an npm package; its folder and version."""
    root = work / "x" / name.rsplit("/", 1)[-1]
    if not root.is_dir():
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{name}@{wanted}"], cwd=work, check=True, capture_output=True, text=True
        ).stdout.split()[-1]
        with tarfile.open(work / packed) as tar:
            tar.extractall(root, filter="data")
    return root, str(json.loads((root / "package" / "package.json").read_text())["version"])


def build_kenlm(work: Path) -> Path:
    """Build ``lmplz`` and ``build_binary`` from the kenlm source package; the folder they lie in."""
    source = work / f"kenlm-{KENLM}"
    built = source / "build" / "bin"
    if (built / "lmplz").is_file():
        return built
    for name in BUILD_PACKAGES:
        fetch_debian(name, work)
        subprocess.run(["dpkg", "-x", sorted((work / "debs").glob(f"{name}_*.deb"))[-1], work / "boost"], check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-binary", "kenlm", f"kenlm=={KENLM}"],
        cwd=work, check=True,
    )  # fmt: skip
    with tarfile.open(work / f"kenlm-{KENLM}.tar.gz") as tar:
        tar.extractall(work, filter="data")
    build = source / "build"
    build.mkdir(exist_ok=True)
    boost = work / "boost" / "usr"
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DBoost_USE_STATIC_LIBS=ON",
        f"-DBOOST_ROOT={boost}",
        f"-DCMAKE_PREFIX_PATH={boost}",
    ]
    subprocess.run(["cmake", *options, ".."], cwd=build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["make", "-j2", "lmplz", "build_binary"], cwd=build, check=True, stdout=subprocess.DEVNULL)
    return built
