"""Which statement of the model runs now: its range of the source, and the calls that lead there."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from archive.debuginfo.sites import Site, Span, Step

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

OWN = str(Path(__file__).parents[1]) + os.sep
OUTERMOST = str(Path(__file__).with_name("run.py"))
LIBRARY = str(Path(torch.__file__).parent) + os.sep
CHECKPOINT = str(Path(LIBRARY, "utils", "checkpoint.py"))
MODULES = str(Path(LIBRARY, "nn", "modules")) + os.sep
STANDARD = sysconfig.get_path("stdlib") + os.sep
PACKAGES = (sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep)
SELF = "SELF"
"""What holds a module where it is the one that calls, as TorchScript has it."""

COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of the model.

    Attributes:
        filename: of its source.
        line: in that file, from 1.
        span: its range; None where the source is not known.
        steps: the calls on the way, outermost first, without that of the captured method.
    """

    filename: str
    line: int
    span: Span | None
    steps: tuple[Step, ...] = ()

    def site(self, op: str) -> Site:
        """The same for an operation."""
        return Site(op, self.span, self.steps)


@dataclass(frozen=True, slots=True)
class Owner:
    """The module whose method runs.

    Attributes:
        number: tells modules apart.
        type_name: its class, as TorchScript writes it.
        instance: the attribute that holds it.
    """

    number: int
    type_name: str
    instance: str


@cache
def of_model(filename: str) -> bool:
    """Whether a file's code belongs to a model; PyTorch's own modules do."""
    if filename.startswith(OWN):
        return False
    if filename.startswith(LIBRARY):
        return filename.startswith(MODULES) and not filename.endswith("module.py")
    if filename.startswith(STANDARD) and not filename.startswith(PACKAGES):
        return False
    return bool(linecache.getlines(filename)) or not filename.startswith("<")


def is_recomputed() -> bool:
    """Whether what runs now is run again on the way back."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != OUTERMOST:
        if frame.f_code.co_filename == CHECKPOINT:
            return True
        frame = frame.f_back
    return False


def model_frames() -> list[FrameType]:
    """The frames of the model that run now, outermost first."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if filename == OUTERMOST:
            break
        if of_model(filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def here(owner_of: Callable[[FrameType], Owner | None]) -> Place | None:
    """The statement that runs now.

    Args:
        owner_of: the module whose method a frame runs; None for functions.
    """
    frames = model_frames()
    if not frames:
        return None
    return place(frames, owner_of, _position(frames[-1]))


Position = tuple[int, int, int, int]
"""First line, last line, first byte in the first one, the byte behind the last in the last one."""


def place(
    frames: list[FrameType],
    owner_of: Callable[[FrameType], Owner | None],
    position: Position | None,
    called: tuple[CodeType, Owner | None] | None = None,
) -> Place:
    """A statement of the innermost of some frames.

    Args:
        frames: outermost first.
        owner_of: the module whose method a frame runs; None for functions.
        position: of the statement.
        called: code that the innermost frame has called, if the statement is in there, and its module.
    """
    calls = [(frame.f_code, owner_of(frame)) for frame in frames]
    code, _ = called or calls[-1]
    steps = []
    outer = calls[0][1] if calls else None
    for caller, (inner, owner) in zip(frames, [*calls[1:], *([called] if called else [])], strict=False):
        if inner.co_name in COMPREHENSIONS:
            continue
        call = span_of(caller.f_code, _position(caller))
        if owner is None:
            steps.append(Step(inner.co_name, None, None, call))
        else:
            instance = SELF if outer is not None and outer.number == owner.number else owner.instance
            steps.append(Step(inner.co_name, owner.type_name, instance, call))
            outer = owner
    line = position[0] if position else code.co_firstlineno
    return Place(code.co_filename, line, span_of(code, position), tuple(steps))


@cache
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def position_of(code: CodeType, instruction: int) -> Position | None:
    """Where an instruction of some code stands, by its number."""
    positions = _positions(code)
    line, last, start, end = positions[instruction] if instruction < len(positions) else (None,) * 4
    if line is None:
        return None
    if last is None or start is None or end is None:
        text = linecache.getline(code.co_filename, line).encode()
        return line, line, len(text) - len(text.lstrip()), len(text.rstrip())
    return line, last, start, end


def _position(frame: FrameType) -> Position | None:
    return position_of(frame.f_code, frame.f_lasti // 2)


@cache
def span_of(code: CodeType, position: Position | None) -> Span | None:
    """A range of some code's source; None where the source is not known."""
    lines = linecache.getlines(code.co_filename)
    if position is None or not lines:
        return None
    line, last, start, end = position
    first = min(code.co_firstlineno, line)
    block = inspect.getblock(lines[first - 1 :])
    block = lines[first - 1 : max(first - 1 + len(block), last)]
    encoded = [one.encode() for one in block]
    before = [0]
    for one in encoded:
        before.append(before[-1] + len(one))
    return Span(
        b"".join(encoded),
        code.co_filename.encode("utf-8", "surrogateescape"),
        first,
        before[line - first] + start,
        before[last - first] + end,
    )
