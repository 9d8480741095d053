"""compose.yaml brought up by hand where no engine is: composed.py IMAGE FOLDER

Each container is a buildah container in network and process namespaces of its own, joined by a bridge. Entry points,
commands, variables, health checks and names are read from the file. Run it in fresh namespaces (test_image.py does).
Prints a line for each thing it saw.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

FILE = Path(__file__).parents[2] / "docker" / "compose.yaml"
PATIENCE = 120  # seconds
NET = "10.209.0"


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Container:
    """One container of a service."""

    def __init__(self, image, service, name, addresses, shared):
        self.name, self.address, self.service, self.shared = name, addresses[name], service, shared
        hosts = [w for other, address in addresses.items() for w in ("--add-host", f"{other}:{address}")]
        self.id = said("buildah", "from", "--pull-never", *hosts, image)
        self.log = shared / f"{name}.log"
        self.process = self.first = None

    def line(self, *command):
        """`buildah run` of a command, as the service has it."""
        given = {k: os.environ.get(k) if v is None else v for k, v in self.service["environment"].items()}
        given["GRPC_DNS_RESOLVER"] = "native"  # gRPC's own asks a name server, which an engine has and we have not
        env = [w for k, v in given.items() if v is not None for w in ("--env", f"{k}={v}")]
        data = ["-v", f"{self.shared / 'data'}:/data"]
        return ["buildah", "run", "--isolation", "chroot", *env, *data, self.id, "--", *command]

    def start(self):
        """The service's own command, in namespaces of its own with one link to the bridge."""
        command = self.line(*self.service["entrypoint"], *self.service["command"])
        wait = 'until ip route 2> /dev/null | grep -q default; do sleep 0.1; done; exec "$@"'
        space = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", wait, "sh"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*space, *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not children.read_text().split():
            time.sleep(0.02)
        self.first = children.read_text().split()[0]
        link = f"v{self.address.rsplit('.', 1)[1]}"
        said("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        said("ip", "link", "set", link, "master", "bridge0", "up")
        inside = ["nsenter", "-t", str(self.process.pid), "-n", "ip"]
        said(*inside, "link", "set", "lo", "up")
        said(*inside, "link", "set", "eth0", "up")
        said(*inside, "addr", "add", f"{self.address}/24", "dev", "eth0")
        said(*inside, "route", "add", "default", "via", f"{NET}.1")  # by which Ray finds its own address

    def run(self, *command):
        """A second command in the running container."""
        inside = ["nsenter", "-t", self.first, "-n", "-p", "-m"]
        return subprocess.run([*inside, *self.line(*command)], capture_output=True, text=True, check=False)

    def healthy(self):
        """What its health check says; one that ended is started again, if the service says so."""
        if self.process.poll() is not None and self.service["restart"] == "unless-stopped":
            self.start()
        test = self.service["healthcheck"]["test"]
        return self.run(*test[1:]).returncode == 0

    def remove(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        subprocess.run(["buildah", "rm", self.id], capture_output=True, check=False)


def until(what, check):
    """Wait for it."""
    start = time.monotonic()
    while not check():
        if time.monotonic() - start > PATIENCE:
            sys.exit(f"not in time: {what}")
        time.sleep(0.5)
    print(f"{what}: {time.monotonic() - start:.1f} s", file=sys.stderr)
    print(what, flush=True)


def main(image, folder):
    services = yaml.safe_load(FILE.read_text())["services"]
    workers = services["worker"]["deploy"]["replicas"]
    names = ["head", *(f"worker-{n}" for n in range(1, workers + 1)), "submit"]
    addresses = {name: f"{NET}.{n}" for n, name in enumerate(names, 11)}
    (folder / "data").mkdir()
    shutil.chown(folder / "data", 1000, 1000)
    for words in (
        "link add bridge0 type bridge",
        "link set bridge0 up",
        f"addr add {NET}.1/24 dev bridge0",
        "link set lo up",
    ):
        said("ip", *words.split())
    made = {}
    try:
        for name in names:
            service = services[name.partition("-")[0]]
            service["command"] = [w.replace("${CLEANPIPE_CPUS:-2}", "1") for w in service["command"]]
            made[name] = Container(image, service, name, addresses, folder)
        look(made, workers)
    finally:
        for container in made.values():
            container.remove()


def look(made, workers):
    """Bring it up in the order of depends_on, hand it a job, freeze its head."""
    head, submit = made["head"], made["submit"]
    nodes = [made[f"worker-{n}"] for n in range(1, workers + 1)]
    head.start()
    until("head is healthy", head.healthy)
    for node in nodes:
        node.start()
    until("workers are healthy", lambda: all(n.healthy() for n in nodes))
    listing = (
        "import ray; ray.init(log_to_driver=False); print(sorted(n['Resources'].get('CPU', 0) for n in ray.nodes()))"
    )
    slots = head.run("python", "-c", listing).stdout.splitlines()[-1]
    print(f"slots: {slots}")
    submit.start()
    print(f"submit: {submit.process.wait(timeout=PATIENCE)}")
    print(submit.log.read_text(), file=sys.stderr)
    print(f"verify: {head.run('cleanpipe', 'verify', '/data/run/sample').returncode}")
    plain = nodes[0].run("cleanpipe", "run", "sample", "--out", "/data/plain", "--quiet")
    same = [nodes[0].run("diff", "-rq", f"/data/plain/{f}", f"/data/run/sample/{f}") for f in ("data", "ledger")]
    print(f"plain run: {plain.returncode}, the same bytes: {[s.returncode for s in same]}")
    wrong = head.run(
        *submit.service["entrypoint"], "cleanpipe", "run", "nonsense", "--out", "/data/no", "--engine", "ray"
    )
    print(f"a failing job: {wrong.returncode}, says why: {'nonsense' in wrong.stdout}")
    head.run("sh", "-c", "kill -STOP $(grep -lx gcs_server /proc/[0-9]*/comm | cut -d/ -f3)")
    print(f"health with a frozen GCS: head {head.healthy()}, worker {nodes[0].healthy()}")
    head.run("sh", "-c", "kill -CONT $(grep -lx gcs_server /proc/[0-9]*/comm | cut -d/ -f3)")
    until("head is healthy again", head.healthy)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
