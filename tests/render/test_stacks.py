"""``sizes --format folded`` and ``--format speedscope``: the lines and profiles sum to the files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import called, well
from tests.support.corpus import FIXTURES, KINDS
from tests.support.speedscope import problems
from tests.support.tampering import PLAIN, STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path

SIZED = [
    STACK,
    FIXTURES / "compiled" / "sources.pt2",
    FIXTURES / "companions" / "v2" / "compiled_profiled.pt2.mapped.ptdbg",
    KINDS / "checkpoint.pt",
]
LINE = re.compile(r"(.*?)((?: \d+)+)")
"""A stack and its numbers: ``flamegraph.pl`` takes each number that a blank parts from what is before."""


def folded(*arguments: object) -> dict[str, list[int]]:
    """The numbers of each stack, read as ``flamegraph.pl`` reads them."""
    matches = [LINE.fullmatch(line) for line in well("sizes", *arguments, "--format", "folded").splitlines()]
    stacks = {match[1]: [int(number) for number in match[2].split()] for match in matches if match}
    assert len(stacks) == len(matches), "each line is a stack of its own"
    return stacks


@pytest.mark.parametrize("path", SIZED, ids=lambda path: path.name)
@pytest.mark.parametrize("view", ["kind", "part", "record", "module", "source", "weights"])
def test_lines_sum_to_the_file(path: Path, view: str) -> None:
    numbers = folded(path, "--by", view).values()
    assert sum(number for (number,) in numbers) == path.stat().st_size
    assert all(number for (number,) in numbers)


def test_with_a_base_each_line_has_both_sizes(tmp_path: Path) -> None:
    new = tmp_path / "new.ptl"
    new.write_bytes(tampered(STACK, {PLAIN: None, "extra/x": b"12345"}))
    stacks = folded(new, "--base", STACK)
    assert [sum(column) for column in zip(*stacks.values(), strict=True)] == [
        STACK.stat().st_size,
        new.stat().st_size,
    ]
    assert stacks["other;extra;x;extra file"] == [0, 5]
    assert stacks["code;code;__torch__;plain.py;generated code"][1] == 0


def test_of_several_files_the_first_frame_is_the_file() -> None:
    sums: dict[str, int] = {}
    for stack, (size,) in folded(STACK, SIZED[1]).items():
        file = stack.partition(";")[0]
        sums[file] = sums.get(file, 0) + size
    assert sums == {str(path): path.stat().st_size for path in SIZED[:2]}


def test_names_break_neither_lines_nor_stacks_nor_numbers(tmp_path: Path) -> None:
    path = tmp_path / "m.ptl"
    names = {"extra/a;b\n\x1b[2J": b"x", "extra/kernel 3": b"12", "extra/\u202e": b"123"}
    path.write_bytes(tampered(STACK, dict(names)))
    stacks = folded(path, "--by", "record")
    assert stacks["other;extra;a:b\\n\\x1b[2J"] == [1]
    assert stacks["other;extra;kernel_3"] == [2]
    assert stacks["other;extra;\\u202e"] == [3]
    file = json.loads(well("sizes", path, "--by", "record", "--format", "speedscope"))
    shown = {frame["name"] for frame in file["shared"]["frames"]}
    assert {"a;b\\n\\x1b[2J", "kernel 3", "\\u202e"} <= shown


def test_speedscope_has_a_profile_for_each_file() -> None:
    file = json.loads(well("sizes", *SIZED, "--format", "speedscope"))
    assert problems(file) == []
    assert [(profile["name"], profile["unit"]) for profile in file["profiles"]] == [
        (str(path), "bytes") for path in SIZED
    ]
    assert [sum(profile["weights"]) for profile in file["profiles"]] == [
        path.stat().st_size for path in SIZED
    ]
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    stacks = {
        ";".join(frames[frame] for frame in sample): [weight]
        for sample, weight in zip(file["profiles"][0]["samples"], file["profiles"][0]["weights"], strict=True)
    }
    assert stacks == folded(STACK)


def test_speedscope_compares_nothing() -> None:
    done = called("sizes", STACK, "--base", STACK, "--format", "speedscope")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--format folded does" in done.stderr


def test_budgets_are_judged_beside_stacks() -> None:
    done = called("sizes", STACK, "--format", "folded", "--budget", "1KB")
    assert done.exit_code == 1
    assert "1,000" in done.stderr
