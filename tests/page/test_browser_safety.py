"""Names and texts of strangers: nothing of them runs, with the policy and without it, and nothing hides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from archive.page.document import document, packed
from archive.page.folder import REPORTED, FolderPage
from archive.page.summary import summary_of
from tests.page.browser import HEAD, ROOT, in_browser, opened, written
from tests.page.browser import sizes_of as sizes

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = in_browser()

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "--><svg onload=alert(1)>",
    '"><iframe srcdoc="<script>parent.alert(1)</script>">',
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "{{data}}{{script}}",
    "${alert(1)}",
    "__proto__",
    "constructor",
    "toString",
    "]]>&lt;script&gt;",
    "</style><style>*{display:none}</style>",
    "url(https://example.invalid/)",
]
HIDDEN = "user\u202etxt.exe\u2066\u200b\u0000\u001b[31m\u00ad\ufeff\u2028end\U000e0041"
ESCAPED = r"user\u202etxt.exe\u2066\u200b\x00\x1b[31m\xad\ufeff\u2028end\U000e0041"


LISTENING = """[...document.querySelectorAll("*")]
    .some((element) => [...element.attributes].some(({name}) => name.startsWith("on")))"""
ALL_TEXTS = """document.body.innerText + document.title
    + [...document.querySelectorAll("[title], [aria-label], option")]
    .map((element) => element.title + element.ariaLabel + element.textContent)"""


def data_with(texts: list[str]) -> dict[str, Any]:
    """A page that shows texts wherever it shows any."""
    count, joined = len(texts), "\n".join(texts) + "\n"
    tree = sizes(4)
    tree["name"] = [texts[0], *texts[: len(tree["name"]) - 1]]
    tree["what"] = [*texts, *texts][: len(tree["name"])]
    tree["record"] = tree["what"]
    each = {
        "path": texts,
        "parent": [-1] * count,
        "class": texts,
        "elements": [1] * count,
        "bytes": [1] * count,
    }
    steps = [len(text) + 1 for text in texts]
    head = {
        **HEAD,
        **dict.fromkeys(("file", "kind", "release", "platform", "archive_id", "top"), " ".join(texts)),
    }
    return {
        "version": 1,
        "head": {**head, "evidence": texts, "leaks": [[text, 1] for text in texts]},
        "sizes": tree,
        "modules": {**each, "effects": [0] * count, "methods": [[[text, 0, 0]] for text in texts]},
        "sources": {
            "files": [{"name": text, "text": joined, "lines": [[0, 1]]} for text in texts],
            "records": [
                {
                    "name": text,
                    "text": joined,
                    "at": [0, *steps[:-1]],
                    "file": [0] * count,
                    "from": [0, *steps[:-1]],
                    "length": steps,
                }
                for text in texts
            ],
        },
        "handles": {
            "handle": list(range(count)),
            **dict.fromkeys(("operator", "path", "file"), texts),
            "line": [1] * count,
            "frames": [[[0, 0, text] for text in texts]] * count,
        },
        "tables": [{"title": texts[0], "columns": texts[:3], "rows": [texts] * 3, "links": [[0, 0]] * count}],
        "findings": dict.fromkeys(("from", "severity", "what", "record", "place", "message"), texts),
        "left_out": texts,
    }


def without_policy(file: Path) -> Path:
    """The page as one would be whose policy a browser does not know."""
    text = file.read_text("utf-8")
    other = file.with_name("open.html")
    other.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text, count=1), "utf-8")
    return other


@pytest.mark.parametrize("policy", [True, False])
def test_nothing_of_names_and_texts_runs(browser: Browser, tmp_path: Path, *, policy: bool) -> None:
    file = written(tmp_path, data_with(HOSTILE))
    file = file if policy else without_policy(file)
    with opened(browser, file) as seen:
        seen.reach_all()
        for selector in ("#modules tbody td:nth-child(2)", "#handles tbody td", "#findings tbody td"):
            seen.page.locator(selector).first.click()
            seen.settle()
        assert seen.count("img, svg:not(.meter), iframe, script:not([src]):not(body > script)") == 0
        assert seen.count("script") == 1
        assert seen.count("style") == len(seen.page.query_selector_all("head style"))
        assert not seen.page.evaluate(LISTENING)
        assert seen.page.evaluate("Object.keys(Object.prototype).length") == 0
        assert HOSTILE[0] in seen.text("h1")
        assert HOSTILE[0] in seen.text("#findings")
        assert seen.console == []
        assert seen.requests == [file.as_uri()]


def test_what_cannot_be_seen_is_shown_as_escapes(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, written(tmp_path, data_with([HIDDEN, "plain"]))) as seen:
        seen.reach_all()
        text = seen.page.evaluate(ALL_TEXTS)
        assert not re.search(
            "[\u202a-\u202e\u2066-\u2069\u200b\u0000\u001b\u00ad\ufeff\u2028\U000e0041]", text
        )
        for selector in (
            "h1",
            "#sizes",
            "#modules",
            "#handles",
            "#findings",
            "aside",
            ".side:nth-child(1) .cm-content",
        ):
            assert ESCAPED in seen.text(selector).replace("\n", ""), selector


def test_carriage_returns_move_no_position(browser: Browser, tmp_path: Path) -> None:
    source, code = "a = 1\r\nb = c\r\n", "x = 1\r\ny = z\n"
    record = {
        "name": "code/x.py",
        "text": code,
        "at": [0, 7],
        "file": [0, 0],
        "from": [0, 7],
        "length": [5, 5],
    }
    sources = {"files": [{"name": "x.py", "text": source, "lines": [[0, 1]]}], "records": [record]}
    file = written(tmp_path, {"version": 1, "head": HEAD, "sources": sources})
    with opened(browser, file, "#section=source&record=code/x.py&at=8") as seen:
        assert seen.text(".where") == "x.py:2, columns 1\u20135 \u2194 code/x.py:2"
        assert seen.text(".side:nth-child(1) .here") == "b = c"


def test_pages_of_a_folder_lie_beside_it(browser: Browser, tmp_path: Path) -> None:
    pages = [
        "a.ptl.html",
        "javascript:alert(1)",
        "https://example.invalid/",
        "//example.invalid/",
        "data:text/html,x",
        "sub/b.html",
    ]
    count = len(pages)
    files = {
        "file": pages,
        "kind": ["a lite archive"] * count,
        "size": [9] * count,
        "debug_bytes": [1] * count,
        **dict.fromkeys(("state", "grave", "release", "label", "unread"), [""] * count),
        "findings": [0] * count,
        "page": pages,
    }
    folder = {
        "name": "models",
        "totals": [["files", count]],
        "columns": [list(column) for column in REPORTED],
        "files": files,
    }
    with opened(browser, written(tmp_path, {"version": 1, "folder": folder})) as seen:
        seen.reach_all()
        links = seen.page.evaluate("[...document.querySelectorAll('#largest a')].map((link) => link.href)")
        assert links == [(tmp_path / "a.ptl.html").as_uri(), (tmp_path / "sub/b.html").as_uri()]


def test_nothing_of_a_list_of_files_runs_or_hides(browser: Browser, tmp_path: Path) -> None:
    texts = [*HOSTILE, HIDDEN]
    page = FolderPage(texts[0], where=" ".join(texts))
    for text in texts:
        page.refuse(text, text)
    (tmp_path / "page.html").write_bytes(page.page(notes=texts))
    with opened(browser, tmp_path / "page.html") as seen:
        seen.reach_all()
        for row in range(len(texts)):
            seen.page.locator("#refused .link").nth(row).click()
            seen.settle()
            assert seen.text("#files .whole h3").startswith(shown_name(texts[row]))
        assert seen.count("img, svg, iframe") == 0
        assert seen.count("script") == 1
        assert not seen.page.evaluate(LISTENING)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\u001b]", seen.page.evaluate(ALL_TEXTS))
        assert seen.console == []
        assert seen.requests[1:] == []


def shown_name(text: str) -> str:
    """A name as a page shows it."""
    return ESCAPED if text == HIDDEN else text


def test_a_page_has_the_same_bytes_twice(tmp_path: Path) -> None:
    data = data_with(HOSTILE)
    assert document(packed(data), summary_of(data)) == document(packed(data), summary_of(data))
    assert written(tmp_path, data).read_bytes() == written(tmp_path, data, "again.html").read_bytes()


def test_sources_of_the_script_use_texts_alone() -> None:
    for path in (ROOT / "tools/page/src").glob("*.js"):
        text = path.read_text("utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|fetch\(|XMLHttp",
            text,
        ), path
