"""Small archives and short logs that ask for much: what is left unexplained, and that the log goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive import LimitError, Limits
from archive.base.spending import FAILURES_OF_OUTPUT, FAILURES_OF_STEPS, OUTPUT_A_BYTE, STEPS_A_BYTE
from archive.failures.code_records import BLOCK, CodeLines
from archive.failures.explainer import LogExplainer
from archive.failures.failure import why_left
from archive.failures.log.beginnings import MAX_ABOVE, MOST_ABOVE, Above
from archive.failures.log.forms import Ended, Prefixed, Quoted
from archive.failures.log.log_line import MOST_BETWEEN
from tests.support.commands import well
from tests.support.reports import case

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.failures.log.forms import LinePart

LITE = case("lowered_shape")
PLAIN = case("plain_stack.jit")
UNKNOWN = b"Debug info for handle(s): debug_handles:{%b}, was not found.\n"


def explainer(limits: Limits) -> LogExplainer:
    return LogExplainer.of(archive.open(LITE.path, limits=limits))


def test_digits_seen_before_are_not_sought_again() -> None:
    one = explainer(Limits())
    list(one.explain([UNKNOWN % b"126"]))
    steps = one.spending.steps
    assert steps > 0
    list(one.explain([UNKNOWN % b"126" * 50]))
    assert (one.spending.steps, one.explained) == (steps, 51)


def test_a_search_of_too_many_steps_leaves_the_failure() -> None:
    one = explainer(Limits(work=1))
    log = b"I: start\n" + UNKNOWN % b"126" + b"I: end\n"
    assert b"".join(one.explain([log])) == log
    assert (one.explained, one.unknown) == (0, 1)
    assert one.notes == [
        "line 2: handles {126}: left unexplained: too many steps; --limit work=… allows more"
    ]


@pytest.mark.parametrize("report", [LITE, PLAIN], ids=["lite", "torchscript"])
def test_an_explanation_that_is_too_long_leaves_the_failure(report: object) -> None:
    log = LITE.stripped if report is LITE else PLAIN.stripped
    path = LITE.path if report is LITE else PLAIN.path
    one = LogExplainer.of(archive.open(path, limits=Limits(output=100)))
    assert b"".join(one.explain([log])) == log
    assert (one.explained, one.unknown) == (0, 1)
    (note,) = one.notes
    assert note.endswith("left unexplained: the explanation would be too long; --limit output=… allows more")


def test_what_a_log_may_have_is_counted_over_all_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.base.spending.OUTPUT_A_BYTE", 0)
    one = explainer(Limits(output=8_000))
    text = b"".join(one.explain([UNKNOWN % b"126" * 100]))
    assert one.explained + one.unknown == 100
    assert min(one.explained, one.unknown) > 0
    assert len(text) < 4 * 8_000 + 100 * len(UNKNOWN)
    assert one.notes[-1].startswith(
        f"{one.unknown} failures left unexplained: the explanations would exceed 32,000 "
    )


def test_a_long_prefix_counts_on_every_line_that_gets_it() -> None:
    prefix = b"p" * 2_000 + b": "
    log = prefix + b"start\n" + prefix + UNKNOWN % b"126"
    enough, less = explainer(Limits()), explainer(Limits(output=8_000))
    added = b"".join(enough.explain([log])).count(prefix) - 2
    assert added * len(prefix) > 8_000
    assert b"".join(less.explain([log])) == log
    assert (enough.explained, less.explained, less.unknown) == (1, 0, 1)
    (note,) = less.notes
    assert note.startswith("1 failure left unexplained: the explanations would exceed ")


NUMBERS = {4: "four", 16: "sixteen"}
HELP = well("symbolicate", "--help")
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "failures.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [HELP, PAGE], ids=["help", "page"])
def test_help_and_page_tell_the_bounds_as_they_are(text: str) -> None:
    told = " ".join(text.split())
    assert f"may be {Limits().output >> 20} MiB long and take {Limits().work:,} steps" in told
    assert f"{OUTPUT_A_BYTE} bytes longer for each byte of the log" in told
    assert f"{NUMBERS[FAILURES_OF_STEPS]} times the steps" in told
    assert f"{NUMBERS[STEPS_A_BYTE]} more for each byte" in told
    assert (
        "four times as long" if text is HELP else f"together be {FAILURES_OF_OUTPUT << 4} MiB long"
    ) in told
    assert "--limit output=64M" in told
    assert "--limit work=1M" in told


@pytest.mark.parametrize(
    "text", [b"\n", b"a", b"a\n", b"\n\n", b"\nb", b"x\n" * BLOCK + b"y", b"z" * 3 * BLOCK + b"\n"]
)
def test_lines_are_found_by_their_places(text: bytes) -> None:
    lines, expected = CodeLines(memoryview(text)), text.removesuffix(b"\n").split(b"\n")
    assert len(lines) == len(expected)
    starts = np.cumsum([0, *(len(line) + 1 for line in expected)])
    for number in {1, len(expected) // 2 + 1, len(expected)}:
        assert lines.is_line(number, expected[number - 1])
        assert lines.start(number) == starts[number - 1]
    assert not lines.is_line(len(expected) + 1, b"")


@pytest.mark.parametrize(
    ("path", "log"),
    [
        (case("plain_stack").path, b"Debug info for handle(s): 1445, was not found.\n"),
        (PLAIN.path, PLAIN.stripped),
    ],
    ids=["lite", "torchscript"],
)
def test_what_an_explanation_takes_is_counted(path: Path, log: bytes) -> None:
    """Apart from the search for handles, of which there is none here."""
    one = LogExplainer.of(archive.open(path))
    list(one.explain([log]))
    assert (one.explained, one.spending.steps > 0) == (1, True)


def test_a_place_behind_a_line_has_no_byte() -> None:
    lines = CodeLines(memoryview(b"ab\ncd\n"))
    assert [lines.byte(2, column) for column in range(4)] == [b"c", b"d", b"", b""]
    assert not lines.is_line(0, b"")


def test_the_bytes_of_all_frames_together_are_bounded() -> None:
    added = len(PLAIN.full) - len(PLAIN.stripped) - len(", serialized code")
    for output, texts in ((added, PLAIN.full), (added - 1, PLAIN.stripped)):
        one = LogExplainer.of(archive.open(PLAIN.path, limits=Limits(output=output)))
        assert b"".join(one.explain([PLAIN.stripped])) == texts


def test_only_bounds_of_explanations_leave_a_failure_others_end_the_log() -> None:
    assert why_left(LimitError("output", 1, 2)).startswith("left unexplained: ")
    with pytest.raises(LimitError, match="memory"):
        why_left(LimitError("memory", 1, 2))


HOSTILE = {
    "headings of many processes": b"[%d] Traceback of TorchScript (most recent call last):\n",
    "handles of many processes": b"[%d]   Debug info for handle(s): debug_handles:{126}, was not found.\n",
    "headings in JSON": b'{"a": "w%d", "m": "Traceback of TorchScript (most recent call last):\\n"}\n',
    "torn frames": b'[%d] Traceback of TorchScript (most recent call last):\n[%d]   File "a.py", line 1\n',
}
FRAME = b'  File "code/__torch__/net.py", line 8, in forward\n'
HEADINGS = (
    b"Traceback of TorchScript (most recent call last):\n",
    b"Traceback of TorchScript, serialized code (most recent call last):\n",
)


def looks(log: list[bytes]) -> int:
    """How often a line of the log is taken apart while it is explained."""
    looked = 0

    def counting(part: Callable[..., LinePart | None]) -> Callable[..., LinePart | None]:
        def counted(*args: object) -> LinePart | None:
            nonlocal looked
            looked += 1
            return part(*args)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for form in (Prefixed, Quoted):
            patch.setattr(form, "part", counting(form.part))
        list(explainer(Limits()).explain(log))
    return looked


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_each_failure_looks_at_a_bounded_number_of_lines(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 20
    monkeypatch.setattr("archive.failures.log.streams.MOST_BETWEEN", most)
    monkeypatch.setattr("archive.failures.log.beginnings.MOST_ABOVE", most)
    assert looks([line.replace(b"%d", b"%d" % number) for number in range(1_000)]) < 1_000 * 5 * most


@pytest.mark.parametrize("prefix", [b"[%d] ", b"2026-03-01T10:00:00Z ERROR w%d: "])
@pytest.mark.parametrize("heading", HEADINGS, ids=["traceback", "serialized code"])
@pytest.mark.parametrize("second", [FRAME, b""], ids=["torn", "alone"])
def test_lines_of_other_processes_are_not_taken_apart(prefix: bytes, heading: bytes, second: bytes) -> None:
    """A process' own next line is sought among them, by what its prefix has."""
    failure = [line for line in (heading, second) if line]
    log = [prefix % number + failure[number % len(failure)] for number in range(1_000)]
    assert 1_000 < looks(log) < 1_000 * 20 < 1_000 * MOST_BETWEEN


PREFIX = st.lists(
    st.sampled_from([b"[1] ", b"a", b" ", b"INFO ", b"E ", b"10:00:00 ", b"1700000000", b"w2: ", b"|"]),
    max_size=4,
).map(b"".join)


@given(PREFIX, PREFIX, st.sampled_from(["E ", "", "text", '"text"', '"a\\n"']).map(str.encode))
def test_each_line_of_a_form_has_its_mark(first: bytes, other: bytes, text: bytes) -> None:
    for form in (Prefixed(first), Ended(first, b" |"), Quoted(first, b" INFO |")):
        for around in (form, form.loosened):
            for line in (b"", text, text + b" |", text + b" ERROR |"):
                for prefix in (first, first.rstrip(b" "), other, other.rstrip(b" ")):
                    if around.part(0, prefix + line) is not None:
                        assert around.mark in prefix + line


def test_the_lines_above_are_few_and_small() -> None:
    above = Above()
    for number in range(3 * MOST_ABOVE):
        above.add(b"%d" % number)
    assert list(above.nearest()) == [
        b"%d" % number for number in reversed(range(2 * MOST_ABOVE, 3 * MOST_ABOVE))
    ]
    for _ in range(5):
        above.add(bytes(MAX_ABOVE // 2))
    assert len(list(above.nearest())) == 2
    above.add(bytes(2 * MAX_ABOVE))
    assert [len(line) for line in above.nearest()] == [2 * MAX_ABOVE]
    above.add(b"next")
    assert list(above.nearest()) == [b"next"]
