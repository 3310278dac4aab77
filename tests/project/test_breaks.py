"""``python -m tools.breaks``: faults of a small tree, caught and not, and the table of equivalent ones."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.break_faults import faults
from tools.breaks import ROOT, equivalents, folder_of_tests, further_of

SOURCE = """\
def largest(a, b):
    return a if a > b else b


class Cup:
    size = 3

    def full(self, amount):
        return amount >= self.size
"""
TESTS = """\
from archive.rooms.cups.cup import Cup, largest

def test_the_largest_of_two():
    assert (largest(1, 2), largest(2, 1)) == (2, 2)

def test_a_cup():
    assert Cup().full(4)
    assert not Cup().full(2)
"""
BEYOND = """\
from archive.rooms.cups.cup import Cup

def test_a_cup_filled_to_the_brim_is_full():
    assert Cup().full(3)
"""
CUP = "archive/rooms/cups/cup.py"
EQUAL = f"{CUP}\tlargest\ta > b -> (a >= b)\tof equal numbers either is the largest\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project with one room, ``rooms/cups``."""
    for path, text in {
        "archive/__init__.py": "",
        CUP: SOURCE,
        "tests/rooms/cups/test_cup.py": TESTS,
        "tests/beyond/test_brim.py": BEYOND,
        "tools/equivalent_faults.tsv": EQUAL,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


STUCK = """
import pathlib, time

runs = pathlib.Path(__file__).with_name("runs")
with runs.open("a") as times:
    times.write("x")
if len(runs.read_text()) > 2:
    time.sleep(600)
"""
"""Tests that pass before anything is broken, run once more, and then come to no end."""


def started(tree: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tools.breaks",
            "--root",
            str(tree),
            "rooms/cups",
            "--count",
            "99",
            *arguments,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_survivors_are_listed_by_what_names_them_and_the_tree_stays(tree: Path) -> None:
    run = started(tree)
    told, progress = run.communicate()
    *verdicts, one, other, counts = told.splitlines()
    assert sorted([one, other]) == [
        f"{CUP}\tCup\t3 -> 4",
        f"{CUP}\tCup.full\tamount >= self.size -> (amount > self.size)",
    ]
    assert (counts, run.returncode) == ("5 drawn, 3 caught, 2 survive", 1)
    assert sorted(line.partition("\t")[0] for line in verdicts) == 2 * ["SURVIVED"] + 3 * ["caught"]
    assert progress.splitlines()[-1] == "rooms/cups: 5 of 5, 2 survive"
    assert (tree / CUP).read_text() == SOURCE


def test_further_tests_run_where_a_rooms_own_pass(tree: Path) -> None:
    run = started(tree, "--further", "tests/beyond")
    told, _ = run.communicate()
    assert (told.splitlines()[-1], run.returncode) == ("5 drawn, 5 caught, 0 survive", 0)


def test_nothing_is_broken_where_a_further_test_fails(tree: Path) -> None:
    (tree / "tests/beyond/test_brim.py").write_text("def test_brim():\n    assert 2 + 2 == 5\n")
    told, problem = started(tree, "--further", "tests/beyond").communicate()
    assert told == ""
    assert "tests fail before anything is broken: tests/beyond/test_brim.py::test_brim: assert" in problem


def test_an_interruption_tells_what_is_known(tree: Path) -> None:
    with (tree / "tests/rooms/cups/test_cup.py").open("a") as tests:
        tests.write(STUCK)
    run = started(tree)
    assert run.stdout is not None
    first = run.stdout.readline()
    run.send_signal(signal.SIGINT)
    rest, _ = run.communicate()
    assert first.startswith(("caught\t", "SURVIVED\t"))
    assert " drawn, " in rest.splitlines()[-1]
    assert not rest.startswith("5 drawn")
    assert run.returncode == 130


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (EQUAL.replace("largest", "smallest", 1), f"no such fault: {CUP} smallest a > b -> (a >= b)"),
        (EQUAL.replace("a >= b", "a > b"), f"no such fault: {CUP} largest a > b -> (a > b)"),
        (
            EQUAL.replace("cup.py", "pot.py"),
            "no such fault: archive/rooms/cups/pot.py largest a > b -> (a >= b)",
        ),
        (EQUAL + EQUAL, "line 2 is not sorted in"),
        (EQUAL.rpartition("\t")[0] + "\n", "line 1 has not four columns"),
    ],
)
def test_a_line_about_no_possible_fault_is_refused(tree: Path, table: str, problem: str) -> None:
    (tree / "tools/equivalent_faults.tsv").write_text(table)
    with pytest.raises(SystemExit, match=f"^{re.escape(f'tools/equivalent_faults.tsv: {problem}')}$"):
        equivalents(tree)


def test_the_table_of_this_project_is_about_possible_faults() -> None:
    assert equivalents(ROOT) != set()


def test_like_changes_of_one_function_are_told_apart(tree: Path) -> None:
    (tree / CUP).write_text("class A:\n    def f(self):\n        return g(0, 0)\n\nclass B:\n    f = h(0)\n")
    assert [(one.function, one.change) for one in faults(tree, Path(CUP))] == [
        ("A.f", "return g(0, 0) -> return None"),
        ("A.f", "0 -> 1 (1 of 2)"),
        ("A.f", "0 -> 1 (2 of 2)"),
        ("B", "0 -> 1"),
    ]


def test_what_is_compared_and_computed_stays_whole(tree: Path) -> None:
    (tree / CUP).write_text("def f(a, b):\n    return (a == 0) & ~b, (a in b) != (b in a), (a + b) // 2\n")
    changes = [one.change.partition(" -> ")[2] for one in faults(tree, Path(CUP))]
    assert {"((a == 0) | ~b)", "((a in b) == (b in a))", "((a + b) * 2)"} <= set(changes)


def test_a_room_is_tested_by_the_nearest_folder_of_tests(tree: Path) -> None:
    assert (
        folder_of_tests(tree, "rooms/cups")
        == folder_of_tests(tree, "rooms/cups/deeper")
        == "tests/rooms/cups"
    )
    assert folder_of_tests(ROOT, "formats/compiled") == "tests/formats"
    assert further_of(ROOT, "formats/compiled", []) == further_of(ROOT, "formats", []) != []
    with pytest.raises(SystemExit, match="no folder of tests/"):
        folder_of_tests(tree, "pickles")
