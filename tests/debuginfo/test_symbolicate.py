"""Handles become the very texts that PyTorch printed, on the release that wrote the archive and on 2.13."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive import ArchiveError, LimitError, Limits, Style
from archive.base.source_files import is_pytorchs
from tests.support.corpus import ORACLES, RELEASES
from tests.support.plain import archive_of
from tests.support.sampling import Suite, sampled
from tests.support.strategies import PROTO, STOP, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive import Archive

START = "Module hierarchy"
NOT_FOUND = re.compile(r"Debug info for handle\(s\): debug_handles:\{(-?\d+)\}, was not found\.")
CASES = [
    *("lowered_dtype", "lowered_free_function", "lowered_multiline", "lowered_self_helper", "lowered_shape"),
    *("lowered_shape_inline_ranges", "lowered_two", "lowered_two_second_fails", "lowered_wrapper_on_top"),
    *("plain_branches", "plain_free_functions", "plain_stack", "plain_stack_inline_ranges"),
    *("plain_two_methods", "plain_unicode", "traced_stack", "traced_stack_inline_ranges"),
]


def from_hierarchy(error: str) -> bytes:
    """The symbolicated part of an error, without what PyTorch puts behind it."""
    return error[error.index(START) :].encode().removesuffix(b"\n  ")


def readings(digits: str) -> Iterator[list[int]]:
    """One handle, or two: PyTorch prints them without anything between."""
    yield [int(digits)]
    for at in range(1, len(digits)):
        yield [int(digits[:at]), int(digits[at:])]


def test_there_is_a_text_for_every_case() -> None:
    assert sorted(
        path.name.removesuffix(".stripped.txt") for path in ORACLES.glob("*.stripped.txt")
    ) == sorted([*CASES, *(f"{case}.jit" for case in CASES)])


@pytest.mark.parametrize("case", CASES)
def test_the_oracles_text_comes_out_of_the_handles_in_the_stripped_one(case: str) -> None:
    stripped = (ORACLES / f"{case}.stripped.txt").read_text()
    expected = from_hierarchy((ORACLES / f"{case}.txt").read_text())
    found = NOT_FOUND.search(stripped)
    assert found
    with archive.open(ORACLES / f"{case}.ptl") as opened:
        known = [
            handles for handles in readings(found[1]) if all(handle in opened.handles for handle in handles)
        ]
        said = [handles for handles in known if bytes(opened.symbolicate(handles)) == expected]
        assert len(said) == 1
        assert len(said[0]) == (2 if case.startswith("lowered") else 1)


def errors(answer: dict[str, Any]) -> list[str]:
    """The symbolicated errors of the lite interpreter in one entry of a ``made.json``."""
    texts = [answer.get("lite_error", ""), answer.get("lite_result_error", "")]
    texts += [one["error"] for one in answer.get("lite_errors", [])]
    return [text for text in texts if START in text]


def explained(opened: Archive, error: str, style: Style) -> str | None:
    """Which handles give the text: one, or one inside a lowered module with one outside."""
    expected = from_hierarchy(error)
    if any(bytes(opened.symbolicate(handle, style)) == expected for handle in opened.handles):
        return "one handle"
    inside = [handle for state in opened.lowered.values() for handle in state.handles]
    pairs = itertools.product(inside, opened.handles)
    if any(bytes(opened.symbolicate(pair, style)) == expected for pair in pairs):
        return "two handles"
    return None


def check_all(answers: dict[Path, dict[str, Any]], expected: dict[str, int]) -> None:
    """Explain what was said of archives; of a sample, each release and each model is there."""
    count: Counter[str | None] = Counter()
    for path in sampled(answers, most=60, by=(attrgetter("parent.name"), attrgetter("stem"))):
        answer = answers[path]
        style = Style.V1_9 if path.parent.name == "torch-1.9.0" else Style.CURRENT
        texts = errors(answer)
        if texts:
            with archive.open(path) as opened:
                count.update(explained(opened, text, style) for text in texts)
    assert count.keys() == expected.keys()
    assert count == expected or not Suite.whole


def test_what_each_release_said_of_its_own_archives() -> None:
    answers = {
        made.parent / entry["file"]: entry["oracle"]
        for made in RELEASES.glob("*/made.json")
        for entry in json.loads(made.read_text())["files"]
        if "oracle" in entry
    }
    check_all(answers, {"one handle": 161, "two handles": 16})


def test_what_pytorch_2_13_says_of_all_archives() -> None:
    # none of 1.9.0's: 2.13 does not load their call-stack maps
    answers = json.loads((RELEASES / "oracle-2.13.0.json").read_text())
    found = {RELEASES / name: answer for name, answer in answers.items()}
    check_all(found, {"one handle": 166, "two handles": 16})


def test_pytorch_1_9_had_no_name_for_classes_that_the_archive_lacks() -> None:
    with archive.open(RELEASES / "torch-1.9.0" / "frozen.ptl") as opened:
        (handle, *_) = (
            handle
            for handle, entry in opened.handles.items()
            if [call.module and str(call.module.instance) for call in entry.stack] == ["first"]
        )
        old, new = opened.symbolicate(handle, Style.V1_9), opened.symbolicate(handle)
        assert old.module_hierarchy == "top(Stack).(UNKNOWN_INSTANCE(UNKNOWN_TYPE)"
        assert new.module_hierarchy == "top(Stack)::<unknown>.first(Affine)::FunctionName_UNKNOWN."
    with archive.open(RELEASES / "torch-1.9.0" / "nested.ptl") as opened:
        said = {opened.symbolicate(handle, Style.V1_9).module_hierarchy for handle in opened.handles}
        assert "top(Stack).first(Affine)" in said
        assert not any("UNKNOWN_TYPE" in one for one in said)


def test_unknown_handles_are_pytorchs_line_about_them() -> None:
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        known = next(iter(opened.handles))
        for handles, missing in (([9001], (9001,)), ([known, 9001], (9001,)), ([-1], (-1,))):
            found = opened.symbolicate(handles)
            assert (found.missing, found.frames, found.entries, found.steps) == (missing, (), (), 0)
            joined = "".join(map(str, handles))
            assert str(found) == f"Debug info for handle(s): debug_handles:{{{joined}}}, was not found."
    with archive.open(ORACLES / "plain_stack.pt") as opened:
        assert opened.symbolicate(7).missing == (7,)


def test_what_a_symbolication_holds() -> None:
    with archive.open(ORACLES / "lowered_shape.ptl") as opened:
        found = opened.symbolicate([1, 26])
        assert found.handles == (1, 26)
        assert [entry.handle for entry in found.entries] == [1, 26]
        assert [frame.function for frame in found.frames] == [
            b"<unknown>",
            b"forward",
            b"forward",
            b"<unknown>",
            b"forward",
        ]
        assert [frame.range and frame.range.line for frame in found.frames] == [23, 3, 5, 10, 4]
        assert str(found) == f"Module hierarchy:{found.module_hierarchy}\n" + (
            "Traceback of TorchScript (most recent call last):\n" + "".join(map(str, found.frames))
        )


def test_names_that_are_no_utf_8_are_shown_escaped() -> None:
    module = text(b"__torch__.\xffNet") + text(b"\xfe") + b"\x86"
    row = b"(K\x07K\x00" + text(b"aten::\xfd") + b"(" + module + b"K\x00N" + text(b"f\xfc") + b"tt"
    with archive_of(callstack_debug_map=PROTO + row + b"\x85" + STOP, data=PROTO + b"N" + STOP) as opened:
        found = opened.symbolicate(7)
        assert found.module_hierarchy == "top()::<unknown>.\\xfe(\\xffNet)::f\\xfc.aten::\\xfd"
        assert found.module_hierarchy in str(found)


def test_a_symbolication_cannot_grow_without_bounds() -> None:
    path = ORACLES / "plain_stack.ptl"
    place = r"plain_stack\.ptl: debug handle 1445: output is limited to 1,500, found [0-9,]+"
    with archive.open(path, limits=Limits(output=1_500)) as opened:
        with pytest.raises(LimitError, match=place):
            opened.symbolicate(1445)
        assert opened.symbolicate(1416).frames


def test_no_handles_are_an_error() -> None:
    with archive.open(ORACLES / "plain_stack.ptl") as opened, pytest.raises(ArchiveError, match="no handles"):
        opened.symbolicate([])


def test_the_models_own_line_is_the_innermost_that_is_not_pytorchs() -> None:
    """Of all handles, the line that a loop over frames finds; of traced models, source is a Python stack."""
    own = 0
    for path in sorted({*ORACLES.glob("*.ptl")} - {*ORACLES.glob("traced_*")}):
        with archive.open(path) as opened:
            for handle in opened.handles:
                found = opened.symbolicate(handle)
                places = [
                    (str(frame.range.source.filename), frame.range.line)
                    for frame in found.frames
                    if frame.range and frame.range.source.filename is not None
                ]
                places = [place for place in places if not place[0].startswith("<") and place[0]]
                models = [place for place in places if not is_pytorchs(place[0])] or places
                line = found.source_line
                assert (line and [(line.file, line.number)]) == (models[-1:] or None)
                own += line is not None
    assert own > 100


def test_an_unknown_handle_has_no_line() -> None:
    with archive.open(ORACLES / "plain_unicode.ptl") as opened:
        assert opened.symbolicate(10**6).source_line is None
