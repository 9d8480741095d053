"""What a project and some of its extras require, a line each: requirements.py PYPROJECT EXTRA...

The image installs these before the project itself, so that a change of code keeps the large layer below it.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
for requirements in (project["dependencies"], *(project["optional-dependencies"][extra] for extra in sys.argv[2:])):
    sys.stdout.writelines(f"{requirement}\n" for requirement in requirements)
