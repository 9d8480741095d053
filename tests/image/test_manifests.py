"""compose.yaml, the KubeRay manifests and the dashboard: each against its schema, and all against each other."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

from cleanpipe.options import GuardOptions
from cleanpipe_jobs import metrics

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
CRDS = Path(os.environ.get("CLEANPIPE_PLATFORM") or ROOT.parent / "shared" / "platform") / "crd"
RAY_PIN = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE).group(1)


def load(name):
    return yaml.load((DOCKER / name).read_text(), Loader=yaml.CSafeLoader)


def strict(schema):
    """A CRD's schema as JSON schema that refuses unknown fields, as `kubectl --validate=strict` does."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: strict(v) for k, v in schema.items()}
    if out.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
        out["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    open_ = out.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in out
    if out.get("type") == "object" and isinstance(out.get("properties"), dict) and not open_:
        out["additionalProperties"] = False
    return out


@cache
def crd(kind):
    path = CRDS / f"{kind.lower()}s.yaml"
    if not path.exists():
        pytest.skip(f"the KubeRay CRDs are not at {CRDS}: set CLEANPIPE_PLATFORM")
    spec = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["spec"]
    (schema,) = [v["schema"]["openAPIV3Schema"] for v in spec["versions"] if v["name"] == "v1"]
    schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return jsonschema.Draft202012Validator(strict(schema))


MANIFESTS = ["raycluster.yaml", "rayjob.yaml"]


def cluster(name):
    spec = load(f"kuberay/{name}")["spec"]
    return spec.get("rayClusterSpec", spec)


def pods(name):
    """(where, its ray start parameters, pod spec) of every pod that a manifest makes."""
    spec = load(f"kuberay/{name}")["spec"]
    nodes = cluster(name)
    yield "head", nodes["headGroupSpec"]["rayStartParams"], nodes["headGroupSpec"]["template"]["spec"]
    for group in nodes["workerGroupSpecs"]:
        yield group["groupName"], group["rayStartParams"], group["template"]["spec"]
    if "submitterPodTemplate" in spec:
        yield "submitter", None, spec["submitterPodTemplate"]["spec"]


def size(text):
    number, unit = re.fullmatch(r"(\d+)([KMGT]i)?", text).groups()
    return int(number) << {None: 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[unit]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_what_its_definition_allows(name):
    doc = load(f"kuberay/{name}")
    assert doc["apiVersion"] == "ray.io/v1"
    assert [f"{list(e.absolute_path)} {e.message[:200]}" for e in crd(doc["kind"]).iter_errors(doc)] == []


WRONG = [
    (["spec", "rayVersoin"], "2.60.0", "a field that is not there"),
    (["spec", "headGroupSpec", "template", "spec", "containers", 0, "env", 0, "valu"], "x", "and deep inside"),
    (["spec", "workerGroupSpecs", 0, "replicas"], "two", "another type"),
    (["spec", "headGroupSpec", "rayStartParams", "num-cpus"], 0, "parameters are strings"),
    (["spec", "authOptions", "mode"], "off", "not one of the two"),
]


@pytest.mark.parametrize(("path", "value", "what"), WRONG, ids=[w[2] for w in WRONG])
def test_the_check_finds_what_is_wrong(path, value, what):
    doc = copy.deepcopy(load("kuberay/raycluster.yaml"))
    *parents, last = path
    inner = doc
    for key in parents:
        inner = inner[key]
    inner[last] = value
    assert list(crd("RayCluster").iter_errors(doc))


def test_the_job_makes_the_same_cluster():
    assert cluster("rayjob.yaml") == cluster("raycluster.yaml")


@pytest.mark.parametrize("name", MANIFESTS)
def test_ray_is_the_one_of_the_image_and_one_mode_holds_everywhere(name):
    spec = cluster(name)
    assert spec["rayVersion"] == RAY_PIN
    modes = {
        e["value"]
        for _, _, pod in pods(name)
        for c in pod["containers"]
        for e in c["env"]
        if e["name"] == "RAY_AUTH_MODE"
    }
    assert modes == {spec["authOptions"]["mode"]} == {image_env()["RAY_AUTH_MODE"]}


def image_env():
    """The variables for Ray that the image sets."""
    text = re.sub(r"\\\n\s*", "", (DOCKER / "Dockerfile").read_text())
    words = [w for line in re.findall(r"^ENV (.+)$", text, re.MULTILINE) for w in line.split()]
    return {k: v for k, v in (w.split("=", 1) for w in words) if k.startswith("RAY_")}


def test_image_compose_and_manifests_set_the_same_variables():
    expected = {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "1",
        "RAY_grpc_client_keepalive_time_ms": "10000",
        "RAY_grpc_client_keepalive_timeout_ms": "10000",
        "RAY_task_oom_retries": "2",
    }
    assert image_env() == expected
    for name in ("head", "worker", "submit"):
        given = load("compose.yaml")["services"][name]["environment"]
        assert {k: v for k, v in given.items() if k.startswith("RAY_")} == expected
    for manifest in MANIFESTS:
        for where, _, pod in pods(manifest):
            if where != "submitter":
                assert {e["name"]: e["value"] for e in pod["containers"][0]["env"]} == expected


@pytest.mark.parametrize("name", MANIFESTS)
def test_no_pod_may_more_than_it_must(name):
    """The rules of the Pod Security Standard `restricted`."""
    for where, _, pod in pods(name):
        given = pod["securityContext"]
        assert given["runAsNonRoot"] is True, where
        assert given["runAsUser"] == 1000
        assert given["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            assert set(container["resources"]) == {"requests", "limits"}
            assert not any("hostPath" in v for v in pod.get("volumes", ()))


@pytest.mark.parametrize("name", MANIFESTS)
def test_memory_is_enough_for_the_object_store_and_for_a_guard_of_every_slot(name):
    for where, parameters, pod in pods(name):
        if where == "submitter":
            continue
        (container,) = pod["containers"]
        shm = {v["name"]: v for v in pod["volumes"]}["shm"]["emptyDir"]
        assert shm["medium"] == "Memory"
        assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
        assert int(parameters["object-store-memory"]) < size(shm["sizeLimit"])
        slots = int(parameters.get("num-cpus", container["resources"]["limits"]["cpu"]))
        memory = container["resources"]["limits"]["memory"]
        assert memory == container["resources"]["requests"]["memory"]  # else the node's other pods decide who is ended
        assert size(memory) >= slots * GuardOptions().memory + size(shm["sizeLimit"])


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_head_has_no_slots_and_credentials_come_from_a_secret(name):
    spec = cluster(name)
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for where, _, pod in pods(name):
        if where != "submitter":
            assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "cleanpipe-s3", "optional": True}}]
    assert not re.search(r"AWS_\w+, value", (DOCKER / "kuberay" / name).read_text())


def test_the_job_is_a_line_that_cleanpipe_takes():
    from cleanpipe_jobs.cli import _parse

    words = load("kuberay/rayjob.yaml")["spec"]["entrypoint"].split()
    assert words[0] == "cleanpipe"
    args = _parse(words[1:])
    assert (args.command, args.engine) == ("run", "ray")
    assert args.out.startswith("s3://")
    assert [_parse(load("compose.yaml")["services"]["submit"]["command"][1:]).engine] == ["ray"]


def test_the_other_kinds_are_valid():
    if not shutil.which(str(Path(sys.executable).with_name("kubernetes-validate"))):
        pytest.skip("kubernetes-validate is not installed: make manifests")
    tool = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run([tool, "--strict", DOCKER / "kuberay" / "networkpolicy.yaml"], capture_output=True, text=True)
    assert (done.returncode, "passed" in done.stdout + done.stderr) == (0, True), done.stdout + done.stderr


def test_the_policy_selects_the_pods():
    policy = load("kuberay/networkpolicy.yaml")["spec"]
    chosen = policy["podSelector"]["matchLabels"]
    for name in MANIFESTS:
        spec = load(f"kuberay/{name}")["spec"]
        templates = [
            cluster(name)["headGroupSpec"]["template"],
            *(g["template"] for g in cluster(name)["workerGroupSpecs"]),
        ]
        templates += [spec["submitterPodTemplate"]] if "submitterPodTemplate" in spec else []
        assert all(chosen.items() <= t["metadata"]["labels"].items() for t in templates)


def test_compose_has_a_head_without_slots_and_two_workers_that_wait_for_it():
    services = load("compose.yaml")["services"]
    assert "--num-cpus=0" in services["head"]["command"]
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["worker"]["depends_on"] == {"head": {"condition": "service_healthy"}}
    for name in ("head", "worker"):
        service = services[name]
        assert service["healthcheck"]["test"] == ["CMD", "cleanpipe-health"]
        assert service["ulimits"]["nofile"] == {"soft": 65536, "hard": 65536}
        assert service["init"] is True
        store = int(next(w for w in service["command"] if "object-store-memory" in w).split("=")[1])
        assert store < 1 << 30
        assert service["shm_size"] == "1gb"
    assert all(str(p).startswith("127.0.0.1:") for s in services.values() for p in s.get("ports", ()))
    scraped = load("prometheus.yaml")["scrape_configs"][0]["dns_sd_configs"][0]
    assert set(scraped["names"]) == {"head", "worker"}
    assert all(f"--metrics-export-port={scraped['port']}" in services[n]["command"] for n in scraped["names"])


@pytest.mark.parametrize("profiles", ["", "submit,metrics"])
def test_compose_reads_it(profiles):
    if not shutil.which("docker-compose"):
        pytest.skip("docker-compose is not installed (apt-get install docker-compose)")
    env = os.environ | {"COMPOSE_PROFILES": profiles}
    command = ["docker-compose", "-f", DOCKER / "compose.yaml", "config", "--services"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert {"head", "worker"} <= set(done.stdout.split())


def test_dclint_finds_no_error():
    if not shutil.which("dclint"):
        pytest.skip("dclint is not installed: make manifests")
    done = subprocess.run(["dclint", "--quiet", DOCKER / "compose.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def expressions():
    board = json.loads((DOCKER / "grafana" / "cleanpipe.json").read_text())
    return [(p["title"], t["expr"]) for p in board["panels"] for t in p["targets"]]


SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def test_the_dashboard_asks_for_series_that_a_run_has():
    known = {f"ray_{n}{s}": labels for n, (kind, _, labels) in metrics.SERIES.items() for s in SUFFIXES[kind]}
    asked = set()
    for title, expression in expressions():
        for name in re.findall(r"ray_cleanpipe_\w+", expression):
            assert name in known, f"{title}: {name}"
            asked.add(name)
        labels = {x for name in re.findall(r"ray_cleanpipe_\w+", expression) for x in known[name]}
        by = {w.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for w in group.split(",")}
        assert by <= labels | {"le", "ip"}, title
    assert all(any(f"ray_{n}{s}" in asked for s in SUFFIXES[kind]) for n, (kind, _, _) in metrics.SERIES.items())


def test_the_dashboard_is_one_that_grafana_takes():
    board = json.loads((DOCKER / "grafana" / "cleanpipe.json").read_text())
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for p in board["panels"]
        for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
        for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)  # no panel over another
    assert max(x for x, _ in cells) == 23
    assert all(t["datasource"]["uid"] == "${datasource}" for p in board["panels"] for t in p["targets"])
    assert board["templating"]["list"][0]["type"] == "datasource"


def test_prometheus_understands_every_expression(tmp_path):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed (make manifests)")
    rules = [{"record": f"x{i}", "expr": e.replace("$__rate_interval", "1m")} for i, (_, e) in enumerate(expressions())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": rules}]}))
    for command in (["rules", tmp_path / "rules.yaml"], ["config", DOCKER / "prometheus.yaml"]):
        done = subprocess.run(["promtool", "check", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_of_the_image_is_the_projects():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nARG VERSION={version}\n" in (DOCKER / "Dockerfile").read_text()


def test_what_the_image_requires_is_what_the_project_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    command = [sys.executable, DOCKER / "requirements.py", ROOT / "pyproject.toml", "ray", "s3", "tokenize"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    extras = project["optional-dependencies"]
    assert listed == [*project["dependencies"], *extras["ray"], *extras["s3"], *extras["tokenize"]]
    assert " pyproject.toml ray s3 tokenize > requirements.txt\n" in (DOCKER / "Dockerfile").read_text()
