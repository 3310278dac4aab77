"""Lowered modules wherever they stand in a module tree, and the debug handles in their state."""

from __future__ import annotations

import json

import pytest

from archive.base.limits import DEFAULT_LIMITS
from archive.debuginfo.model import Global, Inert
from archive.formats.inert_values import class_names
from archive.formats.lowered import find_lowered

CLASS = Global("torch.jit", "LoweredModule.demo.__torch__.M")


def lowered(processed: object = None) -> Inert:
    return Inert(CLASS, (), (None, processed))


def module(state: object) -> Inert:
    return Inert(Global("__torch__", "M"), (), state)


def paths(root: object) -> list[str]:
    return list(find_lowered(root, DEFAULT_LIMITS.allowance(0)))


def handles(*texts: object) -> list[int]:
    (state,) = find_lowered(lowered(list(texts)), DEFAULT_LIMITS.allowance(0)).values()
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


def program(*instructions: object) -> str:
    methods = [{"instructions": [list(one) if isinstance(one, tuple) else one for one in instructions]}]
    return json.dumps({"version": 1, "operators": [], "methods": methods}, separators=(",", ":"))


def test_handles_stand_behind_a_mark_or_in_a_program() -> None:
    assert handles("x<debug_handle>7 y<debug_handle>11") == [7, 11]
    assert handles(program((0, 0, 0, 5), (0, 0, 0, 5), (0, 0, 0, 1 << 62))) == [5, 1 << 62]
    assert handles({"m": "<debug_handle>1"}, ("<debug_handle>2",), 3) == [1, 2]


@pytest.mark.parametrize(
    "broken",
    [
        '{"version":1,"operators":',
        '{"version":1,"operators":[]}',
        '{"version":1,"operators":[],"methods":3}',
        '{"version":1,"operators":[' + "[" * 100_000,
        program(3),
        program((0, 0)),
        program((0, 0, 0, -1), (0, 0, 0, 1 << 63), (0, 0, 0, True), (0, 0, 0, "1")),
    ],
    ids=range(7),
)
def test_a_broken_program_has_no_handles(broken: str) -> None:
    assert handles(broken) == []


def test_the_classes_of_all_objects_are_named_once() -> None:
    shared = module({"low": lowered()})
    root = module({"a": shared, "b": [shared, (Inert(3, (module(None),)),)], "c": {"d": module({})}})
    assert class_names(root) == {"__torch__.M", str(CLASS), ""}
    assert class_names([1, "a"]) == set()
