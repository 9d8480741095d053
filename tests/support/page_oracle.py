"""The numbers of a run's page, counted again: by SQL over the ledger (``page_counts`` too), and from the shards."""

import hashlib
from collections import defaultdict

from page_counts import AS_READ, HOST, SELECTION, Counts, line, merge, top

FIXED = {
    "doc_id", "source", "record_offset", "record_length", "offset_kind", "record_id", "refers_to", "record_type", "url",
    "date", "fate", "stage", "reason", "http_status", "is_http", "declared_type", "payload_type", "sniffed_type",
    "media_type", "charset", "truncated", "bytes_in", "chars_out", "content_id", "windows", "shard",
}  # fmt: skip


class Oracle(Counts):
    """The part of audit.json that the ledger and the shards tell, counted anew."""

    def tree(self):
        out = {}
        for part in (
            self.ledger,
            self.funnel,
            self.input,
            self.http,
            self.languages,
            self.scores,
            self.limits,
            self.duplicates,
            self.output,
        ):
            merge(out, part())
        out["lost"], out["alarms"], out["samples"] = self.lost(), self.alarms(), self.samples()
        merge(out, self.laws(out))
        merge(out, self.reported(out))
        return out

    def hosts(self, where="true"):
        return self.counts(
            f"SELECT lower(regexp_extract(url, '{HOST}', 1)) AS host, count(*) FROM ledger "
            f"WHERE {where} AND host <> '' GROUP BY 1"
        )

    def grouped(self, expression):
        """{value: (documents, kept, unwanted, {reason: lost})}"""
        out = {}
        for value, fate, stage, reason, n in self.rows(
            f"SELECT {expression} AS v, fate, stage, reason, count(*) FROM ledger WHERE v IS NOT NULL GROUP BY ALL"
        ):
            whole, kept, unwanted, reasons = out.get(value, (0, 0, 0, {}))
            if fate == "kept":
                kept += n
            else:
                reasons = {**reasons, f"{stage}/{reason}": n}
                unwanted += n if reason in SELECTION else 0
            out[value] = (whole + n, kept, unwanted, reasons)
        return out

    def kinds(self):
        kept, unwanted = self.hosts("fate = 'kept'"), self.hosts(f"reason IN {SELECTION}")
        return {
            "host": {h: (n, kept.get(h, 0), unwanted.get(h, 0), {}) for h, n in self.hosts().items()},
            "language": self.grouped("coalesce(language, language_preview)"),
            "type": self.grouped("media_type"),
        }

    def lost(self):
        out = {}
        for kind, found in self.kinds().items():
            ranked = sorted(
                ((n - kept, name) for name, (n, kept, _, _) in found.items() if n > kept), key=lambda x: (-x[0], x[1])
            )
            items = []
            for lost, name in ranked[:50]:
                n, kept, _, reasons = found[name]
                items.append({"name": name, "documents": n, "kept": kept, "lost": lost, "reasons": top(reasons, 3)})
            out[f"{kind}s"] = {"items": items, "names": len(found), "left_out": max(0, len(ranked) - 50)}
        return out

    def alarms(self):
        above, least = self.options["alarm"], self.options["alarm_rows"]
        raised, left_out = [], 0
        for found in self.kinds().values():
            hit = []
            for name, (n, kept, unwanted, reasons) in found.items():
                if n >= least and n - kept > above * n:
                    wanted = n - unwanted
                    design = not (wanted >= least and wanted - kept > above * wanted)
                    hit.append(
                        (design, -n, name, {"name": name, "lost": line(n - kept, n), "reasons": top(reasons, 3)})
                    )
            hit.sort(key=lambda h: h[:3])
            raised += [h[3] for h in hit[:100]]
            left_out += max(0, len(hit) - 100)
        return {"raised": raised, "left_out": left_out}

    def duplicates(self):
        if "minhash_drop" not in self.order:
            return {}
        reached = self.funnel()["stages"]["minhash_drop"]["docs_in"]
        of = self.counts("SELECT reason, count(*) FROM ledger WHERE stage = 'minhash_drop' GROUP BY 1")
        sizes = self.rows("SELECT count(*) + 1 FROM ledger WHERE kept_doc_id IS NOT NULL GROUP BY kept_doc_id")
        clusters = defaultdict(int)
        for (n,) in sizes:
            low = 1 << (n.bit_length() - 1)
            clusters[str(n) if n <= 8 else f"{low}-{2 * low - 1}"] += 1
        biggest = []
        for cluster in (
            self.audit["duplicates"].get("biggest", [])
            if isinstance(self.audit["duplicates"].get("biggest"), list)
            else []
        ):
            stands = bytes.fromhex(cluster["doc_id"])
            n = self.sql.execute("SELECT count(*) + 1 FROM ledger WHERE kept_doc_id = ?", [stands]).fetchone()[0]
            members = []
            for m in cluster["members"]:
                row = self.sql.execute(
                    "SELECT jaccard, kept_doc_id FROM ledger WHERE doc_id = ?", [bytes.fromhex(m["doc_id"])]
                ).fetchone()
                assert bytes(row[1]) == stands
                members.append({"jaccard": row[0]})
            biggest.append({"size": n, "members": members})
        return {"duplicates": {
            "exact": line(of.get("exact_duplicate", 0), reached), "near": line(of.get("near_duplicate", 0), reached),
            "cluster_sizes": clusters, "biggest": biggest, "top_hosts": top(self.hosts("kept_doc_id IS NOT NULL"), 20),
        }}  # fmt: skip

    def output(self):
        import pyarrow as pa

        files, again, written = [], 0, 0
        for shard in self.audit["shards"]["files"]:
            path = self.out / "data" / shard["file"]
            table = pa.ipc.open_stream(path.read_bytes()).read_all()
            size = path.stat().st_size
            assert hashlib.sha256(path.read_bytes()).hexdigest() == shard["sha256"]
            rows = self.one(f"SELECT sum(windows) FROM ledger WHERE shard = '{shard['file']}'")
            assert rows == table.num_rows
            again += sum(table.column("overlap").to_pylist())
            written += sum(table.column("length").to_pylist())
            files.append({"rows": int(rows), "bytes": size, "fill": line(size, shard["fill"]["denominator"])})
        kept = self.one("SELECT count(*) FROM ledger WHERE fate = 'kept'")
        size, raw = sum(f["bytes"] for f in files), self.audit["shards"]["retained"]["denominator"]
        rows = sum(f["rows"] for f in files)
        out = {
            "shards": {"files": files, "rows": {"value": rows}, "bytes": {"value": size}, "retained": line(size, raw)}
        }
        if "windowing" in self.order:
            per = self.counts("SELECT windows, count(*) FROM ledger WHERE windows IS NOT NULL GROUP BY 1")
            whole = int(self.one("SELECT sum(chars_out) FROM ledger WHERE fate = 'kept'"))
            out["windows"] = {
                "per_document": per, "windows": line(sum(int(k) * n for k, n in per.items()), kept),
                "overlap_characters": {"value": again}, "duplication": line(written, whole),
            }  # fmt: skip
        return out

    def samples(self):
        seed, k = self.options["seed"], self.options["samples"]
        scores = [c for c in self.columns if c not in FIXED]
        groups = defaultdict(list)
        for row in self.rows("SELECT fate, stage, reason, doc_id FROM ledger"):
            groups["kept" if row[0] == "kept" else f"{row[1]}/{row[2]}"].append(bytes(row[3]))
        out = {}
        for key, ids in groups.items():
            chosen = sorted(ids, key=lambda i: (mix(int.from_bytes(i[:8], "little") ^ mix(seed)), i.hex()))[:k]
            out[key] = [
                self.sample(key, i, scores, told) for i, told in zip(chosen, self.audit["samples"][key], strict=True)
            ]
        return out

    def sample(self, key, identity, scores, told):
        names = ["record_offset", *AS_READ, *scores]
        row = self.sql.execute(f"SELECT {', '.join(names)} FROM ledger WHERE doc_id = ?", [identity]).fetchone()
        found = dict(zip(names, row, strict=True))
        shown = {n: found[n] for n in scores if isinstance(found[n], (int, float))}
        out = {"doc_id": identity.hex(), "record_offset": found["record_offset"], "scores": shown}
        out["as_read"] = {n: found[n] for n in AS_READ if found[n] is not None}
        decided = []
        for cut in self.audit["stages"].get(key.partition("/")[0], {}).get("cuts", []):
            value = shown.get(cut["score"])
            holds = {
                ">=": lambda a, b: a >= b,
                ">": lambda a, b: a > b,
                "<=": lambda a, b: a <= b,
                "<": lambda a, b: a < b,
            }
            if (
                cut["reason"] == key.rpartition("/")[2]
                and value is not None
                and all(found[c] == v for c, v in cut["where"].items())
                and not holds[cut["keeps"]](value, cut["at"])
            ):
                decided.append({"value": value})
        decided += [{"value": found[d["column"]]} for d in told.get("decided", ()) if d.get("column") in found]
        out["decided"] = decided
        return out

    def laws(self, tree):
        """Both sides of the laws that the ledger can tell."""
        lines = []
        named = dict(zip(self.order, tree["funnel"], strict=True))
        kept = tree["ledger"]["totals"]["kept"]
        for law in self.audit["conservation"]["lines"]:
            what, _, stage = law["what"].partition(" of ")
            both = None
            if stage in named and what in ("documents", "bytes"):
                both = named[stage][what]["out"]
            elif law["what"] in ("documents kept", "bytes kept"):
                both = kept[law["what"].split()[0]]
            elif law["what"] in ("characters kept", "characters of the shards"):
                both = tree["ledger"]["chars_kept"]
            elif law["what"] == "rows of the shards":
                both = tree["shards"]["rows"]["value"]
            elif law["what"] == "bytes of the run":
                both = tree["funnel"][0]["bytes"]["in"]
            lines.append({} if both is None else {"left": both, "right": both})
        return {"conservation": {"lines": lines}}

    def reported(self, tree):
        """Our figures beside those reported elsewhere."""
        ours = {
            "responses of another status than 200": ("http", "non_200"), "other types": ("http", "other_types"),
            "removed by language": ("languages", "removed"), "text written, by its overlap": ("windows", "duplication"),
            "retained (186 TB → 12.7 TB)": ("shards", "retained"),
        }  # fmt: skip

        def line_of(what):
            if what.startswith("entropy"):
                median = tree["quality"]["scores"]["entropy"]["quantiles_kept"].get("0.50")
                return {} if median is None else {"ours": median}
            section, name = ours.get(what, ("", ""))
            return {"ours": tree[section][name]} if section in tree else {}

        stages = {
            name: {"reported_elsewhere": [line_of(li["what"]) for li in stage["reported_elsewhere"]]}
            for name, stage in self.audit["stages"].items()
        }
        return {
            "stages": stages,
            "reported_elsewhere": [line_of(li["what"]) for li in self.audit["reported_elsewhere"]],
        }


def mix(x):
    """splitmix64."""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)
