"""The numbers of a run's page, counted again: by SQL over the ledger, and from the shards' files. Independent of the
audit's own counting; only the order of the stages and the layout of audit.json are taken from it.
"""

from collections import defaultdict

SELECTION = ("bad_type", "other_language")
THRESHOLDS = ("0.5", "0.65", "0.8", "0.9", "0.95", "0.99", "0.995")
QUANTILES = ("0.01", "0.05", "0.10", "0.25", "0.50", "0.75", "0.90", "0.95", "0.99")
HOST = r"^[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^/?#:\[\]]+)"
TEXT_COLUMNS = ("language", "language_preview")
AS_READ = ("record_type", "is_http", "http_status", "declared_type", "media_type", "charset")


def edges():
    beyond = [10.0]
    while beyond[-1] < 1e12:
        beyond.append(float(f"{beyond[-1] * 1.02:.6g}"))
    return [-e for e in reversed(beyond)] + [i / 100 for i in range(-999, 1000)] + beyond


class Counts:
    """The part of audit.json that the ledger and the shards tell, counted anew."""

    def __init__(self, out, audit, recipe_audit):
        import duckdb

        self.out, self.audit, self.options = out, audit, recipe_audit
        self.sql = duckdb.connect()
        self.sql.execute("SET threads = 1")
        self.sql.execute(f"CREATE VIEW ledger AS SELECT * FROM read_parquet('{out}/ledger/part-*.parquet')")
        self.columns = [r[0] for r in self.sql.execute("DESCRIBE ledger").fetchall()]
        self.order = [row["stage"] for row in audit["funnel"]]

    def rows(self, sql):
        return self.sql.execute(sql).fetchall()

    def one(self, sql):
        return self.rows(sql)[0][0] or 0

    def counts(self, sql):
        return {str(k): n for k, n in self.rows(sql)}

    def ledger(self):
        fates = {}
        for fate, stage, reason, n, size in self.rows(
            "SELECT fate, stage, reason, count(*), coalesce(sum(bytes_in), 0)::BIGINT FROM ledger GROUP BY ALL"
        ):
            entry = {"documents": n, "bytes": size}
            if fate == "kept":
                fates[fate] = entry
            else:
                fates.setdefault(fate, {}).setdefault(stage, {})[reason] = entry
        totals = {f: {"documents": 0, "bytes": 0} for f in ("kept", "dropped", "quarantined")}
        for fate, n, size in self.rows(
            "SELECT fate, count(*), coalesce(sum(bytes_in), 0)::BIGINT FROM ledger GROUP BY 1"
        ):
            totals[fate] = {"documents": n, "bytes": size}
        chars = int(self.one("SELECT sum(chars_out) FROM ledger WHERE fate = 'kept'"))
        return {
            "ledger": {
                "rows": self.one("SELECT count(*) FROM ledger"),
                "fates": fates,
                "totals": totals,
                "chars_kept": chars,
            }
        }

    def funnel(self):
        alive, size = self.rows("SELECT count(*), coalesce(sum(bytes_in), 0)::BIGINT FROM ledger")[0]
        whole, all_bytes = alive, size
        first_text = None
        funnel, stages = [], {}
        text = (
            set(self.order[self.order.index("normalise") + 1 :]) - {"windowing", "utf8_normalize"}
            if "normalise" in self.order
            else set()
        )
        for stage in self.order:
            lost, gone = self.rows(
                f"SELECT count(*), coalesce(sum(bytes_in), 0)::BIGINT FROM ledger WHERE stage = '{stage}'"
            )[0]
            by = {
                fate: self.counts(
                    f"SELECT reason, count(*) FROM ledger WHERE stage = '{stage}' AND fate = '{fate}' GROUP BY 1"
                )
                for fate in ("dropped", "quarantined")
            }
            step = {
                "documents": measured(alive, alive - lost, whole), "bytes": measured(size, size - gone, all_bytes),
                "dropped": sum(by["dropped"].values()), "quarantined": sum(by["quarantined"].values()),
            }  # fmt: skip
            if stage in text:
                passed = self.order[: self.order.index(stage)]
                earlier = " AND ".join(f"stage IS DISTINCT FROM '{s}'" for s in passed)
                chars = int(self.one(f"SELECT sum(chars_out) FROM ledger WHERE {earlier}"))
                left = int(
                    self.one(f"SELECT sum(chars_out) FROM ledger WHERE {earlier} AND stage IS DISTINCT FROM '{stage}'")
                )
                step["characters"] = {"in": chars, "out": left}
                first_text = chars if first_text is None else first_text
            funnel.append(step)
            stages[stage] = {
                "docs_in": alive,
                "docs_out": alive - lost,
                "bytes_in": size,
                "bytes_out": size - gone,
                **by,
            }
            alive, size = alive - lost, size - gone
        return {"funnel": funnel, "stages": stages}

    def input(self):
        n = self.one("SELECT count(*) FROM ledger WHERE record_type IS NOT NULL")
        cut = self.counts(
            "SELECT truncated, count(*) FROM ledger WHERE truncated IS NOT NULL AND record_type IS NOT NULL GROUP BY 1"
        )
        bad = self.one("SELECT count(*) FROM ledger WHERE reason IN ('replacement_encoding', 'bad_content_encoding')")
        aside = self.counts(
            "SELECT reason, count(*) FROM ledger WHERE stage = 'read' AND fate = 'quarantined' GROUP BY 1"
        )
        charsets = self.counts(
            "SELECT coalesce(charset, 'not decoded'), count(*) FROM ledger WHERE record_type IS NOT NULL GROUP BY 1"
        )
        return {"input": {
            "body_bytes": {"value": int(self.one("SELECT sum(bytes_in) FROM ledger"))},
            "documents": {"total": {"value": n}},
            "truncated": {"share": line(sum(cut.values()), n), "by_reason": cut},
            "undecodable": line(bad, n),
            "quarantined": aside,
            "damaged": {"ranges": {"value": aside.get("damaged_range", 0)}},
            "charsets": charsets,
        }}  # fmt: skip

    def http(self):
        if isinstance(self.audit.get("http"), str):
            return {}
        status = self.counts(
            "SELECT coalesce(http_status::VARCHAR, 'unknown'), count(*) FROM ledger "
            "WHERE record_type IS NOT NULL GROUP BY 1"
        )
        known = sum(n for s, n in status.items() if s != "unknown")
        media = self.counts("SELECT media_type, count(*) FROM ledger WHERE media_type IS NOT NULL GROUP BY 1")
        text = sum(media.get(t, 0) for t in ("text/html", "application/xhtml+xml", "text/plain"))
        matrix = defaultdict(dict)
        for declared, sniffed, n in self.rows(
            "SELECT coalesce(declared_type, 'unknown'), coalesce(sniffed_type, 'unknown'), count(*) FROM ledger "
            "WHERE record_type IS NOT NULL GROUP BY ALL"
        ):
            matrix[declared][sniffed] = n
        return {"http": {
            "status": status, "non_200": line(known - status.get("200", 0), known),
            "media_types": top(media, 50), "other_types": line(sum(media.values()) - text, sum(media.values())),
            "declared_by_sniffed": {d: top(by, 50) for d, by in matrix.items()},
        }}  # fmt: skip

    def languages(self):
        stages = [s for s in ("language_preview", "language_id") if s in self.order]
        if not stages:
            return {}
        both = "coalesce(language, language_preview)"
        lost = self.one(
            f"SELECT count(*) FROM ledger WHERE fate = 'dropped' AND stage IN ({', '.join(map(repr, stages))})"
        )
        reached = self.funnel()["stages"][stages[0]]["docs_in"]
        curve = defaultdict(dict)
        for t in THRESHOLDS:
            for language, n, passing in self.rows(
                f"SELECT language, count(*), count(*) FILTER (language_id_score >= {t}) FROM ledger "
                "WHERE language IS NOT NULL GROUP BY 1"
            ):
                curve[language][t] = line(passing, n)
        shares = [s for (s,) in self.rows("SELECT language_id_share FROM ledger WHERE language_id_share IS NOT NULL")]
        mixed = {"mixed_language": line(sum(s < 0.9 for s in shares), len(shares))} if shares else {}
        return {"languages": {
            **mixed,
            "judged": top(self.counts(
                "SELECT language, count(*) FROM ledger WHERE language IS NOT NULL GROUP BY 1"
            ), 50),
            "preview": top(self.counts(
                "SELECT language_preview, count(*) FROM ledger WHERE language_preview IS NOT NULL GROUP BY 1"
            ), 50),
            "kept": top(self.counts(
                f"SELECT {both}, count(*) FROM ledger WHERE fate = 'kept' AND {both} IS NOT NULL GROUP BY 1"
            ), 50),
            "removed": line(lost, reached),
            "keep_curve": curve,
        }}  # fmt: skip

    def scores(self):
        self.sql.execute("CREATE OR REPLACE TABLE edges (low DOUBLE, label VARCHAR)")
        self.sql.executemany("INSERT INTO edges VALUES (?, ?)", [(e, f"{e:g}") for e in edges()])
        out = {}
        for place in (("quality", "scores"), ("languages", "scores"), ("scores",)):
            part = self.audit
            for key in place:
                part = part.get(key, {}) if isinstance(part, dict) else {}
            mine = out
            for key in place:
                mine = mine.setdefault(key, {})
            for name in part:
                mine[name] = self.score(name)
        return out

    def limits(self):
        """Each limit's documents, by what became of them in its stage: from the columns stage and reason alone."""
        out = {}
        for stage, part in self.audit["stages"].items():
            own = out.setdefault(stage, {})["cuts"] = []
            later = ", ".join(f"'{s}'" for s in self.order[self.order.index(stage) + 1 :]) or "''"
            for cut in part["cuts"]:
                counts, score = cut.get("counts", {}), cut["score"]
                if counts.get("by") != "outcome" or counts["known"] == "unknown":
                    own.append({})
                    continue
                passed = f"(fate = 'kept' OR stage IN ({later}))"
                gone = f"(stage IS NOT DISTINCT FROM '{stage}' AND reason = '{cut['reason']}'"
                gone = f"coalesce({gone} AND NOT {score} {cut['keeps']} {cut['at']}), false)"
                of = " AND ".join([f"{c} = '{v}'" for c, v in cut["where"].items()] or ["true"])
                ways = {
                    "asked": f"({passed} OR {gone})", "passed": passed, "dropped": gone,
                    "otherwise": f"(stage IS NOT DISTINCT FROM '{stage}' AND NOT {gone})",
                }  # fmt: skip
                found = {
                    way: self.counts(
                        f"SELECT label, count(*) FROM (SELECT {score}::DOUBLE AS v FROM ledger "
                        f"WHERE {score} IS NOT NULL AND {of} AND {where}) ASOF JOIN edges ON v >= low GROUP BY 1"
                    )
                    for way, where in ways.items()
                }
                has = f"{score} IS NOT NULL" if counts["known"] == "all" else "true"
                of_all = f"SELECT count(*) FROM ledger WHERE {of} AND {has} AND ({passed} OR {gone})"
                found["whole"], found["passes"] = self.one(of_all), self.one(f"{of_all} AND {passed}")
                own.append({"counts": found})
        return {"stages": out}

    def score(self, name):
        whole = self.one("SELECT count(*) FROM ledger")
        n = self.one(f"SELECT count({name}) FROM ledger")
        found = {"measured": line(n, whole)}
        for suffix, where in (("", ""), ("_kept", "AND fate = 'kept'")):
            found[f"histogram{suffix}"] = self.counts(
                f"SELECT label, count(*) FROM (SELECT {name}::DOUBLE AS v FROM ledger "
                f"WHERE {name} IS NOT NULL {where}) ASOF JOIN edges ON v >= low GROUP BY 1"
            )
            at = self.one(
                f"SELECT quantile_disc({name}::DOUBLE, [{', '.join(QUANTILES)}]) FROM ledger WHERE true {where}"
            )
            lows = edges()
            found[f"quantiles{suffix}"] = {
                q: max(e for e in lows if e <= v) for q, v in zip(QUANTILES, at or [], strict=False)
            }  # fmt: skip
        return found


def measured(entered, left, whole):
    return {
        "in": entered,
        "out": left,
        "share_of_stage_input": line(left, entered),
        "share_of_run_input": line(left, whole),
    }


def line(part, whole):
    value = round(part / whole, 6) if whole else "not applicable"
    return {"value": value, "numerator": part, "denominator": whole}


def top(counts, k):
    """The k largest; the rest together."""
    ranked = sorted(counts.items(), key=lambda i: (-i[1], i[0]))
    out = dict(ranked[:k])
    if len(ranked) > k:
        out["(others)"] = sum(n for _, n in ranked[k:])
    return out


def merge(into, other):
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        elif isinstance(value, list) and isinstance(into.get(key), list):
            for a, b in zip(into[key], value, strict=True):
                merge(a, b)
        else:
            into[key] = value
    return into
