"""An explained log is, to the byte, what PyTorch prints; its failures are counted by their causes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import chain, count, islice, pairwise, product, repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.debuginfo.symbolicate import Style
from archive.failures.explainer import UNREAD_NOTE, CauseGroup, Causes, LogExplainer, explain
from archive.failures.failure import Answer, FailureCause
from archive.failures.messages import wording
from tests.support.commands import run
from tests.support.corpus import FIXTURES, ORACLES, RELEASES
from tests.support.reports import case, cases, explained, printed, printed_by_213, without_original
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive import Archive
    from archive.failures.failure import Failure
    from tests.support.reports import Report

LITE = case("lowered_shape")
JIT = case("traced_stack.jit")
HEADING = b"Traceback of TorchScript (most recent call last):\n"
UNKNOWN = b"Debug info for handle(s): debug_handles:{%b}, was not found.\n"


def test_reports_become_what_pytorch_prints_with_debug_records() -> None:
    kinds: Counter[str] = Counter()
    for report in cases():
        assert explained(report.stripped, report.path) == (report.full, 1, 0, []), report.path
        kinds[report.path.suffix] += 1
    assert kinds == {".ptl": 17, ".pt": 17}


def test_a_failing_load_is_explained() -> None:
    full = (ORACLES / "unavailable_load.txt").read_text("utf-8")
    assert explained(without_original(full), ORACLES / "unavailable.pt").text == full.encode()


@pytest.mark.parametrize(("errors", "tracebacks"), [(printed(), 307), (printed_by_213(), 592)])
def test_tracebacks_of_torchscript_are_explained_as_each_release_did(
    errors: tuple[tuple[Path, str], ...], tracebacks: int
) -> None:
    original = [(path, text) for path, text in errors if "original code" in text]
    assert len(original) == tracebacks
    for path, text in sampled(original, most=50, by=[lambda one: one[0].parent.name]):
        outcome = explained(without_original(text), path)
        assert outcome == (text.encode(), outcome.explained, 0, []), path


@cache
def symbolications(path: Path, style: Style) -> dict[bytes, bytes]:
    """The text with debug records → the digits that PyTorch prints instead, for every possible failure."""
    opened = archive.open(path)
    instructions = {handle for handles in opened.methods.values() for handle in handles}
    delegated = opened.handles.keys() - instructions
    chains: list[tuple[int, ...]] = [(handle,) for handle in called(opened, {"OP", "OPN", "LIST_UNPACK"})]
    chains += product(delegated, called(opened, {"INTERFACE_CALL"}, "execute"))
    joined = {chain: "".join(map(str, chain)).encode() for chain in reversed(chains)}
    return {bytes(opened.symbolicate(chain, style)): digits for chain, digits in joined.items()}


def called(opened: Archive, opcodes: set[str], method: str = "") -> list[int]:
    """The handles of the instructions that call an operator, or a method of this name."""
    found = []
    for name, table, *_ in opened.value("bytecode.pkl")[1:]:  # type: ignore[index]
        parts = dict(table)
        for handle, (opcode, operand, _) in zip(opened.methods[name], parts["instructions"], strict=True):
            if opcode in opcodes and method in ("", parts["constants"][operand] if method else ""):
                found.append(handle)
    return found


@pytest.mark.parametrize(("errors", "failures"), [(printed(), 177), (printed_by_213(), 182)])
def test_failures_of_the_lite_interpreter_are_explained_as_each_release_did(
    errors: tuple[tuple[Path, str], ...], failures: int
) -> None:
    lite = [(path, error) for path, error in errors if "Module hierarchy" in error]
    assert len(lite) == failures
    paths = sampled(sorted({path for path, _ in lite}), by=[lambda path: path.parent.name])
    for path, error in lite:
        if path not in paths:
            continue
        text, style = error.encode(), Style.V1_9 if path.parent.name == "torch-1.9.0" else Style.CURRENT
        known = [(one, digits) for one, digits in symbolications(path, style).items() if one in text]
        symbolication, digits = max(known, key=lambda pair: len(pair[0]))
        report = text.replace(symbolication, UNKNOWN.removesuffix(b"\n") % digits)
        assert explained(report, path, style) == (text, 1, 0, []), path


@pytest.mark.parametrize(
    "line",
    [
        b"Debug info for handle(s): debug_handles:{1445}, was not found.",
        b"Debug info for handle(s): 1445, was not found.",
        b"Debug info for handle, 1445, not found.",
    ],
)
def test_each_release_has_its_own_words(line: bytes) -> None:
    report = case("plain_stack")
    text = bytes(archive.open(report.path).symbolicate(1445))
    assert explained(b"E: " + line + b" \xff", report.path).text == b"E: " + text + b" \xff"


def test_a_single_handle_may_be_a_delegated_operation() -> None:
    """The first releases print a backend's handle without that of the instruction that called it."""
    opened = archive.open(RELEASES / "torch-1.10.0" / "lowered.ptl")
    instructions = {handle for handles in opened.methods.values() for handle in handles}
    delegated = opened.handles.keys() - instructions
    assert delegated
    assert instructions
    for handle in delegated:
        log = explained(b"Debug info for handle(s): %d, was not found." % handle, opened)
        assert log.text == bytes(opened.symbolicate(handle))


def test_words_for_a_single_handle_are_never_split() -> None:
    line = b"Debug info for handle(s): 126, was not found."
    assert explained(line, LITE.path).text == line


@pytest.mark.parametrize(
    ("handle", "why"),
    [
        (b"-1", "where this ran, the model had no handles"),
        (b"01445", "not in this archive"),
        (b"9001", "not in this archive"),
        (b"1" * 30, "not in this archive: as unique handles they name the archive 1111111111"),
    ],
)
def test_a_single_handle_that_is_none_of_the_archive_stays(handle: bytes, why: str) -> None:
    line = b"Debug info for handle(s): %b, was not found.\n" % handle
    expected = [f"line 1: handles {{{handle.decode()}}}: {why}"]
    assert explained(line, case("plain_stack").path) == (line, 0, 1, expected)


@pytest.mark.parametrize("given", ["one", "several", "programs", "store"])
def test_a_handle_that_says_there_were_none_is_of_no_model_however_many_are_given(
    given: str, tmp_path: Path
) -> None:
    lite, fleet = case("plain_stack").path, sorted((FIXTURES / "fleet").glob("*.ptdbg"))
    run("store", "add", *fleet, "--store", tmp_path / "store")
    files: dict[str, list[Path | str]] = {
        "one": [lite],
        "several": [lite, *fleet],
        "programs": sorted((FIXTURES / "exported").glob("shop*.pt2")),
        "store": ["--store", tmp_path / "store"],
    }
    done = run("symbolicate", *files[given], stdin=UNKNOWN % b"-1")
    assert (done.returncode, done.stdout) == (1, UNKNOWN % b"-1")
    told = done.stderr.decode().splitlines()
    assert told[0] == "debug-archive: line 1: handles {-1}: where this ran, the model had no handles"
    assert all("0 ambiguous, 1 without a line" in line for line in told[1:])  # and nothing to add


def test_what_is_already_explained_stays() -> None:
    for report in cases():
        assert explained(report.full, report.path) == (report.full, 0, 0, []), report.path


def test_older_tracebacks_stay() -> None:
    errors = [(path, text) for path, text in printed() if path.parent.name in ("torch-1.2.0", "torch-1.4.0")]
    for path, text in errors:
        assert explained(text.encode(), path).text == text.encode()
    assert len(errors) == 32


def test_all_failures_of_a_log_are_explained() -> None:
    report = case("lowered_shape.jit")
    opened = archive.open(LITE.path)  # has the code of the other archive, too
    between = b"\x00\xff\r\n\n  File\n"
    log, full = (
        between.join([lite, jit, lite + jit, b""])
        for lite, jit in ((LITE.stripped, report.stripped), (LITE.full, report.full))
    )
    assert explained(log, opened) == (full, 4, 0, [])


@settings(deadline=None)
@given(st.lists(st.integers(0, len(JIT.stripped) + len(LITE.stripped)), max_size=8))
def test_pieces_need_not_be_lines(cuts: list[int]) -> None:
    log = JIT.stripped + LITE.stripped
    edges = sorted({0, *cuts, len(log)})
    pieces = [log[start:stop] for start, stop in pairwise(edges)]
    assert explained(pieces, JIT.path).text == JIT.full + LITE.stripped


FRAGMENTS = [
    HEADING,
    HEADING.replace(b"\n", b"\r\n"),
    b"Traceback of TorchScript, serialized code (most recent call last):\n",
    *JIT.stripped.replace(b"x, weight, bias", b"x, weight").splitlines(keepends=True)[-8:-1],
    b'  File "code/__torch__/nowhere.py", line 999999999, in f\n',
    b'  File "/src/models.py", line 0, in \xe4\n',
    UNKNOWN % b"-1",
    UNKNOWN % b"",
    UNKNOWN % b"99999",
    UNKNOWN[:40],
]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30) | st.sampled_from(FRAGMENTS), max_size=30))
def test_all_else_passes_through(pieces: list[bytes]) -> None:
    outcome = explained(pieces, JIT.path)
    assert (outcome.text, outcome.explained) == (b"".join(pieces), 0)


def test_a_log_is_read_no_further_than_needed() -> None:
    taken = count()
    log = (line for line, _ in zip(chain([b"I: start\n"], repeat(b"I: tick\n")), taken, strict=False))
    with archive.open(LITE.path) as opened:
        pieces = explain(log, opened)
        assert [next(pieces) for _ in range(3)] == [b"I: start\n", b"I: tick\n", b"I: tick\n"]
    assert next(taken) <= 4


def test_a_line_without_an_end_is_passed_on() -> None:
    with archive.open(LITE.path) as opened:
        pieces = [len(piece) for piece in explain(repeat(bytes(1 << 16), 100), opened)]
    assert sum(pieces) == 100 << 16
    assert max(pieces) < 2 << 20


@pytest.fixture
def opened() -> Archive:
    return archive.open(LITE.path)


@pytest.mark.parametrize(
    "text",
    [
        b"<<Debug info for handle(s): debug_handles:{5}, was not found>>",
        b"<<Debug info for handle(s): 5, was not found>>",
        b"<<Debug info for handle, 5, was not found>>",
        b"q=Debug%20info%20for%20handle%28s%29%3A%205%2C%20was%20not%20found%3E",
        b"q=Debug+info+for+handle%2C+-1%2C+not+found",
    ],
)
def test_a_failure_of_each_release_in_an_unknown_form_is_noted(opened: Archive, text: bytes) -> None:
    explainer = explained(text + b"\n", opened)
    assert (explainer.unknown, explainer.notes) == (1, [f"line 1: {UNREAD_NOTE}"])


def test_words_about_debug_info_are_no_failure(opened: Archive) -> None:
    assert explained(b"Debug info for handle, if any, was dropped\n", opened).unknown == 0


def test_notes_say_what_is_unknown_and_where(opened: Archive) -> None:
    explainer = LogExplainer.of(opened)
    unknown = UNKNOWN % b"9001"
    ones, foreign = "1" * 40, "as unique handles they name the archive 1111111111"
    log = b"one\n" + unknown + UNKNOWN % b"-1" + unknown + UNKNOWN % (b"1" * 10_000)
    assert b"".join(explainer.explain([log])) == log
    assert explainer.notes == [
        "line 2: handles {9001}: not in this archive (2 times)",
        "line 3: handles {-1}: where this ran, the model had no handles",
        f"line 5: handles {{{ones}}}: not in this archive: {foreign}",
    ]
    assert (explainer.explained, explainer.unknown) == (0, 4)


def test_an_archive_without_handles_says_so() -> None:
    (note,) = explained(UNKNOWN % b"126", JIT.path).notes
    assert note.startswith("line 1: handles {126}: this archive is not for the lite interpreter")


def test_notes_are_short(opened: Archive) -> None:
    frame = b'  File "code/%b.py", line 1, in f\nx\n~ <--- HERE\n' % (b"x" * 10_000)
    (note,) = explained(HEADING + frame, opened).notes
    assert len(note) < 600


def test_notes_are_bounded() -> None:
    explainer = LogExplainer.of(archive.open(case("plain_stack").path))
    log = b"".join(UNKNOWN % (b"%d" % (9_000 + number)) for number in range(300))
    assert b"".join(explainer.explain([log])) == log
    assert (len(explainer.notes), explainer.unknown) == (101, 300)
    assert explainer.notes[-1] == "200 more such failures"


FRAMES = JIT.stripped[JIT.stripped.index(b"Traceback") : JIT.stripped.rindex(b"\nRuntimeError") + 1]


@pytest.mark.parametrize("end", [b"", b"StopIteration\n", b"KeyError\n", b"AssertionError\n", b"E"])
def test_a_traceback_is_explained_as_soon_as_the_log_pauses(end: bytes) -> None:
    full = JIT.full[JIT.full.index(b"Traceback") : JIT.full.rindex(b"\nRuntimeError") + 1]
    with archive.open(JIT.path) as opened:
        pieces = explain(arriving(FRAMES + end), opened)
        assert b"".join(islice(pieces, FRAMES.count(b"\n"))) == full


def arriving(*pieces: bytes) -> Iterator[bytes]:
    """A log that pauses behind each piece, and must not be waited for behind the last one."""
    for piece in pieces:
        yield piece
        yield b""
    pytest.fail("waited for more than arrives")


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_a_pause_within_a_frame_ends_nothing(cut: int) -> None:
    """Nor does one behind the heading."""
    lines = JIT.stripped.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith(b"Traceback")) + cut
    pieces = [b"".join(lines[:at]), b"", b"".join(lines[at:])]
    assert explained(pieces, JIT.path).text == JIT.full


STACK = case("plain_stack")
STACK_JIT = case("plain_stack.jit")


MESSAGE = "mat1 and mat2 shapes cannot be multiplied (1x5 and 4x4)"
WORDING = "mat1 and mat2 shapes cannot be multiplied (# and #)"


def cause(line: int) -> FailureCause:
    return FailureCause("net.py", line, "forward", "no")


def counted(*failures: tuple[int, tuple[str, ...]]) -> Causes:
    """Failures, each by the line of its cause and its models, in a line of the log each."""
    causes = Causes()
    for number, (line, models) in enumerate(failures, 1):
        causes.add(Answer(with_message("no"), b"", cause=cause(line), models=models), number)
    return causes


def with_message(message: str) -> Failure:
    return cast("Failure", SimpleNamespace(message=message))


@given(st.lists(st.sampled_from([(1, "x"), (1, "y"), (22, "x"), (333, "y")]), min_size=1))
def test_a_cause_shows_what_its_failures_say_and_a_sign_for_what_differs(seen: list[tuple[int, str]]) -> None:
    """Numbers make no other cause, and are shown where all failures have the same."""
    causes = Causes()
    for number, (size, name) in enumerate(seen, 1):
        message = f"size {size} of {name}"
        known = FailureCause("net.py", 1, "forward", wording(message))
        causes.add(Answer(with_message(message), b"", cause=known), number)
    for group in causes.top():
        own = {f"size {size} of {name}" for size, name in seen if group.cause.message.endswith(name)}
        assert group.message == (own.pop() if len(own) == 1 else group.cause.message)
        assert group.cause.message in {"size # of x", "size # of y"}


def test_the_most_frequent_cause_comes_first_and_of_equals_the_earliest() -> None:
    causes = counted((3, ()), (2, ()), (1, ()), (2, ()), (2, ()), (1, ()))
    expected = [
        CauseGroup((), cause(2), 3, first=2, last=5, message="no"),
        CauseGroup((), cause(1), 2, first=3, last=6, message="no"),
        CauseGroup((), cause(3), 1, first=1, last=1, message="no"),
    ]
    assert causes.top() == expected
    assert causes.top(2) == expected[:2]
    assert causes.top(0) == []
    assert counted((1, ()), (2, ())).top(1)[0].cause.line == 1


def test_failures_of_other_models_are_told_apart() -> None:
    assert [(one.models, one.count) for one in counted((1, ("a",)), (1, ("b",)), (1, ("b",))).top()] == [
        (("b",), 2),
        (("a",), 1),
    ]


def test_of_too_many_causes_the_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.failures.explainer.MOST_CAUSES", 2)
    causes = counted((1, ()), (2, ()), (3, ()), (4, ()), (2, ()))
    assert [(one.cause.line, one.count) for one in causes.top()] == [(2, 2), (1, 1)]
    assert causes.others == 2


def grouped(report: Report) -> tuple[LogExplainer, CauseGroup]:
    """The only group of a log with a failure twice, behind two other lines."""
    explainer = LogExplainer.of(archive.open(report.path))
    list(explainer.explain([b"a\nb\n" + report.stripped * 2]))
    (group,) = explainer.causes.top()
    return explainer, group


def test_a_cause_of_the_lite_interpreter_is_its_source_line_hierarchy_and_message() -> None:
    explainer, group = grouped(STACK)
    hierarchy = (
        "top(Stack)::<unknown>.blocks(Sequential)::forward.0(Block)::forward"
        ".SELF(Block)::_inner.fc(Linear)::forward.aten::linear"
    )
    assert group == CauseGroup(
        (), FailureCause("models/plain.py", 25, hierarchy, WORDING), 2, first=5, last=8, message=MESSAGE
    )
    assert explainer.caveat.startswith("nothing in the log names the model: 2 failures are explained ")


def test_a_cause_of_torchscript_is_its_source_line_and_function() -> None:
    explainer, group = grouped(STACK_JIT)
    lines = STACK_JIT.stripped.count(b"\n")
    assert group == CauseGroup(
        (),
        FailureCause("models/plain.py", 25, "forward", WORDING),
        2,
        first=4,
        last=4 + lines,
        message=MESSAGE,
    )
    assert explainer.caveat.startswith("nothing in the log names the model: 2 failures are explained ")


def test_one_failure_alone_is_told_in_the_singular() -> None:
    explainer = LogExplainer.of(archive.open(STACK.path))
    list(explainer.explain([STACK.stripped]))
    assert explainer.caveat.startswith("nothing in the log names the model: 1 failure is explained ")
