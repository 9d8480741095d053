"""The page in a real browser, at the widths of a desk and of a telephone, light and dark: nothing is asked for, nothing
runs, nothing sticks out. The pictures are left in pytest's folder for people to look at.
"""

import json
import re
import shutil
import struct
import subprocess
from html import escape, unescape

import pytest

from cleanpipe.run import run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not looked at"),
]
PROBE = """<script>
const page = document.documentElement, wide = page.clientWidth;
const out = [...document.querySelectorAll('body *')].filter(e =>
  !e.closest('.scroll') && !e.closest('pre') && !e.closest('.skip') && e.getBoundingClientRect().right > wide + 1);
const small = [...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height).filter(h => h > 0);
const height = page.scrollHeight;
const opened = [...document.querySelectorAll('details')]; opened.forEach(e => e.open = true);
document.title = JSON.stringify({
  width: wide, overflow: page.scrollWidth - wide, height: height, opened: page.scrollHeight,
  out: out.slice(0, 5).map(e => e.tagName + ' ' + e.textContent.slice(0, 60)),
  text: Math.min(...small), asked: performance.getEntriesByType('resource').map(e => e.name),
  ground: getComputedStyle(document.body).backgroundColor, kept: getComputedStyle(document.querySelector('svg .kept') ||
    document.body).fill,
  ran: window.pwned === undefined ? 'nothing' : 'something',
});
</script>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of the sample archives, of an empty run, and of one whose hosts and types are markup."""
    import importlib.util
    from pathlib import Path

    spec = importlib.util.spec_from_file_location("makers", Path(__file__).parents[1] / "conftest.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    folder = tmp_path_factory.mktemp("pages")
    (folder / "empty").mkdir()
    make.write_gz(folder / "empty/e.warc.gz", [make.warcinfo()])
    (folder / "odd").mkdir()
    hosts = ["<script>window.pwned=1</script>", "h" * 300 + ".example", "مثال.إختبار", "\U0001f600.example",
             '"><img src=x onerror=window.pwned=1>']  # fmt: skip
    records = [
        make.response(f"http://{h}/{k}?<svg onload=window.pwned=1>{'long' * 90}", make.page(make.prose(i * 9 + k, 30)),
                      status="404 No" if k % 3 else "200 OK", content_type=("text/html", "<b>/x" + "y" * 300)[k % 2])
        for i, h in enumerate(hosts) for k in range(9)
    ]  # fmt: skip
    make.write_gz(folder / "odd/<img src=x onerror=window.pwned=1>.warc.gz", [make.warcinfo(), *records])
    made = {}
    for name in ("sample", "empty", "odd"):
        out = folder / f"out-{name}"
        run(
            "sample" if name == "sample" else "web",
            [] if name == "sample" else [str(folder / name)],
            out,
            engine="serial",
        )
        made[name] = out / "audit/audit.html"
    return made


def browse(tmp_path, address, *options, width=1280, height=900):
    profile = tmp_path / "profile"
    line = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},{height}", *options, address]  # fmt: skip
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=True).stdout


def framed(tmp_path, source, width, height, script=""):
    """A page in a frame of this width: windows have a least width, frames have none."""
    frame = tmp_path / "frame.html"
    style = f"width:{width}px;height:{height}px;border:0"
    frame.write_text(f'<body style="margin:0">{script}<iframe style="{style}" {source}></iframe>', encoding="utf-8")
    return f"file://{frame}"


def measured(tmp_path, page, width, *options):
    """What a script that this test puts into a copy sees."""
    copy = page.read_text(encoding="utf-8").replace(
        "default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';"
    )
    assert copy.count("</body>") == 1
    probe = PROBE.replace("</script>", "parent.postMessage(document.title, '*')</script>")
    listen = "<script>onmessage = e => document.title = e.data</script>"
    copy = copy.replace("</body>", f"{probe}</body>")
    address = framed(tmp_path, f'srcdoc="{escape(copy)}"', width, 900, listen)
    dom = browse(tmp_path, address, "--dump-dom", "--virtual-time-budget=4000", *options, width=max(width, 600))
    return json.loads(unescape(re.search(r"<title>(.*?)</title>", dom)[1]))


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["sample", "empty", "odd"])
def test_nothing_sticks_out_runs_or_is_asked_for(pages, name, width, tmp_path):
    seen = measured(tmp_path, pages[name], width)
    assert seen["width"] == width
    assert seen["overflow"] == 0
    assert seen["out"] == []
    assert seen["asked"] == []
    assert seen["ran"] == "nothing"
    assert 2_000 < seen["height"] < (44_000 if width == 390 else 30_000)  # perplexity has limits for seven languages
    assert seen["height"] < seen["opened"] < 170_000
    assert seen["text"] >= 11  # pixels that a line of text in a chart is high


DARK = "--blink-settings=preferredColorScheme=0"
THEMES = {"light": ("rgb(247, 247, 245)", "rgb(59, 130, 196)"), "dark": ("rgb(19, 22, 25)", "rgb(85, 152, 216)")}


@pytest.mark.parametrize("theme", list(THEMES))
@pytest.mark.parametrize("width", [390, 1280])
def test_each_theme_is_drawn_and_photographed(pages, theme, width, tmp_path):
    options = [DARK] if theme == "dark" else []
    seen = measured(tmp_path, pages["sample"], width, *options)
    assert (seen["ground"], seen["kept"]) == THEMES[theme]
    picture = tmp_path / f"audit-{width}-{theme}.png"
    address = framed(tmp_path, f'src="{pages["sample"]}"', width, 3000)
    more = [f"--screenshot={picture}", "--virtual-time-budget=4000", *options]
    browse(tmp_path, address, *more, width=max(width, 600), height=3000)
    head = picture.read_bytes()
    assert struct.unpack(">II", head[16:24]) == (max(width, 600), 3000)
    assert len(head) > 30_000  # there is something on it
