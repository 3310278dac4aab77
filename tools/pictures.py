"""Take the pictures of ``docs/images`` in a browser: the report, the page of failures, the server's answer.

    python -m tools.pictures            takes them
    python -m tools.pictures FOLDER     takes them elsewhere

They show real archives of ``fixtures/``. Needs playwright and Chromium.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.page.browser import opened, started
from tests.support.commands import run, well

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
MODEL = ROOT / "fixtures/oracles/plain_stack.ptl"
FLEET = ROOT / "fixtures/fleet"


def take(folder: Path) -> None:
    """Take all pictures, as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name, started() as browser:
        place = Path(name)
        well("report", MODEL, "-o", place / "report.html")
        _picture(browser, place / "report.html", "h1", folder / "report.png")
        _picture(browser, place / "report.html", ".cm-editor", folder / "source.png")
        run("symbolicate", FLEET, "--log", FLEET / "unique.log", "--html", place / "failures.html")
        _picture(browser, place / "failures.html", ".cm-editor", folder / "failures.png")
        with _server(place / "store") as address:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{address}/?example=1")
            page.screenshot(path=folder / "server.png")
            page.close()


def _picture(browser: Browser, file: Path, reached: str, picture: Path) -> None:
    """A picture of a page, with one element in view."""
    with opened(browser, file) as seen:
        seen.reach_all()
        seen.page.locator(reached).first.evaluate("(element) => element.scrollIntoView({block: 'center'})")
        seen.settle()
        seen.page.screenshot(path=picture)


@contextmanager
def _server(store: Path) -> Iterator[str]:
    """A server of the fleet's companions; its address."""
    well("store", "add", *sorted(FLEET.glob("*.ptdbg")), "--store", store)
    command = [sys.executable, "-m", "archive", "serve", str(store), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 (its own command)
        try:
            assert server.stderr is not None
            line = next(line for line in server.stderr if "http" in line)
            address = re.search(r"http://[^\s,]+", line)
            assert address is not None
            yield address[0]
        finally:
            server.terminate()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if sys.argv[1:] else IMAGES)
