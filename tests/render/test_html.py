"""What notebooks show: each class of facts as a small static table in which nothing of a stranger acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.base.strings import HeldStrings, StringView
from archive.compare.changes import Change, Diff, Status
from archive.compare.sameness import Level
from archive.container.write import member_from, new_member
from archive.debuginfo.model import Source, SourceRange
from archive.debuginfo.symbolicate import Symbolication, TracebackFrame
from archive.describe.sizes import Account
from archive.privacy.leaks import Finding, LeakKind, Leaks
from archive.privacy.leaks.findings import Place
from archive.reader.recognition import FileKind
from archive.render import html
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = ORACLES / "plain_stack.ptl"
TAGS = {"div", "table", "thead", "tbody", "tr", "th", "td"}
STYLE = re.compile(r"(border-collapse:collapse|border-bottom:1px solid|text-align:(left|right);[\w:;. -]+)")
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</td></table><iframe srcdoc=x>",
    "&lt;b&gt; &#60;b",
    "a\u202eb\u2066c\u200bd",
    "\x1b[2J\r\n\x00\x85\u2028",
    "bytes \udcff and \ud800",
    "{0} %s {{x}} ${y}",
]


class Seen(HTMLParser):
    """Tags, attributes and texts of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes += attrs
        if tag in {"td", "div"}:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"td", "div"}:
            self.cells[-1] += data


def seen(shown: object) -> Seen:
    """What a browser makes of the HTML of facts, which has nothing but tables."""
    text = shown._repr_html_()  # type: ignore[attr-defined]  # as a notebook calls it
    text.encode()
    assert text.isprintable()
    parser = Seen()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert {*parser.tags} <= TAGS
    assert all(name == "style" and value and STYLE.fullmatch(value) for name, value in parser.attributes)
    return parser


def diff_of(text: str) -> Diff:
    change = Change(level=Level.MODEL, what=text, name=text, status=Status.CHANGED, old=text, new=text)
    return Diff(text, text, text, text, [change], [text], identical=False)


def symbolication_of(text: str) -> Symbolication:
    data = text.encode("utf-8", "surrogatepass")
    view = StringView(HeldStrings([data]), 0)
    source = Source(view, view, 1)
    frame = TracebackFrame(data, SourceRange(source, 0, len(data)))
    return Symbolication((1,), (), data.decode(errors="surrogateescape"), (), (frame,))


def leaks_of(text: str) -> Leaks:
    finding = Finding(LeakKind.HOME, text, count=1, places=[Place(text, 0)])
    return Leaks(text, FileKind.TORCHSCRIPT, [finding], {}, 0, 0, [text])


def archive_of(text: str) -> archive.Archive:
    name = text.encode("utf-8", "replace").decode().replace("\r\n\x00", "")
    with archive.open(MODEL) as opened:
        members = [*map(member_from, opened.container.records.values()), new_member(name, b"x" * 2_000)]
        return archive.open(written(*members))


MAKERS: dict[str, Callable[[str], object]] = {
    "archive": archive_of,
    "diff": diff_of,
    "leaks": leaks_of,
    "symbolication": symbolication_of,
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_of_strangers_are_texts(maker: str, text: str) -> None:
    cells = seen(MAKERS[maker](text)).cells
    shown = text if text.isprintable() else None
    assert any(shown in cell for cell in cells) if shown else cells


def test_what_turns_hides_or_moves_text_is_an_escape() -> None:
    cells = seen(diff_of("a\u202eb\x1b[2J\u200b")).cells
    assert r"a\u202eb\x1b[2J\u200b" in cells


def test_an_archive_shows_its_largest_records() -> None:
    with archive.open(MODEL) as opened:
        head, *cells = seen(opened).cells
        assert head == f"{MODEL}: 12,466 bytes, a lite archive, 27 records"
        assert cells[:4] == ["bytecode.pkl", "bytecode", "931", "931"]
        assert cells[-4] == "[7 more]"
    assert seen(opened).cells == [f"{MODEL}: closed"]


def test_a_companion_alone_shows_its_records() -> None:
    with archive.open(next((FIXTURES / "companions" / "v3").glob("*.ptdbg"))) as opened:
        head, *cells = seen(opened).cells
    assert "companion" in head
    assert cells


def test_an_account_sums_up() -> None:
    cells = seen(archive.sizes(MODEL)).cells
    assert cells[0] == f"{MODEL}: 12,466 bytes, 26.5% of them debug info"
    assert cells[-4:-1] == ["total", "12,466", "100.0%"]


def test_a_symbolication_shows_its_frames_innermost_last() -> None:
    with archive.open(MODEL) as opened:
        found = opened.symbolicate(1445)
        missing = opened.symbolicate(7)
    head, *cells = seen(found).cells
    assert head == found.module_hierarchy
    assert cells[:4] == ["models/plain.py", "39", "<unknown>", "self.blocks"]
    assert cells[-1] == "F.linear"
    assert seen(missing).cells == [str(missing)]


def test_of_many_frames_the_innermost_are_shown() -> None:
    (frame,) = symbolication_of("x").frames
    cells = seen(Symbolication((1,), (), "top", (), (frame,) * 1_000)).cells
    assert cells[1] == "[980 outer frames]"
    assert len(cells) == 1 + 4 * (html.ROWS + 1)


def test_leaks_show_some_texts_of_each_kind() -> None:
    cells = seen(archive.leaks(MODEL)).cells
    assert "/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py" in cells
    assert "[2 other texts]" in cells


def test_a_difference_shows_its_rows_and_the_verdict() -> None:
    old, new = (FIXTURES / "releases" / f"torch-{release}" / "nested.ptl" for release in ("1.9.0", "2.13.0"))
    cells = seen(archive.diff(old, new)).cells
    assert cells[-1] == "differences: 9 of model, 4 of debug info, 1 of ids, 2 of layout"
    assert seen(archive.diff(old, old)).cells[-1] == "identical, to the byte"


@pytest.mark.torch
def test_a_profile_shows_modules_and_lines() -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.profiles import one_run  # noqa: PLC0415 (imports PyTorch)

    cells = seen(one_run()).cells
    assert cells[0] == "5 operations, 8.0 µs"
    assert "models/plain.py:25" in cells


def test_rows_and_cells_are_bounded() -> None:
    change = Change(level=Level.MODEL, what="record", name="x" * 10_000, status=Status.ADDED)
    shown = seen(Diff("old", "new", "a", "b", [change] * 5_000, [], identical=False))
    assert f"[{5_000 - html.ROWS:,} more]" in shown.cells
    assert max(map(len, shown.cells)) == html.LONGEST + 1


def test_what_cannot_be_told_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> dict[str, object]:
        raise ArchiveError("broken <b>", file="x.pt")

    account = archive.sizes(MODEL)
    monkeypatch.setattr(Account, "by", broken)
    (line,) = seen(account).cells
    assert "x.pt" in line
    assert "<b>" in line
