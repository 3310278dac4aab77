"""Statements of the model: the one that runs now, its range of the source, and the calls that lead to it."""

from __future__ import annotations

import dis
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

from archive.debuginfo.sites import SELF, CallStep, Site, Span
from archive.effects.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType


OWN_FOLDER = str(Path(__file__).parents[2]) + os.sep
TORCH_FOLDER = str(Path(torch.__file__).parent) + os.sep
TORCH_CHECKPOINT = str(Path(TORCH_FOLDER, "utils", "checkpoint.py"))
TORCH_MODULES = str(Path(TORCH_FOLDER, "nn", "modules")) + os.sep
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
INSTALLED = (sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep)
LOADS = ("LOAD_ATTR", "LOAD_METHOD")
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the model.

    Attributes:
        filename: of its source.
        line: in that file, from 1.
        span: its range; None where the source is not known.
        steps: the calls that lead to it, outermost first, without that of the captured method.
    """

    filename: str
    line: int
    span: Span | None
    steps: tuple[CallStep, ...] = ()

    def site(self, op: str) -> Site:
        """The site of an operation in this statement."""
        return Site(op, self.span, self.steps)


@dataclass(frozen=True, slots=True)
class Owner:
    """The module whose method runs.

    Attributes:
        number: its identity.
        type_name: its class, as TorchScript writes it.
        instance: the attribute that holds it.
    """

    number: int
    type_name: str
    instance: str


@cache
def of_model(filename: str) -> bool:
    """Whether a file's code belongs to a model; PyTorch's own modules do."""
    if filename.startswith(OWN_FOLDER):
        return False
    if filename.startswith(TORCH_FOLDER):
        return filename.startswith(TORCH_MODULES) and not filename.endswith("module.py")
    if filename.startswith(STANDARD_LIBRARY) and not filename.startswith(INSTALLED):
        return False
    return bool(linecache.getlines(filename)) or not filename.startswith("<")


def _frames(outermost: CodeType) -> Iterator[FrameType]:
    """The frames that run now, innermost first, up to the one that runs some code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outermost:
        yield frame
        frame = frame.f_back


def error_at(message: str, statement: Statement | None) -> CaptureError:
    """An error that names a statement of the model, if there is one."""
    return (
        CaptureError(message)
        if statement is None
        else CaptureError(message, statement.filename, statement.line)
    )


def is_recomputed(outermost: CodeType) -> bool:
    """Whether ``torch.utils.checkpoint`` will run the statement that runs now again, in backward.

    Args:
        outermost: the code that calls the model.
    """
    return any(frame.f_code.co_filename == TORCH_CHECKPOINT for frame in _frames(outermost))


def is_loading() -> bool:
    """Whether the Python code that has called this package loads an attribute; else C code has called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    return frame is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]] in LOADS


def model_frames(outermost: CodeType) -> list[FrameType]:
    """The frames of the model that run now, outermost first.

    Args:
        outermost: the code that calls the model.
    """
    return [frame for frame in _frames(outermost) if of_model(frame.f_code.co_filename)][::-1]


def here(frames: list[FrameType], owner_of: Callable[[FrameType], Owner | None]) -> Statement | None:
    """The statement that runs in the innermost of some frames; None if there is no frame.

    Args:
        frames: outermost first.
        owner_of: the module whose method a frame runs; None for functions.
    """
    return statement_in(frames, owner_of, _position(frames[-1])) if frames else None


Position = tuple[int, int, int, int]
"""First line, last line, first byte in the first line, end in the last line, in bytes."""


def statement_in(
    frames: list[FrameType],
    owner_of: Callable[[FrameType], Owner | None],
    position: Position | None,
    called: tuple[CodeType, Owner | None] | None = None,
) -> Statement:
    """A statement in the innermost of some frames, or in code that this frame has called.

    Args:
        frames: outermost first.
        owner_of: the module whose method a frame runs; None for functions.
        position: of the statement.
        called: the code that the statement is in, and its module, if the innermost frame has called it.
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
            steps.append(CallStep(inner.co_name, None, None, call))
        else:
            instance = SELF if outer is not None and outer.number == owner.number else owner.instance
            steps.append(CallStep(inner.co_name, owner.type_name, instance, call))
            outer = owner
    line = position[0] if position else code.co_firstlineno
    return Statement(code.co_filename, line, span_of(code, position), tuple(steps))


@cache
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def position_of(code: CodeType, instruction: int) -> Position | None:
    """The place of an instruction in the source; None where the code does not tell.

    Args:
        code: that has the instruction.
        instruction: its number, from 0.
    """
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
    """A position in some code as a range of the source; None where the source is not known."""
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
