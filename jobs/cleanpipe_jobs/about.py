"""Which cleanpipe this is, where it was installed and where its code only travels along (Ray's ``py_modules``)."""

from __future__ import annotations


def version() -> str:
    """The version; of code without a distribution its digest."""
    from importlib import metadata

    try:
        return metadata.version("cleanpipe")
    except metadata.PackageNotFoundError:
        return f"without a version (its code only travels along), code {code_digest()[:8]}"


def code_digest() -> str:
    """SHA-256 over the code of cleanpipe and of every stage pack that is found here (hex)."""
    from cleanpipe.registry import catalogue, code_version

    return code_version(catalogue().values())
