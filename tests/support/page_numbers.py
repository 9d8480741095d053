"""The numbers on a page: which there are, and what stands at the places that they name."""

import re
from fnmatch import fnmatch
from html.parser import HTMLParser
from urllib.parse import unquote

# what no ledger can know, and where it is known from
ELSEWHERE = (
    "/input/files/*", "/input/file_bytes/*", "/input/block_bytes/*", "/input/readers*", "/input/reread*",  # the reader
    "/input/records/*", "/input/damaged/bytes/*",  # records that are no documents; bytes that are no record
    "/stages/*/not_applicable", "/stages/*/facts/*",  # counted by stages
    "/quality/failed_by_rule/*", "/quality/removed_by_one_rule_alone/*", "/quality/joint_failures/*",  # stage's facts
    "/scrub/*", "/characters/*",  # of markup, and of characters before the repairs
    "/funnel/*/characters/*", "/conservation/lines/*",  # checked where the ledger has them, see ``_characters``
    "/stages/*/cuts/*/counts/*",  # where the judge told; else compared
    "/stages/*/cuts/*/at", "/stages/*/options/*", "/samples/*/decided/*/at", "/alarms/above",
    "/alarms/least_documents",  # the recipe's
    "/duplicates/meeting/*", "/duplicates/s_curve/*", "/duplicates/s_curve_measured/*",  # the meeting's
    "/duplicates/jaccard_of_verified_pairs*",
    "/identity/inputs/*/size", "/identity/inputs[[]#]", "/conservation/lines[[]#]",
    "/http/partial*", "/stages/normalise/reported_elsewhere/*",  # see /characters
    "run.json:*",
)  # fmt: skip


class Numbers(HTMLParser):
    """Every element of a page that carries a number: (exact value, place, text)."""

    def __init__(self, page):
        super().__init__()
        self.found, self._open = [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "data-n" in given:
            self.found.append([given["data-n"], given["data-of"], ""])
            self._open = tag

    def handle_data(self, data):
        if self._open:
            self.found[-1][2] += data

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = None


class Missing(Exception):
    pass


def evaluate(tree, run, of):
    """The value of a place; see ``cleanpipe.report.node``. Raises Missing."""
    if " ÷ " in of:
        part, whole = (evaluate(tree, run, t) for t in of.split(" ÷ "))
        return round(part / whole, 6)
    if " - " in of:
        a, b = (evaluate(tree, run, t) for t in of.split(" - "))
        return a - b
    root = tree
    if of.startswith("run.json:"):
        root, of = run, of.removeprefix("run.json:")
    pointer, _, ask = of.partition("[")
    value = root
    for segment in pointer.split("/")[1:]:
        if isinstance(value, list):
            key = int(segment)
        elif segment.startswith("@"):
            key = sorted(value)[int(segment[1:])]
        else:
            key = unquote(segment).replace("~1", "/").replace("~0", "~")
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError) as error:
            raise Missing(of) from error
    if not ask:
        return value
    ask = ask.removesuffix("]")
    if ask == "*":
        return sum(value.values())
    if ask == "#":
        return len(value)
    low, high = (float(x) if x else None for x in ask.split(":"))
    inside = (
        n
        for k, n in value.items()
        if k != "nan" and (low is None or float(k) >= low) and (high is None or float(k) < high)
    )
    return sum(inside)


def terms(of):
    return re.split(r" ÷ | - ", of)


def known_elsewhere(of):
    return any(fnmatch(of, pattern) for pattern in ELSEWHERE)
