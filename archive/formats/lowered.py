"""Modules that were lowered to a backend, in ``data.pkl``.

Their state is the argument of ``__setstate__``, whose code ``codegen_backend_module``
(``torch/csrc/jit/backends/backend_detail.cpp``) generates; the pickler calls ``__getstate__``, the unpickler
``__setstate__``:

- ``(method_compile_spec, processed)``: PyTorch 1.6 to 1.8; class ``torch.jit.<backend>LoweredModule``
- ``(method_compile_spec, processed, create_backend)``: 1.9, same class; since 1.10 class
  ``torch.jit.LoweredModule.<backend>.<original class>``; since 1.11 held by a wrapper of class
  ``torch.jit.LoweredWrapper.<backend>.<original class>`` in its attribute ``__loweredModule__``.

They may be anywhere in the module tree, and inside tuples, lists and dicts. A state's texts may hold debug
handles: after ``<debug_handle>`` (the form of PyTorch's own demo backend), or in the instructions of a
program, whose format :mod:`archive.formats.blob_programs` specifies.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import LimitError
from archive.debuginfo.model import Generation, Handle, LoweredState
from archive.formats import blob_programs
from archive.formats.mangling import MANGLED
from archive.formats.record_kinds import DATA
from archive.pickles.values import Global, Inert, walked

if TYPE_CHECKING:
    from collections.abc import Iterator


LOWERED_CLASS = re.compile(r"torch\.jit\.LoweredModule\.(?P<backend>[^.]+)\.(?P<original>.+)")
LOWERED_CLASS_1_9 = re.compile(rf"torch\.jit\.(?:{MANGLED}\.)?(?P<backend>[^.]*)LoweredModule")
WRAPPER = re.compile(r"torch\.jit\.LoweredWrapper\.")
HANDLE_MARK = "<debug_handle>"
IN_BLOB = re.compile(HANDLE_MARK + r"(\d{1,18})")
GENERATION_BY_LENGTH = {2: Generation.LOWERED_2, 3: Generation.LOWERED_3}

Step = tuple["Step", object, bool] | None
"""The path from the top module to a value: its holder's path, the key there, whether that is an attribute."""


def is_lowered(name: str) -> bool:
    """Whether a name is that of a lowered module's class."""
    return bool(LOWERED_CLASS.match(name) or LOWERED_CLASS_1_9.match(name))


def find_lowered(root: object) -> dict[str, LoweredState]:
    """The lowered modules under a value of ``data.pkl``, by attribute path; at the root: ""."""
    states: dict[str, LoweredState] = {}
    seen: set[int] = set()
    blobs = _Blobs()
    stack: list[tuple[Step, object, bool]] = [(None, root, False)]
    while stack:
        step, value, wrapped = stack.pop()
        if id(value) in seen or not isinstance(value, Inert | dict | list | tuple):
            continue
        seen.add(id(value))
        name = str(value.what) if isinstance(value, Inert) and isinstance(value.what, Global) else ""
        state = _lowered(step, value, name, blobs, wrapped=wrapped) if isinstance(value, Inert) else None
        if state is not None:
            states[state.path] = state
            continue
        is_wrapper = bool(WRAPPER.match(name))
        children = list(_children(value))
        memory.take(memory.TEXT * len(children), "values in modules", record=DATA)
        below = [((step, key, is_attribute), child, is_wrapper) for key, is_attribute, child in children]
        stack.extend(reversed(below))
    return states


def _lowered(step: Step, value: Inert, name: str, blobs: _Blobs, *, wrapped: bool) -> LoweredState | None:
    """The state of an object, if its class is that of a lowered module."""
    match = LOWERED_CLASS.fullmatch(name) or LOWERED_CLASS_1_9.fullmatch(name)
    if not match or not isinstance(value.state, tuple) or len(value.state) not in GENERATION_BY_LENGTH:
        return None
    memory.take(2 * memory.ROW, "lowered modules", record=DATA)
    spec, processed, *create = value.state
    return LoweredState(
        _path(step),
        match["backend"],
        name,
        match.groupdict().get("original"),
        wrapped,
        GENERATION_BY_LENGTH[len(value.state)],
        spec,
        processed,
        bool(create[0]) if create else None,
        *blobs.handles(processed),
    )


def _path(step: Step) -> str:
    """A path as text: ``low.__loweredModule__``, ``blocks[3]``."""
    parts: list[str] = []
    length = 0
    while step is not None:
        step, key, is_attribute = step
        parts.append(f".{key}" if is_attribute else f"[{key!r}]")
        length += len(parts[-1])
        if length > memory.limits().name_bytes:
            raise LimitError("name_bytes", memory.limits().name_bytes, length, record=DATA)
    return "".join(reversed(parts)).removeprefix(".")


def _children(value: object) -> Iterator[tuple[object, bool, object]]:
    """The children of a value: key, whether it names an attribute, and child."""
    if isinstance(value, Inert):
        for name, child in value.attributes.items():
            yield name, True, child
        if isinstance(value.state, Inert):
            yield "state", True, value.state
        elif not value.attributes:
            yield from _children(value.state)
    elif isinstance(value, dict):
        for key, child in value.items():
            yield key, False, child
    elif isinstance(value, list | tuple):
        for index, child in enumerate(value):
            yield index, False, child


def without_handles(text: str) -> str:
    """A text of a lowered module's state without debug handles."""
    if blob_programs.is_program(text):
        return blob_programs.without_handles(text)
    return IN_BLOB.sub(HANDLE_MARK, text)


def handles_in(text: str) -> list[int]:
    """The debug handles in a text of a lowered module's state.

    Raises:
        UnreadProgramError: it is a program that cannot be read.
    """
    if blob_programs.is_program(text):
        return blob_programs.handles_of(text)
    return [*map(int, IN_BLOB.findall(text))]


class _Blobs:
    """Finds the debug handles in blobs; a text that several modules hold is searched once."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[tuple[Handle, ...], str]] = {}

    def handles(self, processed: object) -> tuple[tuple[Handle, ...], str]:
        """The handles in all texts of a lowered module's state, and why a text's cannot be read, or ""."""
        handles: list[Handle] = []
        unread = ""
        for text in self._texts(processed):
            if id(text) not in self.found:
                self.found[id(text)] = self._handles_in(text)
            found, why = self.found[id(text)]
            self._count(len(found))
            handles += found
            unread = unread or why
        return tuple(handles), unread

    def _handles_in(self, text: str) -> tuple[tuple[Handle, ...], str]:
        try:
            return tuple(map(Handle, handles_in(text))), ""
        except blob_programs.UnreadProgramError as error:
            return (), str(error)

    def _texts(self, value: object) -> Iterator[str]:
        """The texts in a value, each object once."""
        seen: set[int] = set()
        for part in walked(value, lambda part: [child for _, _, child in _children(part)]):
            self._count(1)
            if isinstance(part, str) and id(part) not in seen:
                seen.add(id(part))
                yield part

    def _count(self, steps: int) -> None:
        memory.take(8 * memory.NUMBER * steps, "values and handles in lowered modules", record=DATA)
