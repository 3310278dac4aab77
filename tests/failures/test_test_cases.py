"""Reports of tests show a failure of a case several times: it counts once, and is explained each time."""

from __future__ import annotations

from itertools import product
from xml.sax.saxutils import escape

import pytest

import archive
from archive.failures.explainer import LogExplainer
from tests.support.reports import Report, case

TRACED = case("plain_stack.jit")
OTHER = case("plain_stack")
IN_ATTRIBUTE = {'"': "&quot;", "\n": "&#10;"}
CUT = "[+1 more line; full report in element text]"


def failed(report: Report) -> str:
    return report.stripped.decode().rstrip("\n")


def below(text: str) -> str:
    """A message as pytest prints it below a test's source."""
    return "\n".join("E   " + line for line in text.split("\n"))


def junit(text: str, *, message: bool, cut: bool, out: bool, native: bool) -> str:
    """A case of JUnit's XML."""
    shown = "\n".join([*text.split("\n")[:-1], CUT]) if cut else text
    attribute = f'"{escape(shown, IN_ATTRIBUTE)}"' if message else '"failed"'
    body = escape(text if native else f"test_it.py:4: in test\n    run()\n{below(text)}")
    printed = f"--- Captured Out ---\n{escape(text)}\n\n" if out else ""
    return (
        f'<testcase classname="test_it" name="test"><failure message={attribute}>{body}</failure>'
        f"<system-out>{printed}</system-out></testcase>"
    )


def on_terminal(text: str, *, out: bool, colour: bool) -> str:
    """A test in pytest's report."""
    before, after = ("\x1b[31m\x1b[1m", "\x1b[0m") if colour else ("", "")
    printed = f"----- Captured stdout call -----\n{text}\n" if out else ""
    heading = f"{before}______ test_it[a] ______{after}"
    return f"{heading}\ntest_it.py:4: in test_it\n    run()\n{below(text)}\n{printed}"


def counted(log: str, report: Report = TRACED) -> tuple[int, int, int]:
    """How many failures are explained, how many causes they have, and how many explanations there are."""
    with archive.open(report.path) as opened:
        explainer = LogExplainer.of(opened)
        text = b"".join(explainer.explain([log.encode()]))
        assert explainer.unknown == 0
        causes = explainer.causes.top()
        assert sum(one.count for one in causes) == explainer.explained
        return explainer.explained, len(causes), text.count(b"original code (most recent")


FLAGS = ("message", "cut", "out", "native")


@pytest.mark.parametrize("flags", [*product([False, True], repeat=4)])
@pytest.mark.parametrize("cases", [1, 3])
def test_a_case_of_junit_has_failed_once(flags: tuple[bool, ...], cases: int) -> None:
    given = dict(zip(FLAGS, flags, strict=True))
    log = '<?xml version="1.0"?><testsuites><testsuite name="pytest">'
    log += "".join([junit(failed(TRACED), **given)] * cases) + "</testsuite></testsuites>\n"
    places = 1 + given["message"] + given["out"]
    assert counted(log) == (cases, 1, places * cases)


@pytest.mark.parametrize(("out", "colour"), [*product([False, True], repeat=2)])
@pytest.mark.parametrize("cases", [1, 3])
def test_a_test_in_pytests_report_has_failed_once(*, out: bool, colour: bool, cases: int) -> None:
    log = "===== FAILURES =====\n" + on_terminal(failed(TRACED), out=out, colour=colour) * cases
    assert counted(log + "===== short test summary info =====\n") == (cases, 1, (1 + out) * cases)


def test_outside_of_test_cases_each_failure_counts() -> None:
    text = failed(TRACED) + "\n"
    assert counted(text * 2) == (2, 1, 2)
    ended = "===== 1 failed in 3.2s =====\n"
    assert counted(on_terminal(failed(TRACED), out=True, colour=False) + ended + text * 2) == (3, 1, 4)


@pytest.mark.parametrize(("lines", "count"), [(1_000, 1), (40_000, 2)])
def test_far_below_its_heading_nobody_knows_the_case(lines: int, count: int) -> None:
    between = "".join(f"step {number:,} of a long training is done\n" for number in range(lines))
    log = f"______ test_it ______\n{failed(TRACED)}\n{between}{failed(TRACED)}\n"
    assert counted(log)[0] == count


def test_handles_that_a_case_shows_in_any_form_are_one_failure() -> None:
    log = junit(failed(OTHER), message=True, cut=False, out=True, native=False)
    assert counted(log + "\n", OTHER)[:2] == (1, 1)


def test_other_failures_of_a_case_count() -> None:
    wide, narrow = failed(TRACED), failed(TRACED).replace("RuntimeError: ", "RuntimeError: another: ")
    assert wide != narrow
    for texts, expected in (((wide, narrow), 2), ((wide, narrow, wide), 2), ((wide, wide), 1)):
        log = "______ test_it ______\n" + "\n".join(texts) + "\n"
        assert counted(log)[:2] == (expected, expected)


def test_what_stays_unexplained_counts_once_in_a_case() -> None:
    log = junit(failed(TRACED), message=True, cut=False, out=True, native=False) + "\n"
    with archive.open(case("lowered_two.jit").path) as opened:
        explainer = LogExplainer.of(opened)
        assert b"".join(explainer.explain([log.encode()])) == log.encode()
    assert (explainer.explained, explainer.unknown, len(explainer.notes)) == (0, 1, 1)
