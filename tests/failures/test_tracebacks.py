"""Tracebacks: what stands around them, which lines the archive must have, and what tells them apart."""

from __future__ import annotations

import re
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.base.limits import DEFAULT_LIMITS, Steps
from archive.debuginfo.excerpt import excerpt
from archive.debuginfo.model import Source, SourceRange
from archive.failures.code_records import CodeLines, FrameCode
from archive.failures.explainer import OF_ONE, LogExplainer
from archive.failures.failure import place_of
from archive.failures.printed import FRAME_HEADER, RANGE_MARKING
from archive.failures.traceback_failures import FRAMELESS_NOTE, OF_OTHER_CODE, TracebackFailure
from archive.failures.tracebacks import CUT_NOTE, Traceback
from archive.formats.record_kinds import is_code
from archive.reader.lacking import REMEDY, why_no_ranges
from tests.support.halves import halves
from tests.support.reports import Report, case, explained, stream
from tests.support.sampling import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.base.strings import StringView

JIT = case("plain_stack.jit")
TRACED = case("traced_stack.jit")
LITE = case("lowered_two")
HEADING = b"Traceback of TorchScript (most recent call last):\n"
SERIALIZED = b"Traceback of TorchScript, serialized code (most recent call last):\n"
ORIGINAL = b"\nTraceback of TorchScript, original code (most recent call last):\n"
END = b"RuntimeError: no\n"


def logcat() -> Callable[[bytes], bytes]:
    """A logger that puts a prefix before each line, with another time each."""
    numbers = count(995)

    def prefixed(line: bytes) -> bytes:
        seconds, rest = divmod(next(numbers), 1000)
        return b"11-21 04:05:%02d.%03d  1234  5678 E pytorch: %b" % (seconds, rest, line)

    return prefixed


def indented() -> Callable[[bytes], bytes]:
    return lambda line: b"  " + line


@pytest.mark.parametrize("report", [JIT, TRACED, LITE], ids=lambda report: report.path.name)
@pytest.mark.parametrize(
    ("logger", "shape"),
    [(logcat, rb"11-21 04:05:\d\d\.\d{3}  1234  5678 E pytorch: "), (indented, rb"  ")],
    ids=["logcat", "indented"],
)
def test_new_lines_get_the_prefix_of_their_neighbour(
    report: Report, logger: Callable[[], Callable[[bytes], bytes]], shape: bytes
) -> None:
    log = b"".join(map(logger(), report.stripped.splitlines(keepends=True)))
    text, *counts = explained(b"I start\n" + log, report.path)
    lines = text.removeprefix(b"I start\n").splitlines(keepends=True)
    prefixes = [match[0] for line in lines if (match := re.match(shape, line))]
    assert len(prefixes) == len(lines)
    assert b"".join(line[len(prefixes[0]) :] for line in lines) == report.full
    assert prefixes == sorted(prefixes)
    assert len(set(prefixes)) == len(set(re.findall(rb"(?m)^" + shape, log)))
    assert counts == [1, 0, []]


@pytest.mark.parametrize(
    ("report", "before", "behind"),
    [(JIT, HEADING[:16], SERIALIZED[:16]), (LITE, b"Debug info", b"Module hierarchy")],
    ids=["torchscript", "lite"],
)
def test_a_prefix_of_one_line_alone_is_not_repeated(report: Report, before: bytes, behind: bytes) -> None:
    log = report.stripped.replace(before, b"E 17 " + before)
    assert explained(log, report.path).text == report.full.replace(behind, b"E 17 " + behind, 1)


@pytest.mark.parametrize("report", [JIT, TRACED, LITE], ids=lambda report: report.path.name)
def test_line_ends_stay_as_they_are(report: Report) -> None:
    log, full = (text.replace(b"\n", b"\r\n") for text in (report.stripped, report.full))
    assert explained(log, report.path).text == full


@pytest.mark.parametrize("report", [JIT, TRACED], ids=lambda report: report.path.name)
def test_a_log_may_end_with_its_last_frame(report: Report) -> None:
    log, full = (text[: text.rindex(b"\nRuntimeError")] for text in (report.stripped, report.full))
    assert explained(log, report.path).text == full
    assert explained(log + b"\n", report.path).text == full + b"\n"


@pytest.mark.parametrize("lines", range(2, 12))
def test_a_torn_frame_is_left_and_the_log_goes_on(lines: int) -> None:
    torn = b"".join(JIT.stripped.splitlines(keepends=True)[1:lines])
    text = explained(torn + JIT.stripped, JIT.path).text
    assert text.endswith(JIT.full)
    assert text.startswith(torn) if lines <= 6 else text.startswith(SERIALIZED)


CODE = "code/__torch__/plain.py"


@pytest.fixture(scope="module")
def stack() -> archive.Archive:
    return archive.open(JIT.path)


@settings(max_examples=examples(300))
@given(st.integers(0, 951), st.integers(1, 300))
@example(252, 188)  # ends before the first word of a line, which has no marking then
def test_any_range_of_the_code_is_found_again(stack: archive.Archive, start: int, size: int) -> None:
    code = bytes(stack.records[CODE].view())
    end = min(start + size, len(code))
    assume(code[start : start + 1].strip())
    source = Source(cast("StringView", code), cast("StringView", CODE.encode()), 1)
    frame = excerpt(SourceRange(source, start, end), b"f")
    span = stack.locate(CODE, start)
    expected = (
        SERIALIZED + frame + frame + ORIGINAL + (b"" if span is None else excerpt(span, b"f") * 2) + END
    )
    assert explained(HEADING + frame + frame + END, stack).text == expected


@pytest.mark.parametrize("report", [JIT, TRACED], ids=lambda report: report.path.name)
def test_a_companion_alone_explains_what_failed_by_its_source_and_nothing_without(report: Report) -> None:
    outcomes = set()
    with archive.open(report.path) as whole, archive.open(halves(report.path).companion) as companion:
        for name in filter(is_code, whole.records):
            code = bytes(whole.records[name].view())
            for word in re.finditer(rb"[\w.]+", code):
                span = whole.locate(name, word.start())
                source = Source(cast("StringView", code), cast("StringView", name.encode()), 1)
                log = HEADING + excerpt(SourceRange(source, *word.span()), b"f") + END
                has_source = span is not None and not span.source.is_null
                text, done, unknown, notes = explained(log, companion)
                assert (done, unknown, text != log) == (has_source, not has_source, has_source)
                assert has_source != (OF_OTHER_CODE in notes[0])
                outcomes.add(done)
    assert outcomes == {0, 1}


def test_frames_of_another_model_stay() -> None:
    other = case("lowered_two.jit").path
    text, found, unknown, notes = explained(JIT.stripped, other)
    assert (text, found, unknown) == (JIT.stripped, 0, 1)
    assert notes == [f"line 3: this archive has no code of the name {CODE}: the failure is another model's"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (b"    bias = self.bias\n", b"    bias = self.bia\n"),
        (b"    weight = self.weight\n    return torch.linear", b"    return torch.linear"),
        (b'27.py", line 12', b'27.py", line 999999999'),
        (b'27.py", line 12', b'27.py", line 0'),
        (b"           ~~~~~~~~~~~~ <--- HERE", b"          ~~~~~~~~~~~~ <--- HERE"),
        (b"           ~~~~~~~~~~~~ <--- HERE", b"           " + b"~" * 80 + b" <--- HERE"),
    ],
)
def test_a_traceback_with_a_frame_of_another_model_stays(right: bytes, wrong: bytes) -> None:
    log = TRACED.stripped.replace(right, wrong)
    assert log != TRACED.stripped
    text, found, unknown, notes = explained(log, TRACED.path)
    assert (text, found, unknown) == (log, 0, 1)
    assert len(notes) == 1
    assert re.search(r"has another line \d+ in this archive: the failure is another model's$", notes[0])


@pytest.mark.parametrize("by", [-3, -1, 1, 900])
@pytest.mark.parametrize("form", ["archive", "digests"])
def test_lines_that_stand_elsewhere_in_the_code_are_another_versions(
    by: int, form: str, tmp_path: Path
) -> None:
    """It had fewer lines above, or more: a note says where they are now, and nothing is explained."""
    before, line, after = re.split(rb'(?<=27.py", line )(\d+)', TRACED.stripped, maxsplit=1)
    log = before + b"%d" % (int(line) + by) + after
    path = TRACED.path
    if form == "digests":
        path = tmp_path / "m.ptdbg"
        archive.split(TRACED.path, tmp_path / "m.pt", path, fingerprints=True)
    text, found, unknown, notes = explained(log, path)
    assert (text, found, unknown) == (log, 0, 1)
    moved = f"has line {int(line) + by} of the log as line {int(line)} in this archive"
    assert notes[0].endswith(f"27.py {moved}: the failure is another version's")


OTHERS = b'  File "code/b.py", line 9, in f\n    x = 1\n    return x\n           ~ <--- HERE\n'


def test_one_foreign_frame_is_enough() -> None:
    log = JIT.stripped.replace(END[:14], OTHERS + END[:14], 1)
    text, found, unknown, notes = explained(log, JIT.path)
    assert (text, found, unknown) == (log, 0, 1)
    assert re.fullmatch(r"line \d+: this archive has no code of the name code/b.py: .*", notes[0])
    assert len(notes) == 1


@pytest.mark.parametrize("line", [b"~~~~\n", b"\n", b"    return 1\n"])
def test_what_follows_the_context_follows_the_new_traceback(stack: archive.Archive, line: bytes) -> None:
    code = bytes(stack.records[CODE].view())
    source = Source(cast("StringView", code), cast("StringView", CODE.encode()), 1)
    for start in (code.index(b"blocks"), code.rindex(b" ") + 1):
        frame = excerpt(SourceRange(source, start, start + 1), b"f")
        span = stack.locate(CODE, start)
        block = ORIGINAL + (b"" if span is None else excerpt(span, b"f"))
        assert explained(HEADING + frame + line, stack).text == SERIALIZED + frame + block + line


@pytest.mark.parametrize("number", [b"0", b"1", b"999999999"])
def test_a_marking_needs_a_line(number: bytes) -> None:
    log = HEADING + b'  File "%b", line %b, in f\n~ <--- HERE\n' % (CODE.encode(), number)
    assert explained(log, JIT.path)[:3] == (log, 0, 1)


def test_ordinary_lines_behind_a_heading_are_searched_for_failures() -> None:
    log = HEADING + b'  File "code/a.py", line 1, in f\n' + b"I tick\n" * 5
    report = LITE.stripped[LITE.stripped.index(b"  Debug info") :]
    full = LITE.full[LITE.full.index(b"  Module hierarchy") :]
    assert explained(log + report, LITE.path).text == log + full


def test_a_logger_may_cut_blanks_off() -> None:
    log, full = (
        b"".join((b"E pytorch: " + line).rstrip() + b"\n" for line in text.splitlines())
        for text in (LITE.stripped, LITE.full)
    )
    assert [line.rstrip() for line in explained(log, LITE.path).text.splitlines()] == full.splitlines()


def test_frames_of_python_code_have_nothing_to_explain() -> None:
    log = HEADING + b'  File "/src/models.py", line 3, in f\n    return x\n           ~ <--- HERE\n' + END
    assert explained(log, JIT.path) == (log, 0, 0, [])


@pytest.mark.parametrize(
    ("frames", "function"), [(400, b"forward"), (12, b"f" * 100_000)], ids=["lines", "bytes"]
)
def test_a_traceback_that_is_too_long_stays(frames: int, function: bytes) -> None:
    frame = JIT.stripped[JIT.stripped.index(b"  File") : JIT.stripped.index(END[:14])]
    log = HEADING + frame.replace(b"in forward", b"in " + function, 1) * frames + JIT.stripped
    text, found, unknown, notes = explained(log, JIT.path)
    assert text == log.removesuffix(JIT.stripped) + JIT.full
    assert (found, unknown) == (1, 1)
    assert notes == ["line 1: a traceback of more than 10000 lines or 1048576 bytes"]


def test_code_is_looked_for_in_code_records_only(stack: archive.Archive) -> None:
    assert FrameCode(stack, CODE.encode()).lines
    assert FrameCode(stack, b"data.pkl").lines is None


def test_a_python_stack_without_a_line_end_is_printed_as_it_is() -> None:
    text = cast("StringView", b"a.py(1): f")
    whole = SourceRange(Source(text, None, 0), 0, len(text))
    code = SimpleNamespace(
        lines=CodeLines(memoryview(b"x")),
        shows=lambda *_: True,
        columns=lambda *_: (0, 0),
        as_written=lambda header, lines: [header.string, *lines],
        marks=lambda *_: True,
        function=lambda _, shown: shown,
        original=lambda *_: whole,
    )
    frame = b'  File "code/a.py", line 1, in f\nx\n~ <--- HERE\n'
    traceback = Traceback(stream(HEADING, frame, frame, END), lambda _: cast("FrameCode", code))
    original = traceback.original(DEFAULT_LIMITS, Steps(100))
    assert b"".join(traceback.explained(original)) == SERIALIZED + frame * 2 + ORIGINAL + b"a.py(1): f" * 2


def place(filename: str | None, line: int, *, is_null: bool = False) -> SourceRange:
    name = None if filename is None else cast("StringView", filename)
    return SourceRange(Source(cast("StringView", b"x"), name, line, is_null), 0, 1)


OURS, OTHERS_OURS = place("models/net.py", 3), place("top.py", 9)
TORCHS = place("/usr/lib/python3/site-packages/torch/nn/functional.py", 1695)
WINDOWS = place(r"C:\Python\Lib\site-packages\torch\nn\functional.py", 7)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([TORCHS, WINDOWS, OURS, OTHERS_OURS], ("models/net.py", 3)),
        ([OURS, TORCHS], ("models/net.py", 3)),
        ([None, place(None, 1), place("none", 1, is_null=True), OTHERS_OURS], ("top.py", 9)),
        ([place("torch/nn.py", 2), OURS], ("torch/nn.py", 2)),
        ([TORCHS, WINDOWS], (str(TORCHS.source.filename), 1695)),
        ([None, place(None, 1)], ("", 0)),
    ],
)
def test_the_place_of_a_failure_is_the_innermost_line_that_is_not_pytorchs(
    spans: list[SourceRange | None], expected: tuple[str, int]
) -> None:
    assert place_of(spans) == expected


def test_a_companion_explains_a_traceback_unchecked(tmp_path: Path) -> None:
    path = tmp_path / "model.ptdbg"
    path.write_bytes(halves(JIT.path).companion)
    text, found, unknown, notes = explained(JIT.stripped, path)
    assert (text, found, unknown) == (JIT.full, 1, 0)
    assert notes == [
        "line 2: nothing proves it: not checked against the model's code, which a companion doesn't have"
    ]
    foreign = JIT.stripped.replace(b"plain.py", b"other.py")
    text, found, unknown, notes = explained(foreign, path)
    assert (text, found, unknown) == (foreign, 0, 1)
    assert "no code of the name code/__torch__/other.py: the failure is another model's" in notes[0]


def test_a_traceback_stays_where_the_archive_has_no_ranges_and_a_note_says_why() -> None:
    with archive.open(halves(JIT.path).out) as left:
        why = why_no_ranges(left).replace(REMEDY, OF_ONE)
        assert explained(JIT.stripped, left) == (JIT.stripped, 0, 1, [f"line 3: {why}"])


def test_an_archive_beside_its_companion_checks_the_lines_of_its_code() -> None:
    left, companion, _ = halves(JIT.path)
    other = JIT.stripped.replace(b"      blocks = self.blocks\n", b"      blocks = self.block\n")
    with archive.open(left, companion=companion) as both:
        assert explained(JIT.stripped, both) == (JIT.full, 1, 0, [])
        text, done, unknown, notes = explained(other, both)
    assert (text, done, unknown) == (other, 0, 1)
    assert "in this archive: the failure is another model's" in notes[0]


NAMES = ("plain_unicode.jit", "plain_free_functions.jit", "traced_stack.jit", "plain_stack.jit")
REPORTS = {name: case(name) for name in (*NAMES, "lowered_shape.jit")}
FIRST_LINE = b"Traceback of TorchScript (most recent call last):"
ORIGINAL_LINE = b"Traceback of TorchScript, original code (most recent call last):"
OTHER = b"2026-03-01 10:00:00,123 INFO app: going on"
each = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


def lines_of(report: Report) -> list[bytes]:
    """Heading and frames of a traceback."""
    lines = report.stripped.split(b"\n")
    first = lines.index(FIRST_LINE)
    stop = next(at for at, line in enumerate(lines) if line.startswith(b"RuntimeError"))
    return lines[first:stop]


def log_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@each
def test_a_failure_that_shows_one_other_line_is_another_models(report: Report) -> None:
    lines = lines_of(report)
    for at, line in enumerate(lines[1:], 1):
        if FRAME_HEADER.fullmatch(line) or RANGE_MARKING.fullmatch(line):
            continue
        log = log_of(*lines[:at], line[:-1] + b"2", *lines[at + 1 :], b"RuntimeError: failed")
        assert explained(log, report.path)[:3] == (log, 0, 1), line


@each
def test_a_failure_that_lacks_a_line_and_goes_on_is_another_models(report: Report) -> None:
    """PyTorch prints the lines of an excerpt, or the source ends there."""
    lines = lines_of(report)
    for at in range(2, len(lines)):
        log = log_of(*lines[:at], *lines[at + 1 :], b"RuntimeError: failed")
        text, done, unknown, notes = explained(log, report.path)
        assert (text, done, unknown) == (log, 0, 1) or CUT_NOTE in notes[-1], lines[at]


@each
@pytest.mark.parametrize("rest", [[], [OTHER], [OTHER, OTHER]])
def test_a_failure_that_is_cut_is_explained_as_far_as_it_goes_and_said_to_be_cut(
    report: Report, rest: list[bytes]
) -> None:
    lines = lines_of(report)
    frames = [at for at, line in enumerate(lines) if FRAME_HEADER.fullmatch(line)]
    markings = [at for at, line in enumerate(lines) if line.endswith(b"<--- HERE")]
    for stop in range(2, len(lines) + 1):
        log = log_of(*lines[:stop], *rest)
        text, done, unknown, notes = explained(log, report.path)
        if markings[0] >= stop:
            assert (text, done, unknown) == (log, 0, 1)
            continue
        found = text.split(b"\n")[:-1]
        start = found.index(ORIGINAL_LINE) - 1
        whole = max(at for at in markings if at < stop)
        assert (done, unknown, found[0]) == (1, 0, FIRST_LINE.replace(b" (", b", serialized code ("))
        # What the explanation stands behind is the last line of the last whole excerpt.
        last = min([at for at in frames if at > whole] + [stop])
        assert found[1:start] == lines[1:last]
        assert found[len(found) - len(rest) - (stop - last) :] == [*lines[last:stop], *rest]
        is_cut = not rest or (
            stop not in frames and stop < len(lines)
        )  # PyTorch prints a message behind them
        assert [CUT_NOTE in note for note in notes] == [True] * is_cut, stop


@each
def test_a_log_that_ends_within_a_line_is_not_called_another_models(report: Report) -> None:
    log = log_of(*lines_of(report))
    first = log.index(b"<--- HERE\n") + len(b"<--- HERE\n")
    for stop in range(first, len(log), 5):
        text, done, unknown, notes = explained(log[:stop], report.path)
        assert (done, unknown) == (1, 0), log[stop - 20 : stop]
        assert not any("another model" in note for note in notes)
        assert ORIGINAL_LINE in text


@each
def test_a_companion_alone_explains_a_cut_failure_above_the_next_line_of_the_log(report: Report) -> None:
    lines = lines_of(report)
    with archive.open(halves(report.path).companion) as companion:
        for stop in [at for at, line in enumerate(lines, 1) if line.endswith(b"<--- HERE")]:
            log = log_of(*lines[:stop], OTHER)
            text, done, unknown, notes = explained(log, companion)
            if OF_OTHER_CODE in notes[-1]:  # a call that tracing gave no source, with nothing below it
                assert (text, done, unknown) == (log, 0, 1)
                assert stop < len(lines) - 1
                continue
            found = text.split(b"\n")[:-1]
            assert (done, unknown, found[-1]) == (1, 0, OTHER)
            assert found[1 : found.index(ORIGINAL_LINE) - 1] == lines[1:stop]


FRAME = b'  File "code/net.py", line 3, in forward\n'
SHOWN = b"    x\n    ~ <--- HERE\n"
ERROR = b"RuntimeError: x\n"


def outline(*lines: bytes, heading: bytes = HEADING) -> TracebackFailure:
    return TracebackFailure(stream(heading, *lines))


def test_a_traceback_of_other_code_needs_no_explanation() -> None:
    assert not outline(FRAME.replace(b"code/", b"models/"), SHOWN, ERROR).has_code
    assert outline(FRAME, SHOWN, ERROR).has_code
    assert outline(FRAME.replace(b"code/", b"models/"), SHOWN, FRAME, SHOWN, ERROR).has_code


@pytest.mark.parametrize("behind", [ERROR, b"torch.jit.Error: y\n", HEADING, b"E " + HEADING])
def test_the_lines_behind_the_last_frame_do_not_tell_tracebacks_apart(behind: bytes) -> None:
    assert outline(FRAME, SHOWN, behind, b"b\n").key == outline(FRAME, SHOWN).key
    assert outline(FRAME, b"  x\n").key != outline(FRAME, b"  y\n").key


def test_an_endless_traceback_is_read_to_a_bound_and_may_be_of_code() -> None:
    endless = outline(*[FRAME.replace(b"code/", b"models/"), SHOWN] * 10_000)
    assert endless.has_code
    assert not endless.names


def test_each_line_of_a_traceback_tells_it_from_others() -> None:
    lines = [FRAME, *SHOWN.splitlines(keepends=True), FRAME, *SHOWN.splitlines(keepends=True)]
    keys = {outline(*lines).key}
    for at, line in enumerate(lines):
        changed = line.replace(b"3", b"4").replace(b"    ", b"     ")
        keys.add(outline(*lines[:at], changed, *lines[at + 1 :]).key)
    assert len(keys) == 1 + len(lines)


@pytest.mark.parametrize("prefix", [b"", b"pod-a 2026-03-01T10:00:00.5Z stderr F "])
def test_a_traceback_without_frames_shows_no_line(prefix: bytes) -> None:
    """PyTorch prints one where `a, b, c = torch.split(x, 1)` gets two: unpacking has no source range."""
    rethrown = b"The following operation failed in the TorchScript interpreter.\n"
    error = b"RuntimeError: Expected 3 elements in a list but found 2\n"
    log = b"".join(prefix + line for line in (rethrown, HEADING, error))
    with archive.open(JIT.path) as opened:
        for explainer in (LogExplainer.of(opened), explainer_of(models_in([JIT.path, TRACED.path]))):
            assert b"".join(explainer.explain([log])) == log
            assert (explainer.unknown, explainer.explained) == (1, 0)
            assert explainer.notes == [f"line 2: {FRAMELESS_NOTE}"]
