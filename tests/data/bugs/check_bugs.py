"""Runs the bug cases of one folder through cleanpipe and compares ledger and shards with what each case expects.

usage: check_bugs.py CLEANPIPE_BIN DIR [-k TEXT] [--keep FOLDER]     exit 0 only when every case is right
Needs pyarrow alone. Columns are those of shared/design/data-model.md. The vocabulary of `expect` is in DIR/README.md.
"""
import argparse, glob, json, os, re, shutil, signal, subprocess, sys, tempfile, unicodedata
import pyarrow as pa, pyarrow.parquet as pq

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
RUN_KEYS = {"any_of", "docs", "rc", "rows", "kept", "dropped", "quarantined", "kept_count", "kept_one_of", "kept_any_of", "kept_max_of", "jaccard_min",
            "jaccard", "quarantine_min", "quarantine_max", "non_documents", "report_not_contains", "max_cpu_s", "max_rss_mb"}
DOC_KEYS = {"any_of", "fate", "stage", "reason_like", "reason_not_like", "columns", "text_contains", "text_not_contains", "text_equals", "text_regex",
            "raw_regex", "raw_not_regex", "text_order", "text_count", "text_chars_min", "text_chars_max", "windows", "not_cut"}
as_list = lambda x: x if isinstance(x, list) else [x]
flat = lambda t: re.sub(r"\s+", " ", t).strip()


class Run:
    """One finished run folder: rows (ledger), texts and windows by doc_id, quarantine rows, audit, reports."""

    def __init__(self, out):
        self.out, self.bad = out, []
        read = lambda d: [r for f in sorted(glob.glob(f"{out}/{d}/*.parquet")) for r in pq.read_table(f).to_pylist()]
        self.rows, self.quarantine = read("ledger"), read("quarantine")
        self.windows = {}
        for f in sorted(glob.glob(f"{out}/data/*.arrow")):
            try: t = pa.ipc.open_stream(f).read_all()
            except pa.ArrowInvalid: t = pa.ipc.open_file(f).read_all()
            for r in t.select([c for c in ("doc_id", "text", "length", "window", "windows", "char_start", "char_end", "overlap") if c in t.column_names]).to_pylist():
                self.windows.setdefault(bytes(r["doc_id"]), []).append(r)
        self.text = {i: self._join(i, w) for i, w in self.windows.items()}
        try:
            with open(f"{out}/audit/audit.json") as f: self.audit = json.load(f)
        except (OSError, ValueError): self.audit = None
        self._laws()

    def _join(self, i, ws):
        t = ""
        for k, w in enumerate(ws):
            if w["window"] != k or w["windows"] != len(ws): self.bad.append("windows out of order or miscounted")
            if len(w["text"]) > 2048 or len(w["text"]) != w["length"]: self.bad.append(f"a window of {len(w['text'])}, length says {w['length']}")
            if k and not 0 <= w["overlap"] <= 576: self.bad.append(f"overlap {w['overlap']}")
            t += w["text"][w["overlap"] if k else 0:]
        for w in ws:
            if t[w["char_start"]:w["char_end"]] != w["text"]: self.bad.append("a window is not its span"); break
        for a, b in zip(ws, ws[1:]):
            if a["char_start"] <= b["char_start"] and b["char_end"] <= a["char_end"]: self.bad.append("a window inside another")
        if CONTROL.search(t): self.bad.append("a control character survived")
        if len(t) < 2_000_000 and not max_marks(t) and not unicodedata.is_normalized("NFC", t): self.bad.append("text is not NFC")
        return t

    def _laws(self):
        ids = [bytes(r["doc_id"]) for r in self.rows]
        if len(set(ids)) != len(ids): self.bad.append("doc_id repeats in the ledger")
        for r in self.rows:
            if r["fate"] not in ("kept", "dropped", "quarantined"): self.bad.append(f"fate {r['fate']!r}")
            if r["fate"] == "dropped" and not (r["stage"] and r["reason"]): self.bad.append("dropped without stage and reason")
            if r["fate"] == "kept" and (r["stage"] or r["reason"]): self.bad.append("kept with a stage or reason")
        if {i for i, r in zip(ids, self.rows) if r["fate"] == "kept"} != set(self.windows): self.bad.append("kept ledger rows are not the documents of the shards")

    def urls(self, fate): return [r["url"] for r in self.rows if r["fate"] == fate]


def max_marks(t):
    """True where a run of combining marks is so long that checking NFC here could take quadratic time."""
    return re.search("[\u0300-\u036f]{2000}", t) is not None


def find(d, key, path=()):
    """Whole numbers in nested audit data under `key`, leaf forms n or {"value": n}."""
    if isinstance(d, bool) or d is None: return 0
    if isinstance(d, (int, float)): return int(d) if key in path else 0
    if isinstance(d, list): return sum(find(x, key, path) for x in d)
    if not isinstance(d, dict): return 0
    if isinstance(d.get("value"), (int, float)): return int(d["value"]) if key in path + tuple(str(x) for x in d.values() if isinstance(x, str)) else 0
    return sum(find(v, key, path + (k,)) for k, v in d.items())


def check_doc(e, r, run):
    """Faults of one ledger row (and its text) against one document expectation."""
    bad = []
    if unknown := set(e) - DOC_KEYS: return [f"the case uses unknown keys {sorted(unknown)}"]
    if "any_of" in e:
        tries = [check_doc(x, r, run) for x in e["any_of"]]
        if all(tries): bad.append("none of the acceptable outcomes: " + " | ".join("; ".join(t) for t in tries))
    i = bytes(r["doc_id"]); text = run.text.get(i); stage, reason = r["stage"] or "", r["reason"] or ""
    if "fate" in e and r["fate"] not in as_list(e["fate"]): bad.append(f"fate {r['fate']} ({stage}/{reason}), want {e['fate']}"); return bad
    if "stage" in e and r["fate"] == "dropped" and not any(stage.startswith(s) for s in as_list(e["stage"])): bad.append(f"stage {stage}, want {e['stage']}")
    if "reason_like" in e and r["fate"] == "dropped" and not re.search(e["reason_like"], reason, re.I): bad.append(f"reason {reason!r}, want like {e['reason_like']!r}")
    if "reason_not_like" in e and re.search(e["reason_not_like"], reason, re.I): bad.append(f"reason {reason!r}")
    for c, want in e.get("columns", {}).items():
        got = r.get(c, "no such column"); got = got.lower() if isinstance(got, str) and c == "charset" else got
        if got not in [str(x).lower() if c == "charset" and x else x for x in as_list(want)]: bad.append(f"{c} is {got!r}, want {want!r}")
    keys = [k for k in e if k.startswith(("text_", "raw_")) or k in ("windows", "not_cut")]
    if not keys: return bad
    if text is None: return bad + (["no text in the shards"] if r["fate"] == "kept" or "fate" not in e else [])
    f = flat(text); short = lambda s: s if len(s) < 60 else s[:57] + "..."
    for s in e.get("text_contains", []):
        if flat(unicodedata.normalize("NFC", s)) not in f: bad.append(f"text lacks {short(s)!r}")
    for s in e.get("text_not_contains", []):
        if flat(s) in f: bad.append(f"text has {short(s)!r}")
    for s in as_list(e.get("text_regex", [])):
        if not re.search(s, f): bad.append(f"text does not match {short(s)!r}")
    for s in as_list(e.get("raw_regex", [])):
        if not re.search(s, text): bad.append(f"raw text does not match {short(s)!r}")
    for s in as_list(e.get("raw_not_regex", [])):
        if m := re.search(s, text): bad.append(f"raw text matches {short(s)!r}: {short(m.group())!r}")
    if "text_equals" in e and text.rstrip("\n") != e["text_equals"]: bad.append(f"text is not equal ({len(text)} characters, want {len(e['text_equals'])})")
    at = 0
    for s in e.get("text_order", []):
        if (p := f.find(flat(s), at)) < 0: bad.append(f"{s!r} missing or out of order"); break
        at = p + 1
    for s, n in e.get("text_count", {}).items():
        if f.count(flat(s)) != n: bad.append(f"{s!r} {f.count(flat(s))} times, want {n}")
    if len(text) < e.get("text_chars_min", 0): bad.append(f"{len(text)} characters, want at least {e['text_chars_min']}")
    if len(text) > e.get("text_chars_max", len(text)): bad.append(f"{len(text)} characters, want at most {e['text_chars_max']}")
    ws = run.windows[i]
    if "windows" in e and len(ws) not in as_list(e["windows"]): bad.append(f"{len(ws)} windows, want {e['windows']}")
    if "windows" in e and r.get("windows") != len(ws): bad.append(f"ledger says {r.get('windows')} windows, shards {len(ws)}")
    edges = {w["char_start"] for w in ws} | {w["char_end"] for w in ws}
    for c in e.get("not_cut", []):
        for m in re.finditer(re.escape(c), text):
            if any(m.start() < x < m.end() for x in edges): bad.append(f"an edge cuts the cluster {c!r}"); break
    return bad


def check_run(e, run, rc=0, cpu=0.0, rss=0.0):
    """Faults of one finished run against one expectation."""
    bad = []
    if unknown := set(e) - RUN_KEYS - DOC_KEYS: return [f"the case uses unknown keys {sorted(unknown)}"]
    doc_level = {k: v for k, v in e.items() if k in DOC_KEYS and k != "any_of"}
    if "any_of" in e:
        run_level = any(set(x) & RUN_KEYS - {"any_of"} for x in e["any_of"])
        if run_level:
            tries = [check_run({k: v for k, v in x.items()}, run, rc, cpu, rss) for x in e["any_of"]]
            if all(tries): bad.append("none of the acceptable outcomes: " + " | ".join("; ".join(t) for t in tries))
        else: doc_level["any_of"] = e["any_of"]
    if doc_level:
        if len(run.rows) != 1: bad.append(f"{len(run.rows)} ledger rows, want 1")
        if run.rows: bad += check_doc(doc_level, run.rows[0], run)
    for u, x in e.get("docs", {}).items():
        hits = [r for r in run.rows if r["url"] in u.split("|")]
        if len(hits) != 1: bad.append(f"{len(hits)} ledger rows for {u}"); continue
        bad += [f"{u}: {b}" for b in check_doc(x, hits[0], run)]
    if rc not in e.get("rc", [0, 1]): bad.append(f"exit {rc}")
    if "rows" in e and len(run.rows) != e["rows"]: bad.append(f"{len(run.rows)} ledger rows, want {e['rows']}")
    kept = run.urls("kept")
    for fate in ("kept", "dropped", "quarantined"):
        for u in e.get(fate, []):
            if u not in run.urls(fate): bad.append(f"{u} is not {fate}")
    if e.get("dropped") == [] and run.urls("dropped"): bad.append(f"{len(run.urls('dropped'))} dropped, want none")
    if "kept_count" in e and len(kept) != e["kept_count"]: bad.append(f"{len(kept)} kept, want {e['kept_count']}")
    for g in e.get("kept_one_of", []):
        if sum(u in g for u in kept) != 1: bad.append(f"{sum(u in g for u in kept)} kept of {g}, want 1")
    if "kept_any_of" in e:
        allu = {u for g in e["kept_any_of"] for u in g}
        if sorted(u for u in kept if u in allu) not in [sorted(g) for g in e["kept_any_of"]]: bad.append(f"kept {sorted(kept)}, want one of {e['kept_any_of']}")
    if "kept_max_of" in e and (n := sum(u in e["kept_max_of"]["urls"] for u in kept)) > e["kept_max_of"]["max"]: bad.append(f"{n} kept of a set, want at most {e['kept_max_of']['max']}")
    if "jaccard_min" in e or "jaccard" in e:
        by = {bytes(r["doc_id"]): r for r in run.rows}
        for r in run.rows:
            if r["fate"] != "dropped" or not (r["stage"] or "").startswith("minhash"): continue
            k = by.get(bytes(r["kept_doc_id"])) if r.get("kept_doc_id") else None
            if k is None or k["fate"] != "kept": bad.append(f"{r['url']}: kept_doc_id is no kept document")
            j = r.get("jaccard")
            if j is None or j < e.get("jaccard_min", 0): bad.append(f"{r['url']}: jaccard {j}, want at least {e.get('jaccard_min')}")
            elif "jaccard" in e and abs(j - e["jaccard"]["value"]) > e["jaccard"]["tolerance"]: bad.append(f"{r['url']}: jaccard {j}, want {e['jaccard']['value']}")
    q = len(run.quarantine)
    if q < e.get("quarantine_min", 0): bad.append(f"{q} rows in quarantine, want at least {e['quarantine_min']}")
    if q > e.get("quarantine_max", q): bad.append(f"{q} rows in quarantine, want at most {e['quarantine_max']}")
    for t, n in e.get("non_documents", {}).items():
        rec = (run.audit or {}).get("input", {}).get("records") if isinstance((run.audit or {}).get("input"), dict) else None
        if rec is None: bad.append("audit.json has no input.records"); break
        if isinstance(rec, dict) and isinstance(rec.get("total"), dict): rec = rec["total"]
        if find(rec, t) != n: bad.append(f"audit counts {find(rec, t)} {t}, want {n}")
    if "report_not_contains" in e:
        pages = glob.glob(f"{run.out}/audit/*.html")
        if not pages: bad.append("no HTML report")
        for p in pages:
            h = open(p, encoding="utf-8", errors="replace").read()
            bad += [f"{os.path.basename(p)} has raw {s!r}" for s in e["report_not_contains"] if s in h]
    if cpu > e.get("max_cpu_s", cpu): bad.append(f"{cpu:.0f} s of CPU, want at most {e['max_cpu_s']}")
    if rss > e.get("max_rss_mb", rss): bad.append(f"{rss:.0f} MB, want at most {e['max_rss_mb']}")
    return bad


# A child's peak memory starts at that of the process it was forked from, so a small launcher stands between and measures.
LAUNCHER = """import json, os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, ru = os.wait4(pid, 0)
json.dump([os.waitstatus_to_exitcode(status), ru.ru_utime + ru.ru_stime, ru.ru_maxrss / 1024], open(sys.argv[1], "w"))"""


def execute(cmd, log, timeout):
    """-> exit status (None when it ran past timeout), CPU seconds and peak MB of the process and all it waited for."""
    fig = log + ".json"; cmd = [shutil.which(cmd[0]) or cmd[0], *cmd[1:]]
    with open(log, "wb") as f:
        p = subprocess.Popen([sys.executable, "-S", "-E", "-c", LAUNCHER, fig, *cmd], stdout=f, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        try: p.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL); p.wait(); return None, 0.0, 0.0
    return tuple(json.load(open(fig)))


def one(case, binary, folder, tmp):
    """Faults of one case."""
    files = as_list(case["file"])
    if case.get("large_recipe"):
        subprocess.run([sys.executable, os.path.join(folder, "gen_large.py"), tmp, *files], check=True)
        paths = [os.path.join(tmp, f) for f in files]
    else: paths = [os.path.join(folder, f) for f in files]
    bad, kept, text = [], [], []
    for n, order in enumerate([paths, paths[::-1]] if case.get("both_orders") else [paths]):
        out, log = os.path.join(tmp, f"out{n}"), os.path.join(tmp, f"log{n}")
        cmd = [binary, "run", "web", *order, "--out", out, "--quiet"]
        for s in case.get("set", []): cmd += ["--set", s]
        rc, cpu, rss = execute(cmd, log, case.get("timeout_s", 300))
        last = (open(log, "rb").read().decode("utf-8", "replace").strip().splitlines() or [""])[-1][:200]
        if rc is None: return bad + [f"killed after {case.get('timeout_s', 300)} s"]
        if not os.path.isdir(out) or not glob.glob(f"{out}/ledger/*.parquet"): return bad + [f"exit {rc}, no ledger: {last}"]
        size = sum(os.path.getsize(f) for f in glob.glob(f"{out}/data/*.arrow")) / 1e6
        if size > 100: return bad + [f"shards of {size:.0f} MB out of a small input"]
        run = Run(out)
        bad += [f"law: {b}" for b in dict.fromkeys(run.bad)] + check_run(case["expect"], run, rc, cpu, rss)
        kept.append(sorted(run.urls("kept"))); text.append({bytes(r["doc_id"]): run.text.get(bytes(r["doc_id"])) for r in run.rows if r["fate"] == "kept"})
    if len(kept) == 2 and (kept[0] != kept[1] or text[0] != text[1]): bad.append(f"kept {kept[0]} in one order and {kept[1]} in the other")
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__); ap.add_argument("binary"); ap.add_argument("folder")
    ap.add_argument("-k", default="", help="only cases whose id, kind or description has this text"); ap.add_argument("--keep", help="leave the run folders here")
    a = ap.parse_args(); right = 0
    cases = [json.loads(x) for x in open(os.path.join(a.folder, "cases.jsonl"), encoding="utf-8") if x.strip()]
    cases = [c for c in cases if a.k in c["id"] + " " + c["kind"] + " " + c["what"]]
    for c in cases:
        tmp = os.path.join(a.keep, c["id"]) if a.keep else tempfile.mkdtemp(); os.makedirs(tmp, exist_ok=True)
        try: bad = one(c, os.path.abspath(a.binary) if os.path.exists(a.binary) else a.binary, a.folder, tmp)
        except Exception as x: bad = [f"the check itself failed: {type(x).__name__}: {x}"]
        finally:
            if not a.keep: shutil.rmtree(tmp, ignore_errors=True)
        right += not bad
        if bad: print(f"{c['id']} {c['kind']} ({c['source']}): " + "; ".join(bad[:4]) + (f"; and {len(bad) - 4} more" if len(bad) > 4 else ""), flush=True)
    print(f"{right} of {len(cases)} right"); sys.exit(right != len(cases) or not cases)


if __name__ == "__main__": main()
