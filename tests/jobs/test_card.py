"""The data card of a run: valid for mlcroissant, `datasets` and hubs; the same whoever ran it; no name breaks it."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from cleanpipe.recipe import load_recipe
from cleanpipe.run import run
from cleanpipe.verify import verify
from cleanpipe_jobs.cli import main

CHECK = Path(__file__).parents[1] / "support" / "check_croissant.py"
HOSTILE = (
    'a"b\\c\n---\npretty_name: x\n| ``` <script>alert(1)</script> [l](javascript:x) {{7*7}} \u202e\x1b[31m\U0001f600 no'
)


def front(out):
    text = (out / "data" / "README.md").read_text("utf-8")
    _, header, body = re.split(r"^---$", text, maxsplit=2, flags=re.MULTILINE)
    return yaml.safe_load(header), body


def croissant(out):
    return json.loads((out / "data" / "croissant.json").read_text("utf-8"))


def audit_of(out):
    return json.loads((out / "audit" / "audit.json").read_text("utf-8"))


def validated(out):
    """Errors, warnings and counts of mlcroissant."""
    command = [sys.executable, "-W", "ignore", str(CHECK), str(out / "data" / "croissant.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def done(crawl, tmp_path):
    out = tmp_path / "out"
    run(load_recipe("web"), [str(crawl)], out, engine="serial")
    return out


def test_the_card_says_what_the_audit_says(done):
    audit, (header, body) = audit_of(done), front(done)
    assert header["license"] == "unknown"
    assert header["language"] == ["en"]
    assert header["size_categories"] == ["n<1K"]
    assert header["configs"] == [{"config_name": "default", "data_files": [{"split": "train", "path": "data-*.arrow"}]}]
    assert f"| documents | {audit['ledger']['fates']['kept']['documents']:,}, of {audit['ledger']['rows']:,} " in body
    assert f"| windows (rows) | {audit['shards']['rows']['value']:,} |" in body
    assert f"| characters | {audit['ledger']['chars_kept']:,}," in body
    assert "| captured | 2024-05-17 to 2024-05-17 |" in body
    for row in audit["funnel"]:
        found = re.search(rf"^\| {re.escape(row['stage'])} \|.*$", body, re.MULTILINE)[0]
        assert f"| {row['documents']['in']:,} | {row['documents']['out']:,} |" in found
        assert all(f"{reason} {n:,}" in found for reason, n in audit["stages"][row["stage"]]["dropped"].items())
    for given in audit["identity"]["inputs"]:
        assert f"| `{given['source']}` | {given['size']:,} | `{given['sha256']}` |" in body
    assert all(digest in body for digest in [audit["identity"]["code"], *audit["identity"]["models"].values()])
    assert "The balance closes" in body
    assert "not removed" in body.split("## Known limits")[1]
    assert f"{audit['windows']['duplication']['value']:.2f} times" in body
    assert "1 records or damaged ranges could not be treated" in body  # the cut tail


def test_croissant_names_every_shard_and_column(done):
    data, manifest = croissant(done), json.loads((done / "manifest.json").read_text())
    shards = {n.removeprefix("data/"): f for n, f in manifest["files"].items() if n.endswith(".arrow")}
    files = [d for d in data["distribution"] if d["@type"] == "cr:FileObject"]
    assert {f["contentUrl"]: (f["sha256"], f["contentSize"]) for f in files} == {
        n: (f["sha256"], f"{f['bytes']} B") for n, f in shards.items()
    }
    for name, facts in shards.items():
        assert hashlib.sha256((done / "data" / name).read_bytes()).hexdigest() == facts["sha256"]
    with pa.ipc.open_stream(done / "data" / next(iter(shards))) as reader:
        names = reader.schema.names
    (records,) = data["recordSet"]
    assert [f["source"]["extract"]["column"] for f in records["field"]] == names
    kinds = {f["name"]: f["dataType"] for f in records["field"]}
    expected = {"text": "sc:Text", "length": "cr:Int32", "bytes": "cr:Int64", "doc_id": "sc:Text"}
    expected |= {"language_id_score": "cr:Float64", "date": "sc:DateTime"}
    assert {n: kinds[n] for n in expected} == expected
    assert all(len(f["description"]) > len(f["name"]) for f in records["field"])
    assert data["datePublished"] == "2024-05-17"
    assert data["isLiveDataset"] is False
    assert not {"url", "creator", "publisher"} & set(data)


def test_mlcroissant_finds_nothing_wrong(done):
    errors, warnings, (files, sets, fields) = validated(done)
    assert (errors, warnings) == ([], [])
    assert (files, sets, fields) == (1, 1, len(croissant(done)["recordSet"][0]["field"]))


def test_the_manifest_names_the_card_and_verify_watches_it(done):
    manifest = json.loads((done / "manifest.json").read_text())
    assert {"data/README.md", "data/croissant.json"} <= set(manifest["files"])
    assert verify(done).findings == []
    path = done / "data" / "README.md"
    path.write_text(path.read_text().replace("unknown", "mit", 1))
    assert any("data/README.md" in finding for finding in verify(done).findings)


def test_datasets_opens_the_folder(done, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = audit_of(done)["shards"]["rows"]["value"]
    assert len(datasets.load_from_disk(str(done / "data"))) == rows
    # as a hub sees it: the card's configs say which files are the data, whatever else lies there
    hub = tmp_path / "hub"
    shutil.copytree(done / "data", hub)
    (hub / "state.json").unlink()  # by this file `datasets` knows a folder that load_from_disk opens
    loaded = datasets.load_dataset(str(hub), cache_dir=str(tmp_path / "cache"))
    assert {k: len(v) for k, v in loaded.items()} == {"train": rows}
    assert loaded["train"].column_names[:2] == ["text", "url"]


def test_the_card_is_one_a_hub_takes(done):
    hub = pytest.importorskip("huggingface_hub")
    loaded = hub.DatasetCard.load(done / "data" / "README.md")
    said = loaded.data.to_dict()
    assert said["license"] == "unknown"
    assert said["task_categories"] == ["text-generation"]
    assert said == front(done)[0]


@pytest.mark.parametrize("change", ["workers", "root", "reversed"])
def test_the_same_bytes_whoever_ran_it(crawl, done, tmp_path, change):
    inputs, options = [str(crawl)], {"engine": "serial"}
    if change == "workers":
        options = {"engine": "local", "workers": 2}
    elif change == "root":
        inputs = [str(shutil.copytree(crawl, tmp_path / "elsewhere" / crawl.name))]
        for path in crawl.iterdir():
            shutil.copystat(path, tmp_path / "elsewhere" / crawl.name / path.name)
    else:
        inputs = sorted((str(p) for p in crawl.iterdir()), reverse=True)
    run(load_recipe("web"), inputs, tmp_path / "other", **options)
    for name in ("README.md", "croissant.json"):
        ours, theirs = ((o / "data" / name).read_bytes() for o in (done, tmp_path / "other"))
        assert ours == theirs
        assert str(tmp_path).encode() not in ours
        assert not re.search(rb"20\d\d-\d\d-\d\dT\d\d:", ours)  # no time of day


def test_a_run_without_documents_has_an_honest_card(make, tmp_path):
    source = make.write_gz(tmp_path / "empty.warc.gz", [make.warcinfo()])
    run(load_recipe("web"), [str(source)], tmp_path / "out", engine="serial")
    header, body = front(tmp_path / "out")
    assert "language" not in header
    assert header["size_categories"] == ["n<1K"]
    assert "| documents | 0, of 0 " in body
    assert "| captured | not said |" in body
    data = croissant(tmp_path / "out")
    assert "datePublished" not in data
    errors, warnings, _ = validated(tmp_path / "out")
    assert errors == []
    assert all("datePublished" in w or "date_published" in w for w in warnings)  # nobody said a date
    assert verify(tmp_path / "out").findings == []


def test_a_run_of_one_document(make, tmp_path):
    source = make.write_gz(tmp_path / "one.warc.gz", [make.response("http://a.example/", make.page(make.prose(1)))])
    run(load_recipe("web"), [str(source)], tmp_path / "out", engine="serial")
    assert "| documents | 1, of 1 " in front(tmp_path / "out")[1]
    assert validated(tmp_path / "out")[:2] == [[], []]


def test_names_from_outside_break_neither_yaml_nor_markdown_nor_json(make, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    page = make.response("http://a.example/", make.page(make.prose(1)))
    make.write_gz(folder / "<img src=x>|`y`\n---\x1b[31m\u202e](a).warc.gz", [page])
    recipe, spelled = tmp_path / "mine.toml", json.dumps(HOSTILE, ensure_ascii=False)  # as TOML has it
    recipe.write_text(f'extends = "web"\nname = {spelled}\ndescription = {spelled}\n', encoding="utf-8")
    line = ["run", str(recipe), str(folder), "--out", str(tmp_path / "out"), "--engine", "serial", "--quiet"]
    assert main(line) == 0
    header, body = front(tmp_path / "out")
    assert header["pretty_name"].startswith('a"b\\c --- pretty_name: x | ``` <script>alert(1)')
    assert header["license"] == "unknown"
    assert not re.search(r"(?<!\\)<(script|img)", body)
    assert body.count("\n# ") == 1
    assert re.findall(r"^```", body, re.MULTILINE) == ["```"] * 4  # two blocks, and nothing from outside ends one
    assert all(c.isprintable() or c == "\n" for c in body)
    assert croissant(tmp_path / "out")["name"].startswith('a"b\\c --- pretty_name: x | ``` <script>alert(1)')
    assert validated(tmp_path / "out")[0] == []


def test_what_was_switched_off_is_said(crawl, tmp_path):
    off = ("language_preview", "language_id", "minhash_sign", "minhash_drop", "windowing")
    run(load_recipe("web", [f"{name}.enabled=false" for name in off]), [str(crawl)], tmp_path / "out", engine="serial")
    header, body = front(tmp_path / "out")
    assert "language" not in header
    assert "| languages | not told |" in body
    limits = body.split("## Known limits")[1]
    assert "Duplicates were not looked for" in limits
    (told,) = [line for line in limits.splitlines() if "Switched off in this run: " in line]
    assert set(off) <= set(told.partition("run: ")[2].rstrip(".").split(", "))  # with those that web switches off
    assert "Windows overlap" not in limits
    assert validated(tmp_path / "out")[:2] == [[], []]


LOOKED = [
    # sets, what the card says then, what it does not say any more
    ([], "Crawler rules, reservations and licences in pages and HTTP heads were read; no page was dropped by them",
     "licences in pages, robots.txt"),
    (["rights.enabled=false"], "Copyright, licences in pages, robots.txt and opt-outs", "were read"),
    (["rights.drop=noai"], "pages were dropped by them", "no page was dropped"),
    (["mask_personal.enabled=true"], "e-mail addresses, public IP addresses, telephone numbers were looked for",
     "Personal data was not looked for"),
    (["mask_personal.enabled=true", "mask_personal.kinds=ip"], "Of personal data, public IP addresses were looked for",
     "e-mail addresses, public"),
    (["safety.enabled=true"], "were counted by their shapes, and not removed", "Personal data was not looked for"),
    (["safety.enabled=true", "mask_personal.enabled=true"], "by their shapes and replaced", "and not removed"),
    (["safety.enabled=true", "safety.adult_words={list}"], "words of the user's lists were counted, and not dropped",
     "Nothing was judged"),
    (["decontaminate.enabled=true"], "Evaluation sets were not searched for", "benchmark files"),
    (["decontaminate.enabled=true", "decontaminate.benchmarks={list}"],
     "the user's benchmark files are named in the ledger, and are in here", "Evaluation sets were not searched for"),
    (["decontaminate.enabled=true", "decontaminate.benchmarks={list}", "decontaminate.drop=true"],
     "the user's benchmark files were dropped", "Evaluation sets were not searched for"),
]  # fmt: skip


@pytest.mark.parametrize(("sets", "said", "unsaid"), LOOKED, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_what_a_stage_looked_for_is_not_said_to_be_undone(make, tmp_path, sets, said, unsaid):
    words = tmp_path / "list.txt"
    words.write_text("one two three four five six seven eight nine ten eleven twelve thirteen fourteen\n")
    path = make.write_gz(tmp_path / "a.warc.gz", [make.response("http://a.example/", make.page(make.prose(1)))])
    recipe = load_recipe("web", [s.format(list=words) for s in sets])
    run(recipe, [str(path)], tmp_path / "out", engine="serial")
    limits = front(tmp_path / "out")[1].split("## Known limits")[1].split("## Licence")[0]
    assert said in limits
    assert unsaid not in limits
    croissant = json.loads((tmp_path / "out" / "data" / "croissant.json").read_text("utf-8"))
    (personal,) = croissant["rai:personalSensitiveInformation"]
    assert personal[:30] in limits


def test_a_path_of_this_machine_stands_in_no_card(crawl, tmp_path):
    from cleanpipe.registry import catalogue  # the model that the package carries, by a path of ours

    assert "language_id" in catalogue()
    from cleanpipe_stages.lid.model import find_model

    model = shutil.copy(find_model(""), tmp_path / "my-model.ftz")
    sets = [f"language_id.model={model}", "language_id.threshold=0.65"]
    run(load_recipe("web", sets), [str(crawl)], tmp_path / "out", engine="serial")
    for name in ("README.md", "croissant.json"):
        text = (tmp_path / "out" / "data" / name).read_text("utf-8")
        assert str(tmp_path) not in text
    assert "my-model.ftz" in (tmp_path / "out" / "data" / "README.md").read_text("utf-8")
