"""The sites of nodes: source ranges and calls, made of each node's stack trace and module stack.

A stack trace has the frames of functions; a module stack has the modules whose ``forward`` was running, but
no lines. A call stack needs both, so each module is given the frame of its ``forward``. Non-strict export
keeps the frames of PyTorch's own modules, strict export leaves them out: such a module is called at no known
line, and what it computes is at the line of the innermost frame.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from functools import cache
from types import CodeType, MethodType
from typing import TYPE_CHECKING, NamedTuple

from archive.base.source_files import is_pytorchs
from archive.debuginfo.sites import FX_FILE, CallStep, Site, Span, torchscript_name
from archive.formats.exported.traces import parse_trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from archive.formats.exported.traces import TraceFrame

FORWARD = "forward"
FEW_LINES = 2
"""Lines of the file on each side of a line that is in no function."""


class TracedModule(NamedTuple):
    """A module whose ``forward`` was running: its path from the top module, and its class, as in Python."""

    path: str
    class_name: str


def module_stack(node: Any) -> tuple[TracedModule, ...]:  # noqa: ANN401 (a torch.fx.Node)
    """The modules whose ``forward`` was running when a node was made, outermost first."""
    recorded: Mapping[str, tuple[str, str | type]] = node.meta.get("nn_module_stack") or {}
    return tuple(
        TracedModule(path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
        for path, kind in recorded.values()
    )


class Sites:
    """Makes the sites of nodes; nodes of one statement share span and steps."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[TracedModule, ...]], Site] = {}
        self._spans: dict[TraceFrame, Span] = {}
        self._forward_of = cache(_forward_of)  # a class may be replaced before the next program

    def of(self, node: Any, op: str) -> Site:  # noqa: ANN401 (a torch.fx.Node)
        """The site of a node that runs an operator; without a trace, that of a node that takes its result."""
        traced = next((each for each in (node, *node.users) if each.meta.get("stack_trace")), node)
        key = traced.meta.get("stack_trace") or "", module_stack(traced)
        if key not in self._known:
            trace = parse_trace(key[0])
            frames = [frame for frame in trace.frames if not frame.file.startswith(FX_FILE)] if trace else []
            self._known[key] = self._site(frames, key[1])
        known = self._known[key]
        return Site(op, known.span, known.steps)

    def _site(self, frames: Sequence[TraceFrame], modules: Sequence[TracedModule]) -> Site:
        """Span and calls of some frames and modules, without an operator."""
        running = _running(frames, [self._forward_of(module.class_name) for module in modules])
        own = (number for number, frame in enumerate(frames) if not is_pytorchs(frame.file))
        tops = [number for number, module in running.items() if module == 0]
        (first,) = tops or [next(own, 0)]
        steps: list[CallStep] = []
        span, entered = None, 1  # modules

        def call(number: int, function: str = FORWARD, at: Span | None = None) -> CallStep:
            """The call of a module's function, at a line of the module around it."""
            inner, outer = modules[number], modules[number - 1]
            instance = inner.path.removeprefix(f"{outer.path}." if outer.path else "")
            return CallStep(function, torchscript_name(inner.class_name), instance, at)

        for number, frame in enumerate(frames[first:], first):
            module = running.get(number)
            if module:
                steps += [*map(call, range(entered, module)), call(module, frame.function, span)]
                entered = module + 1
            elif number > first:
                steps.append(CallStep(frame.function, None, None, span))
            if frame not in self._spans:
                self._spans[frame] = _span(frame)
            span = self._spans[frame]
        steps += map(call, range(entered, len(modules)))
        return Site("", span, tuple(steps))


# --- which frame runs which module


def _running(frames: Sequence[TraceFrame], codes: Sequence[CodeType | None]) -> dict[int, int]:
    """The number of the module whose ``forward`` a frame runs, by the number of the frame.

    The code of a module's ``forward`` identifies its frame. Where that is not known (a class in a function, a
    program from another machine), the remaining frames named ``forward`` belong to the remaining modules, if
    there are as many.
    """
    by_module: dict[int, int] = {}
    unknown: list[int] = []
    files = {frame.file for frame in frames}
    first_free = 0
    for number, code in enumerate(codes):
        if code is None or not (code.co_filename in files or is_pytorchs(code.co_filename)):
            unknown.append(number)
            continue
        fitting = (place for place in range(first_free, len(frames)) if _runs(frames[place], code))
        if (place := next(fitting, None)) is not None:
            by_module[number] = place
            first_free = place + 1
    left = [
        place
        for place, frame in enumerate(frames)
        if frame.function == FORWARD and place not in by_module.values() and not is_pytorchs(frame.file)
    ]
    if len(left) == len(unknown):
        both = by_module | dict(zip(unknown, left, strict=True))
        places = [both[number] for number in sorted(both)]
        by_module = both if places == sorted(places) else by_module
    return {place: number for number, place in by_module.items()}


def _forward_of(class_name: str) -> CodeType | None:
    """The code of a class's ``forward``, if this process has imported the class."""
    names = class_name.split(".")
    for end in range(len(names) - 1, 0, -1):
        value: Any = sys.modules.get(".".join(names[:end]))
        for name in names[end:] if value is not None else ():
            value = getattr(value, name, None)
        forward = getattr(value, FORWARD, None)
        if forward is not None:
            inner = inspect.unwrap(forward.__func__ if isinstance(forward, MethodType) else forward)
            code = getattr(inner, "__code__", None)
            return code if isinstance(code, CodeType) else None
    return None


def _runs(frame: TraceFrame, code: CodeType) -> bool:
    if (frame.file, frame.function) != (code.co_filename, code.co_name):
        return False
    last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return code.co_firstlineno <= frame.line <= last


# --- source


def _span(frame: TraceFrame) -> Span:
    """The range of the source that a frame runs: its line, or the part of the line that is marked.

    The text is that of the function, as TorchScript has it. Where the file is not here or has changed, it is
    the line in the trace.
    """
    code = (frame.code or "").split("\n")[0]
    lines = linecache.getlines(frame.file)
    text = lines[frame.line - 1] if 0 < frame.line <= len(lines) else ""
    if code and text.strip() == code.strip():
        first, block = _block(lines, frame.line, frame.function)
    else:
        first, block = frame.line, [f"    {code}\n"]
    encoded = [line.encode("utf-8", "surrogateescape") for line in block]
    line = encoded[frame.line - first]
    start = sum(map(len, encoded[: frame.line - first])) + len(line) - len(line.lstrip())
    end = start + len(line.strip())
    if frame.mark is not None and line.isascii():
        start += frame.mark.start
        end = start + frame.mark.before + frame.mark.carets + frame.mark.after
    return Span(b"".join(encoded), frame.file.encode("utf-8", "surrogateescape"), first, start, end)


def _block(lines: Sequence[str], line: int, function: str) -> tuple[int, Sequence[str]]:
    """The number of the first line, and the lines, of the function that a line is in; else of a few lines."""
    head = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(function)}\b")
    for first in range(line, 0, -1):
        if head.match(lines[first - 1]):
            block = inspect.getblock(lines[first - 1 :])
            if line < first + len(block):
                return first, block
    first = max(line - FEW_LINES, 1)
    return first, lines[first - 1 : line + FEW_LINES]
