"""Recordings of a fixture's operations, written by hand, and the profiles made of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.corpus import ORACLES

pytest.importorskip("torch", exc_type=ImportError)


from archive.backend.profile.places import place_of
from archive.backend.profile.profile import Profile
from archive.backend.profile.timeline import Recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.profile.places import OperationPlace
    from archive.debuginfo.symbolicate import Symbolication

pytestmark = pytest.mark.torch


START = 10**15 + 7


UNKNOWN = -1


@cache
def known(name: str) -> dict[int, Symbolication]:
    with archive.open(ORACLES / f"{name}.ptl") as opened:
        return {handle: opened.symbolicate(handle) for handle in sorted([*opened.handles, UNKNOWN])}


def placing(name: str) -> Callable[[int], OperationPlace]:
    return lambda handle: place_of(known(name)[handle])


def handle(name: str, hierarchy: str) -> int:
    return next(one for one, meaning in known(name).items() if meaning.module_hierarchy.endswith(hierarchy))


FC_0 = handle("plain_stack", "0(Block)::forward.SELF(Block)::_inner.fc(Linear)::forward.aten::linear")


ADD_0 = handle("plain_stack", "0(Block)::forward.aten::add")


ADD_1 = handle("plain_stack", "1(Block)::forward.aten::add")


HEAD = handle("plain_stack", "head(Linear)::forward.aten::linear")


LOOP = handle("plain_stack", "<unknown>.prim::Loop")


HANDLES = [FC_0, ADD_0, ADD_1, HEAD, LOOP, UNKNOWN]


def recording(*operations: tuple[int, int, int, str]) -> Recording:
    return Recording("demo", [(START + start, START + end, at, op) for start, end, at, op in operations])


def profiled(made: Recording) -> Profile:
    return Profile(made, placing("plain_stack"))


def one_run() -> Profile:
    made = recording(
        (0, 4000, FC_0, "aten::linear"),
        (4500, 5000, ADD_0, "aten::add"),
        (5000, 6000, ADD_1, "aten::add"),
        (7000, 9000, HEAD, "aten::linear"),
        (9000, 9500, UNKNOWN, "aten::mul"),
    )
    made.memory = [
        (START + 100, FC_0, 4096, 4096, 0xF00),
        (START + 4600, ADD_0, 1024, 5120, 0xBA0),
        (START + 4700, ADD_0, -4096, 1024, 0xF00),
        (START + 9100, UNKNOWN, 10, 1034, 0),
    ]
    return profiled(made)


def traced(profile: Profile, phase: str, category: str | None = None) -> list[dict[str, Any]]:
    events = profile.chrome_trace()["traceEvents"]
    return [event for event in events if event["ph"] == phase and event.get("cat") == category]
