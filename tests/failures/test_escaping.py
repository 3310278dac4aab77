"""The law of what holds a failure: its explanation keeps the escapes of that, whole or while it is written.

The explained log parses as what it is, and has the explanation as its text; or it stays, and a note says so.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.failures.explainer import LogExplainer
from archive.failures.log.documents import HELD, MOST_BELOW, OPENING_MARKS, Passed, form_of
from tests.failures.document_forms import ALL_FORMS, DOCUMENTS, cdata, html_lines, slashed
from tests.failures.test_log_forms import NAMES, REPORTS, lines, stripped
from tests.support.reports import case, explained
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.failures.log_forms import LogForm

TAKEN = sampled(ALL_FORMS)
some_forms = pytest.mark.parametrize("form", [ALL_FORMS[name] for name in TAKEN], ids=TAKEN)


def texts(data: bytes) -> list[str]:
    return stripped(lines(data))


def is_kept(form: LogForm, text: bytes, allowed: Sequence[list[str]]) -> bool:
    """Whether a log parses, and has one of some texts."""
    return stripped(form.read(text)) in allowed


@pytest.mark.parametrize("form", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_failure_is_explained_as_its_document_writes_it(form: LogForm) -> None:
    for name, report in REPORTS.items():
        text, *counts = explained(form.written(lines(report.stripped)), report.path)
        assert stripped(form.read(text)) == texts(report.full), name
        assert counts == [1, 0, []], name


OTHER = "n = 1\n    at line 2\n    x\nend"
"""The next text of a document, with lines that a frame may have."""


def quoting(mark: str, head: str, tail: str) -> Callable[[str], str]:
    return lambda text: head + text.replace(mark, mark * 2) + tail


WRITTEN: dict[str, Callable[[str], str]] = {
    "csv": quoting('"', '1,"', '",x\n'),
    "csv, tabs": quoting('"', 'a\t"', '"\n'),
    "csv, text first": quoting('"', '"', '",1\n'),
    "sql": quoting("'", "INSERT INTO logs VALUES (1, '", "');\n"),
    "toml": lambda text: f'[[e]]\nm = """\n{slashed(text)}\n"""\n',
    "toml, literal": lambda text: f"[[e]]\nm = '''\n{text}\n'''\n",
    "cdata": lambda text: f"<e>\n<m><![CDATA[\n{cdata(text)}\n]]></m>\n</e>\n",
    "html": lambda text: f"<h2>e</h2>\n<pre>\n{html_lines(text)}\n</pre>\n",
    "xml": lambda text: f"<e>\n<m>{html_lines(text)}</m>\n</e>\n",
}


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_a_failure_ends_with_the_text_that_holds_it(write: Callable[[str], str]) -> None:
    above, below = write("above"), write(OTHER)
    for report in (REPORTS[name] for name in NAMES):
        log = above + write(report.stripped.decode().rstrip()) + below
        text, *counts = explained(log.encode(), report.path)
        assert text.decode().startswith(above)
        assert text.decode().endswith(below)
        assert counts == [1, 0, []]


OUTER = ("gelf", "logfmt", "repr", "go", "rust", "framed docker", "framed cri")
INNER = ("csv field", "junit text", "html pre", "junit cdata", "sql", "toml", "toml, literal", "notebook")


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_documents_in_records_keep_the_escapes_of_both(outer: str, inner: str) -> None:
    around, form = ALL_FORMS[outer], ALL_FORMS[inner]
    for name, report in REPORTS.items():
        log = around.written(lines(form.written(lines(report.stripped))))
        text, done, unknown, notes = explained(log, report.path)
        if text == log:
            assert (done, unknown, len(notes)) == (0, 1, 1), name
        else:
            document = "".join(f"{line}\n" for line in around.read(text)).encode()
            assert is_kept(form, document, [texts(report.full)]), name


# --- a log that grows


def pauses(log: bytes) -> Iterator[list[bytes]]:
    """A log that pauses once, after each of its lines in turn, then after all of them."""
    parts = log.splitlines(keepends=True)
    for at in range(1, len(parts)):
        yield [b"".join(parts[:at]), b"", b"".join(parts[at:])]
    yield [piece for part in parts for piece in (part, b"")]


@cache
def plainly(name: str) -> list[list[str]]:
    """The texts that a failure may have where it pauses and nothing holds it: a traceback may break off."""
    report = REPORTS[name]
    found = [texts(report.full)]
    for pieces in pauses(report.stripped):
        if (made := texts(explained(pieces, report.path).text)) not in found:
            found.append(made)
    return found


@some_forms
def test_a_pause_changes_how_far_a_traceback_is_explained_and_nothing_else(form: LogForm) -> None:
    for name, report in REPORTS.items():
        log = form.written(lines(report.stripped))
        for pieces in pauses(log):
            text, done, unknown, notes = explained(pieces, report.path)
            if text == log:
                assert (done, unknown, len(notes)) == (0, 1, 1)
            elif not any("breaks off" in note for note in notes):
                assert is_kept(form, text, [texts(report.full)]), name
            else:
                form.read(text)  # it parses
                assert done == 1


@pytest.mark.parametrize("name", ["csv field", "junit text", "html lines", "html pre", "sql", "toml"])
def test_in_documents_a_pause_changes_no_more_than_in_plain_lines(name: str) -> None:
    for report_name, report in REPORTS.items():
        for pieces in pauses(ALL_FORMS[name].written(lines(report.stripped))):
            text, done, *_ = explained(pieces, report.path)
            assert done == 1
            assert is_kept(ALL_FORMS[name], text, plainly(report_name)), report_name


LITE = case("plain_unicode")


def waits(above: bytes) -> bool:
    """Whether a failure below some lines is held back in a pause."""
    log = iter([above + LITE.stripped, b"", b"last\n"])
    explainer, written = LogExplainer.of(archive.open(LITE.path)), b""
    for piece in explainer.explain(log):
        written += piece
        if LITE.full.rstrip() in written:
            return next(log, None) is None
    return True


@pytest.mark.parametrize(
    "above",
    [
        b'Traceback (most recent call last):\n  File "app.py", line 3, in <module>\n',
        b"frame #1: std::vector<int>::at(optional<at::Tensor>)\n",
        b"<torch._C.Node object at 0x7f>\n",
        b'{"level": "error", "n": "it\'s"}\n',
        b"it's <b>bold</b>\n",
        b"a < b\n",
        b"<br>\n",
    ],
)
def test_lines_that_open_no_text_hold_no_failure_back(above: bytes) -> None:
    assert not waits(above)


@pytest.mark.parametrize(
    "above", [b'n,m\n1,"above\n', b"<pre>\n", b'message = """\n', b"INSERT INTO a VALUES ('above\n"]
)
def test_lines_that_open_a_text_hold_a_failure_back(above: bytes) -> None:
    assert waits(above)


PIECES = st.sampled_from(
    [b'"', b'""', b"'", b"''", b'"""', b'm = """', b"m='''", b"<b>", b"a < b", b"</b>", b"x", b",", b"\n"]
)
OPENED = {held.mark: held.opened for held in HELD}


@given(st.lists(PIECES), st.lists(st.integers(1, 5), min_size=1))
def test_lines_that_have_passed_are_known_however_they_passed(parts: list[bytes], sizes: list[int]) -> None:
    split = b"".join(parts).split(b"\n")
    one, many = Passed(), Passed()
    for line in split:
        one.add(line + b"\n")
    at = 0
    while at < len(split):
        size = sizes[at % len(sizes)]
        many.add(b"\n".join(split[at : at + size]))
        at += size
    for mark, has_mark in OPENING_MARKS.items():
        expected = next(filter(has_mark, reversed(split)), b"")
        found = {one.last(mark), many.last(mark)}
        assert found <= {expected, b""}
        if mark not in OPENED or any(map(OPENED[mark], filter(has_mark, split))):
            assert found == {expected}


WORDS = [
    *(b"<", b"<a", b"<a ", b"<a b", b"</", b'"', b'""', b',"', b'"x', b"'", b"''", b"('", b"VALUES ", b"=("),
    *(b'= """', b'"""', b"= '''", b"'''", b" ", b"a", b"a::", b"<frozen a", b"<acomp", b"#"),
]


def last_of(line: bytes) -> Callable[[bytes], bytes]:
    """Gives the last line above with a mark, where there is only one line."""
    return lambda mark: line if OPENING_MARKS[mark](line) else b""


@pytest.mark.parametrize("word", WORDS)
def test_a_long_line_is_looked_at_once(word: bytes) -> None:
    """A pattern that went back for each word would take minutes."""
    for end in (b"", b'"', b"'", b"<", b">", b"x"):
        line = word * ((1 << 17) // len(word)) + end
        for held in HELD:
            held.has_mark(line)
            held.opened(line)
            held.closed.match(line)
        form_of(last_of(line), lambda _: None)


def test_few_lines_below_are_asked_for() -> None:
    asked = list[int]()

    def below(at: int) -> bytes:
        asked.append(at)
        return b"plain"

    for line in (b"plain", b'{"a": 1}', b"it's"):
        assert form_of(last_of(line), below) is None
    assert not asked
    assert form_of(last_of(b"<pre>"), below) is not None
    assert len(asked) < MOST_BELOW + 1


# --- what only reads as a failure

HANDLES = LITE.stripped.split(b"\n")[-2].strip()
SOURCE = (
    b'    raise RuntimeError("%b")\n' % HANDLES,
    b"    log('%b\\n')\n" % HANDLES,
    b'    log(f"%b", 3)\n' % HANDLES,
)
FRAME = b'Traceback (most recent call last):\n  File "app.py", line 3, in <module>\n'


@pytest.mark.parametrize("source", SOURCE)
@pytest.mark.parametrize("prefix", [b"", b"10:00:00 ERROR app: "])
def test_source_that_a_frame_shows_has_not_failed(source: bytes, prefix: bytes) -> None:
    log = b"".join(
        prefix + line for line in (FRAME + source + b"RuntimeError: no\n").splitlines(keepends=True)
    )
    assert explained(log, LITE.path) == (log, 0, 0, [])
    record = json.dumps({"exception": log.decode()}).encode() + b"\n"
    assert explained(record, LITE.path) == (record, 0, 0, [])


@pytest.mark.parametrize(
    "message",
    [b"RuntimeError: %b\n", b"app.OwnError: %b\n", b"ValueError('%b')\n", b'log(Exception("%b"))\n'],
)
def test_an_exceptions_own_message_is_no_failure_and_reported(message: bytes) -> None:
    log = FRAME + message % HANDLES
    text, done, unknown, notes = explained(log, LITE.path)
    assert (text, done, unknown, len(notes)) == (log, 0, 1, 1)
