"""The first line of the model where the captured form behaves differently from the module."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode

from archive.effects.capture.graph.sites import is_of_pytorch, line_of, of_model
from archive.effects.trial.parts import Before, Names, digest, parts
from archive.formats.effects.source_text import effect_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from archive.effects.capture.table.side_effects import Flat
    from archive.effects.trial.parts import Path

Line = tuple[str, int]
NOWHERE: Line = ("", 0)

# --- operations


class Operations(TorchDispatchMode):  # type: ignore[misc]
    """Notes the operations that run, each with its line and a digest of its results."""

    def __init__(self, here: Callable[[], Line]) -> None:
        super().__init__()
        self._here = here
        self.noted: list[tuple[Line, str, tuple[object, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        result = func(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, torch.Tensor):
                shape, dtype, layout, _, *contents = digest(made)
                self.noted.append((self._here(), str(func), (shape, dtype, layout, *contents)))
        return result


class Sited(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph node by node, and knows the line of the node that runs."""

    def __init__(self, graph: Any) -> None:
        super().__init__(graph)
        self._node: Any = None

    def run_node(self, n: Any) -> Any:
        """Run a node."""
        self._node = n
        return super().run_node(n)

    def here(self) -> Line:
        """The line of the current node."""
        site = None if self._node is None else self._node.meta.get("site")
        return NOWHERE if site is None else line_of(site) or NOWHERE


def line_here() -> Line:
    """The innermost line of the model that runs now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if of_model(filename) and not is_of_pytorch(filename):
            return filename, frame.f_lineno
        frame = frame.f_back
    return NOWHERE


def first_other_operation(ours: Operations, theirs: Operations) -> Line:
    """The line of the first operation of one side that the other side does not have at the same position."""
    for noted, others in ((ours.noted, theirs.noted), (theirs.noted, ours.noted)):
        known = {(line, found) for line, _, found in others}
        for line, _, found in noted:
            if line != NOWHERE and (line, found) not in known:
                return line
    return NOWHERE


# --- state


class Changes:
    """Notes the first line after which the value at a path of a state differs."""

    def __init__(self, state: Callable[[], Names], path: Path) -> None:
        self._state, self._path = state, path
        self.line = NOWHERE
        self._before = Before(Names(value=self._value()))
        self._now = self._value()
        self._latest: dict[int, Line] = {}

    def _value(self) -> Any:
        value: Any = self._state()
        for step in self._path:
            found = _part(value, step.kind, step.name)
            if found is MISSING:
                return None
            value = found
        return value

    def _look(self, at: Line) -> None:
        if self.line == NOWHERE:
            now = self._value()
            root = Names(value=now)
            if not self._before.was(root, (), "value", now) or self._before.changed(now, ()) is not None:
                self.line = at

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """A trace function."""
        filename = frame.f_code.co_filename
        if self.line != NOWHERE or not of_model(filename) or is_of_pytorch(filename):
            return None
        before = self._latest.get(id(frame))
        if before is not None and event in ("line", "return"):
            self._look(before)
        self._latest[id(frame)] = filename, frame.f_lineno
        return self.trace


MISSING = object()


def _part(value: Any, kind: str, name: Any) -> Any:
    """A part of a value; ``MISSING`` if it has no such part."""
    return next(
        (one for step, one in parts(value) if (step.kind, step.name) == (kind, name)),
        MISSING,
    )


def effects_on(flat: Flat, path: Path) -> Iterator[Line]:
    """The lines of effects that change what is at a path, by the last name in it."""
    names = [str(step.name) for step in path if step.kind == "attribute"]
    for effect in flat.effects.effects:
        if effect.handle >= 0 and names and names[-1] in effect_text(effect):
            yield flat.places[effect.handle].filename, flat.places[effect.handle].line
