"""A browser for the tests of the page: what it shows, what it asks for, what it says on its console."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from archive.page.document import document, packed
from archive.page.summary import summary_of
from tests.page.unfolding import unfolded
from tests.support.sampling import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, CDPSession, Dialog, Page

ROOT = Path(__file__).parents[2]
AXE = ROOT / "tools/page/node_modules/axe-core/axe.min.js"
PROGRAM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@cache
def why_not() -> str:
    """What is missing here; "" if a browser can be started."""
    try:
        import playwright  # noqa: F401, PLC0415 (it is looked for)
    except ImportError:
        return "playwright, from the extra `dev`, is not here"
    return "" if PROGRAM else "chromium is not here"


def in_browser() -> list[pytest.MarkDecorator]:
    """The marks of a module of tests that need a browser."""
    return [
        pytest.mark.skipif(not Suite.whole, reason="`make test-all` runs it"),
        pytest.mark.skipif(bool(why_not()), reason=f"a browser draws the page: {why_not()}"),
    ]


@dataclass
class Seen:
    """A page that is open, and what came of opening it."""

    page: Page
    session: CDPSession
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def dismiss(self, dialog: Dialog) -> None:
        """Note a dialog, which no page opens, and close it."""
        self.console.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def reach_all(self) -> None:
        """Scroll to each section, which makes it."""
        for section in self.page.query_selector_all("section"):
            section.scroll_into_view_if_needed()
            self.settle()
        self.page.evaluate("scrollTo(0, 0)")

    def settle(self) -> None:
        """Wait until what is drawn in the next frames is drawn."""
        frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 10)))"
        self.page.evaluate(f"{frame}.then(() => {frame})")

    def to(self, fragment: str) -> None:
        """Go to another fragment of the URL."""
        self.page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
        self.settle()

    def text(self, selector: str) -> str:
        """What an element shows."""
        return self.page.inner_text(selector)

    def metrics(self) -> dict[str, float]:
        """What the browser counts: ``TaskDuration`` in seconds of CPU, ``JSHeapUsedSize`` without garbage."""
        self.session.send("HeapProfiler.collectGarbage")
        return {
            entry["name"]: entry["value"] for entry in self.session.send("Performance.getMetrics")["metrics"]
        }

    def count(self, selector: str = "*") -> int:
        """How many elements there are."""
        number: int = self.page.evaluate("(selector) => document.querySelectorAll(selector).length", selector)
        return number


@contextmanager
def started() -> Iterator[Browser]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (optional)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(QUIET))
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, file: Path, fragment: str = "", **options: Any) -> Iterator[Seen]:  # noqa: ANN401 (playwright's)
    """A page in a context of its own, drawn as far as it is in view.

    Args:
        browser: that is started.
        file: the page.
        fragment: of the URL, with its #.
        options: of the context: ``color_scheme``, ``bypass_csp``.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", **options)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    seen = Seen(page, session)
    page.on("console", lambda message: seen.console.append(message.text))
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    page.on("dialog", seen.dismiss)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(file.as_uri() + fragment)
    page.wait_for_selector("html[data-ready]", state="attached")
    seen.settle()
    yield seen
    context.close()


def written(folder: Path, data: dict[str, Any], name: str = "page.html") -> Path:
    """A file with the page of data."""
    path = folder / name
    path.write_bytes(document(packed(data), summary_of(data)))
    return path


def data_of(page: bytes) -> dict[str, Any]:
    """The data in a page."""
    start = page.index(b">", page.index(b'id="data"')) + 1
    packed_data = base64.b64decode(page[start : page.index(b"<", start)])
    data: dict[str, Any] = unfolded(json.loads(gzip.decompress(packed_data)))
    return data


HEAD = {
    "file": "made.ptl",
    "kind": "a lite archive",
    "release": "PyTorch 2.1 or later",
    "evidence": ["a sign"],
    "platform": "Linux",
    "size": 1000,
    "debug_bytes": 100,
    "archive_id": "00ff",
    "top": "Top",
    "verify": {"error": 0, "warning": 1, "note": 0},
    "leaks": [["source text", 2]],
    "not_counted": [["class name", 3]],
    "source": "full",
}
FINDINGS = {
    "from": ["verify", "leaks"],
    "severity": ["warning", "note"],
    "what": ["missing", "source text"],
    "record": ["constants.pkl", "code/made.py"],
    "place": ["byte 4", ""],
    "message": ["a tuple was expected", "def forward(self):"],
}


def sizes_of(count: int) -> dict[str, list[Any]]:
    """A tree of weights with that many leaves, four to a module, thirty modules to a layer."""
    tree: dict[str, list[Any]] = {
        "name": ["made.ptl"],
        "parent": [-1],
        "stored": [0],
        "what": [""],
        "kind": [0],
    }

    def row(name: str, parent: int, stored: int = 0, what: str = "") -> int:
        for column, value in zip(tree.values(), (name, parent, stored, what, 1), strict=True):
            column.append(value)
        return len(tree["name"]) - 1

    weights = row("weights", 0)
    layer = module = weights
    for leaf in range(count):
        if leaf % 120 == 0:
            layer = row(f"layer{leaf // 120}", weights)
        if leaf % 4 == 0:
            module = row(str(leaf // 4 % 30), layer)
        row(
            ("weight", "bias", "mean", "variance")[leaf % 4],
            module,
            1 + leaf * 7919 % 5000,
            f"float32 {leaf % 97} x 3",
        )
    rows = len(tree["name"])
    others = {"inflated": tree["stored"], "elements": [size // 4 for size in tree["stored"]]}
    return {**tree, **others, "record": [""] * rows, "kinds": ["file", "weights"]}


def sources_of(count: int) -> dict[str, Any]:
    """A record with that many rows of ten characters, each from a line of its own in one file."""
    lines = count // 2 + 1
    return {
        "files": [{"name": "model.py", "text": "    x = y + z\n" * lines, "lines": [[0, 7]]}],
        "records": [
            {
                "name": "code/model.py",
                "text": "x = a(y)\n" * count,
                "at": [0] + [9] * (count - 1),
                "file": [0] * count,
                "from": [8] + [14 * (row % 2) for row in range(1, count)],
                "length": [5] * count,
            }
        ],
    }
