#!/opt/cleanpipe/bin/python -I
"""The image's HEALTHCHECK: status 0, or 1 and a line that says what is wrong.

A Ray node is well when its agent says so, of the raylet and, on the head, of the GCS; the agent asks for no token.
Any other container is one command, whose end is the container's own: it is well while it is there.
"""

import http.client
import re
import sys
from collections.abc import Iterable
from pathlib import Path

AGENT_PORT = 52365  # Ray's default; a raylet's arguments name another
SECONDS = 8.0  # below the time limit of HEALTHCHECK, so that the reason is still said


def processes(proc: Path = Path("/proc")) -> list[list[str]]:
    """The argument lists of all processes here that can be seen."""
    found = []
    for path in proc.glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:  # it has ended
            continue
        found.append([w for w in words if w])
    return found


def agents(commands: Iterable[list[str]]) -> tuple[list[int], bool]:
    """The ports of the agents of the raylets here, and whether a `ray start` is here."""
    ports, starting = [], False
    for words in commands:
        names = [word.rsplit("/", 1)[-1] for word in words[:3]]
        if names[:1] == ["raylet"]:
            named = re.search(r"--listen-port=(\d+)", " ".join(words))
            ports.append(int(named.group(1)) if named else AGENT_PORT)
        starting = starting or names[-2:] == ["ray", "start"] or names[:2] == ["ray", "start"]
    return ports, starting


def ask(port: int) -> str:
    """What is wrong with the Ray node whose agent listens there; empty if nothing is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/api/healthz")
        answer = connection.getresponse()
        text = answer.read(2000).decode("utf-8", "replace").strip().replace("\n", "; ")
    except (OSError, http.client.HTTPException) as error:
        return f"the agent at port {port} does not answer: {error}"
    finally:
        connection.close()
    return "" if answer.status == 200 else f"{answer.status} {text}"


def main() -> int:
    """Look at the processes, ask the agents."""
    ports, starting = agents(processes())
    wrong = [reason for port in ports if (reason := ask(port))]
    if starting and not ports:
        wrong.append("ray start has no raylet")
    sys.stdout.write("; ".join(wrong) + "\n" if wrong else "well\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
