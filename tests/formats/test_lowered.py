"""Lowered modules wherever they stand in a module tree, and the debug handles in their state."""

from __future__ import annotations

import json

import pytest

from archive.base import memory
from archive.base.errors import LimitError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.formats.blob_programs import LONGEST_PROGRAM, MEMORY_PER_CHARACTER, VERSIONS
from archive.formats.inert_values import class_names
from archive.formats.lowered import find_lowered, without_handles
from archive.pickles.values import Global, Inert

CLASS = Global("torch.jit", "LoweredModule.demo.__torch__.M")


def lowered(processed: object = None) -> Inert:
    return Inert(CLASS, (), (None, processed))


def module(state: object) -> Inert:
    return Inert(Global("__torch__", "M"), (), state)


def paths(root: object) -> list[str]:
    return list(find_lowered(root))


def handles(*texts: object) -> list[int]:
    (state,) = find_lowered(lowered(list(texts))).values()
    return list(state.handles)


@pytest.mark.parametrize(
    ("root", "found"),
    [
        (lowered(), [""]),
        (module({"a": lowered(), "b": module({"c": lowered()})}), ["a", "b.c"]),
        (module({"blocks": [module({}), lowered()]}), ["blocks[1]"]),
        (module({"by name": {"x": lowered(), 2: (lowered(),)}}), ["by name['x']", "by name[2][0]"]),
        (module((lowered(), 1)), ["[0]"]),
        (module(module({"a": lowered()})), ["state.a"]),
        (module({"a": Inert(CLASS, (), (1, 2, 3, 4)), "b": Inert("no class", (), (1, 2))}), []),
    ],
)
def test_a_lowered_module_is_found_by_its_path(root: object, found: list[str]) -> None:
    assert paths(root) == found


def program(*instructions: object, version: int = VERSIONS[0]) -> str:
    methods = [{"instructions": [list(one) if isinstance(one, tuple) else one for one in instructions]}]
    return json.dumps({"version": version, "operators": [], "methods": methods}, separators=(",", ":"))


def at(handle: object) -> tuple[object, ...]:
    """An instruction with a handle."""
    return 0, [1], [0], handle, None


def test_handles_stand_behind_a_mark_or_in_a_program() -> None:
    assert handles("x<debug_handle>7 y<debug_handle>11") == [7, 11]
    for version in VERSIONS:
        assert handles(program(at(5), at(5), at(-1), at(1 << 62), version=version)) == [5, 1 << 62]
    assert handles({"m": "<debug_handle>1"}, ("<debug_handle>2",), 3) == [1, 2]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ('{"version":1,"operators":', "a broken program"),
        ('{"version":1,"operators":[]}', "a broken program"),
        ('{"version":1,"operators":[],"methods":3}', "a broken program"),
        ('{"version":1,"operators":[' + "[" * 100_000, "a broken program"),
        (program(3), "a broken program"),
        (program((0, 0)), "a broken program"),
        (program((0, [1], [0], 5)), "a broken program"),
        *[(program(at(handle)), "a broken program") for handle in (-2, 1 << 63, True, "1")],
        (program(at(5), version=9), "a program of version 9, not 1 or 2"),
        (program(at(5), version=0), "a program of version 0, not 1 or 2"),
        (program(at(5)) + " " * LONGEST_PROGRAM, f"a program of more than {LONGEST_PROGRAM:,} characters"),
    ],
    ids=range(14),
)
def test_why_the_handles_of_a_program_cannot_be_read_is_known(broken: str, why: str) -> None:
    (state,) = find_lowered(lowered([broken, "<debug_handle>7"])).values()
    assert (list(state.handles), state.unread) == ([7], why)
    assert without_handles(broken) == broken


def test_programs_that_differ_in_handles_alone_are_equal_without_them() -> None:
    with memory.charged(DEFAULT_LIMITS.allowance(0)):
        one, two, other = (program(*map(at, some)) for some in ((5, -1), (6, -1), (6, 5)))
        assert without_handles(one) == without_handles(two)
        assert without_handles(one) != without_handles(other)


def test_reading_a_program_asks_for_its_memory_first() -> None:
    text = program(*map(at, range(1000)))
    with (
        memory.charged(Limits(memory=MEMORY_PER_CHARACTER * len(text)).allowance(0)),
        pytest.raises(LimitError),
    ):
        find_lowered(lowered(text))


def test_the_classes_of_all_objects_are_named_once() -> None:
    shared = module({"low": lowered()})
    root = module({"a": shared, "b": [shared, (Inert(3, (module(None),)),)], "c": {"d": module({})}})
    assert class_names(root) == {"__torch__.M", str(CLASS), ""}
    assert class_names([1, "a"]) == set()
