"""Runs a module in eager PyTorch, and notes the values of each operation at the line that calls it."""

from __future__ import annotations

import linecache
import sys
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from archive.backend.values.observing import Observer, Recorder
from archive.base.source_files import is_no_models
from archive.debuginfo.profiles.places import ModuleLevel, OperationPlace
from archive.debuginfo.source_lines import SourceLine
from archive.reader.lookups.nodes import TOP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from archive.backend.values.observing import KeptValues
    from archive.debuginfo.values.observed import Observed

    Line = tuple[str, int]
    Lines = tuple[Line | None, Line | None]

EAGER = "eager"
OWN = __file__.rpartition("/")[0]


def observe_eager(
    module: torch.nn.Module, inputs: Sequence[object], named: Mapping[str, object], values: KeptValues | None
) -> Observed:
    """Run a module once, in the mode that it is in."""
    levels = {each: _levels(module, name) for name, each in module.named_modules()}
    entered: list[tuple[ModuleLevel, ...]] = [levels[module]]
    found: list[tuple[Lines, tuple[ModuleLevel, ...]]] = []
    recorder = Recorder(EAGER, values)
    recorder.note_inputs((inputs, named))
    hooks = [
        register_module_forward_pre_hook(lambda called, _: entered.append(levels.get(called, entered[-1]))),
        register_module_forward_hook(lambda *_: _left(entered), always_call=True),
    ]
    try:
        with Observer(recorder, lambda _: found.append((_lines(), entered[-1]))):
            result = module(*inputs, **named)
    finally:
        for hook in hooks:
            hook.remove()
    recorder.note_outputs(result)
    return recorder.finish(
        [(_place(lines, levels, op), None) for (lines, levels), op in zip(found, recorder.ops, strict=True)]
    )


def _left(entered: list[tuple[ModuleLevel, ...]]) -> None:
    """Leave a module that has returned or raised; a hook that returned anything would replace its result."""
    entered.pop()


def _levels(top: torch.nn.Module, path: str) -> tuple[ModuleLevel, ...]:
    """The modules that lead to one, the top module first; lists of modules are part of a step."""
    made, module, step = [ModuleLevel(f"{TOP}({type(top).__name__})", "")], top, ""
    at = ""
    for name in filter(None, path.split(".")):
        module = getattr(module, name)
        at, step = f"{at}.{name}".removeprefix("."), f"{step}.{name}".removeprefix(".")
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            made.append(ModuleLevel(at, type(module).__name__, step))
            step = ""
    return tuple(made)


def _lines() -> Lines:
    """The innermost line of the call stack that is the model's, and the innermost one."""
    frame: FrameType | None = sys._getframe(1)
    innermost = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(OWN):
            here = file, frame.f_lineno
            innermost = innermost or here
            if not _is_foreign(file):
                return here, innermost
        frame = frame.f_back
    return None, innermost


@cache
def _is_foreign(file: str) -> bool:
    return is_no_models(file)


@cache
def _place(lines: Lines, levels: tuple[ModuleLevel, ...], op: str) -> OperationPlace:
    own, innermost = (None if line is None else _source_line(*line) for line in lines)
    return OperationPlace(levels, f"{'.'.join(map(str, levels))}.{op}", own, innermost, op)


def _source_line(file: str, number: int) -> SourceLine:
    return SourceLine(file, number, linecache.getline(file, number).strip())
