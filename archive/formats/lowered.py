"""Modules that were lowered to a backend, in ``data.pkl``.

Their state is the argument of ``__setstate__``:

- ``(method_compile_spec, processed)``: PyTorch 1.6 to 1.8; class ``torch.jit.<backend>LoweredModule``
- ``(method_compile_spec, processed, create_backend)``: 1.9, same class; from 1.10 on class
  ``torch.jit.LoweredModule.<backend>.<original class>``; from 1.11 on held by a wrapper of class
  ``torch.jit.LoweredWrapper.<backend>.<original class>`` in its attribute ``__loweredModule__``.

They may hang anywhere in the module tree, and inside tuples, lists and dicts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.model import Generation, Global, Handle, Inert, LoweredState

if TYPE_CHECKING:
    from collections.abc import Iterator

NEW = re.compile(r"torch\.jit\.LoweredModule\.(?P<backend>[^.]+)\.(?P<original>.+)")
OLD = re.compile(r"torch\.jit\.(?:___torch_mangle_\d+\.)?(?P<backend>[^.]*)LoweredModule")
WRAPPER = re.compile(r"torch\.jit\.LoweredWrapper\.")
HELD = "__loweredModule__"
IN_BLOB = re.compile(r"<debug_handle>(\d{1,18})")
GENERATIONS = {2: Generation.LOWERED_2, 3: Generation.LOWERED_3}


def find_lowered(root: object) -> dict[str, LoweredState]:
    """The lowered modules under a value of ``data.pkl``, by attribute path; at the root: ""."""
    found: dict[str, LoweredState] = {}
    seen: set[int] = set()
    stack: list[tuple[str, object, bool]] = [("", root, False)]
    while stack:
        path, value, wrapped = stack.pop()
        if id(value) in seen or not isinstance(value, Inert | dict | list | tuple):
            continue
        seen.add(id(value))
        state = _lowered(path, value, wrapped=wrapped) if isinstance(value, Inert) else None
        if state is not None:
            found[path] = state
            continue
        is_wrapper = isinstance(value, Inert) and bool(WRAPPER.match(str(value.what)))
        below = [(part, child, is_wrapper) for part, child in _children(path, value)]
        stack.extend(reversed(below))
    return found


def _lowered(path: str, value: Inert, *, wrapped: bool) -> LoweredState | None:
    name = str(value.what) if isinstance(value.what, Global) else ""
    match = NEW.fullmatch(name) or OLD.fullmatch(name)
    if not match or not isinstance(value.state, tuple) or len(value.state) not in GENERATIONS:
        return None
    spec, processed, *create = value.state
    return LoweredState(
        path,
        match["backend"],
        name,
        match.groupdict().get("original"),
        wrapped,
        GENERATIONS[len(value.state)],
        spec,
        processed,
        bool(create[0]) if create else None,
        tuple(handle for text in _texts(processed) for handle in _handles(text)),
    )


def _children(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Inert):
        for name, child in value.attributes.items():
            yield f"{path}.{name}" if path else str(name), child
        if not value.attributes:
            yield from _children(path, value.state)
    elif isinstance(value, dict):
        for key, child in value.items():
            yield f"{path}[{key!r}]", child
    elif isinstance(value, list | tuple):
        for index, child in enumerate(value):
            yield f"{path}[{index}]", child


def _handles(text: str) -> Iterator[Handle]:
    for match in IN_BLOB.finditer(text):
        yield Handle(int(match[1]))


def _texts(value: object) -> Iterator[str]:
    """The texts in a value, each object once."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            stack.extend(reversed([child for _, child in _children("", value)]))
