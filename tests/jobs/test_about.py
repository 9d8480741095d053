"""The version, where cleanpipe is installed and where its code only travels along."""

import subprocess
import sys
from importlib import metadata

import pytest

from cleanpipe_jobs import about
from cleanpipe_jobs.cli import main


def test_the_version_of_what_is_installed(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"cleanpipe {metadata.version('cleanpipe')}\n"


def test_code_without_a_distribution_is_named_by_its_digest(monkeypatch, capsys):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.rstrip().endswith(f"code {about.code_digest()[:8]}")


def test_help_waits_for_no_engine_no_storage_and_no_display():
    heavy = "{'ray', 'rich', 'botocore', 'urllib3', 'fsspec', 'pandas', 'datasets', 'fasttext', 'kenlm', 'resiliparse'}"
    program = (
        "import sys\nfrom cleanpipe_jobs.cli import main\n"
        f"try: main(['run', '--help'])\nexcept SystemExit: print({heavy} & {{m.split('.')[0] for m in sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
