"""``data.pkl``, ``constants.pkl``: the module tree and the tensor constants, as inert values.

- Numbers, texts, tuples, lists and dicts are themselves.
- Typed lists and tagged containers (calls of ``torch.jit._pickle.build_…`` and ``restore_type_tag``) are
  replaced by what they hold.
- Tensors become :class:`~archive.formats.tensors.tensor.Tensor`.
- Globals become :class:`~archive.pickles.values.Global`, and whatever a call would create becomes
  :class:`~archive.pickles.values.Inert`. A shared value is one object with several holders.

Written by ``ScriptModuleSerializer::writeArchive`` (``torch/csrc/jit/serialization/export_module.cpp``)
through ``Pickler::pushIValue`` (``pickler.cpp``), tensors by ``pushLiteralTensor``; read by ``Unpickler``
(``unpickler.cpp``), tensors by ``rebuildTensor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, shown
from archive.base.strings import charged
from archive.formats.tensors.pickled import PLAIN, QUANTISED, call_of, made_by, storages_of
from archive.formats.tensors.tensor import Tensor
from archive.pickles.ops import HOLDERS, NEWTRUE, ValueKind, float_of
from archive.pickles.values import Global, Inert, walked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from archive.pickles.tree import Tree

BUILDERS = {"build_intlist", "build_tensorlist", "build_doublelist", "build_boollist", "restore_type_tag"}
INT = int(ValueKind.INT)
BOOL = int(ValueKind.BOOL)
NONE = int(ValueKind.NONE)
FLOAT = int(ValueKind.FLOAT)
TEXT = int(ValueKind.TEXT)
LIST = int(ValueKind.LIST)
DICT = int(ValueKind.DICT)
GLOBAL = int(ValueKind.GLOBAL)
REDUCE = int(ValueKind.REDUCE)
OBJECT = int(ValueKind.OBJECT)
"""The kinds as plain integers: looking up an enum member takes longer than making a value."""
NODE_BYTES, CHILD_BYTES = 9, 64
"""Bytes of memory that a node and a child of one take while values are made."""
SIZES = {
    ValueKind.INT: 36,
    ValueKind.FLOAT: 24,
    ValueKind.TEXT: 56,
    ValueKind.TUPLE: 56,
    ValueKind.LIST: 88,
    ValueKind.DICT: 80,
    ValueKind.GLOBAL: 220,
    ValueKind.REDUCE: 300,
    ValueKind.OBJECT: 64,
    ValueKind.PERSISTENT: 56,
}
"""Bytes of memory that a value takes besides its parts, by kind."""
SIZE = np.array([SIZES.get(kind, 0) for kind in ValueKind])
PART_BYTES, PAIR_BYTES = 9, 60
"""Bytes of memory that each part takes in its container, and each key and value in a dict on top."""
_NEW, _OPENED = object(), object()
"""A node that was not visited, and one that was visited but has no value yet."""


def inert_value(tree: Tree, root: int) -> object:
    """The value of a node, described rather than created."""
    name = tree.tokens.place(root)[0]
    memory.take(_bytes_of_values(tree), "values", record=name)
    with memory.lent(NODE_BYTES * len(tree.value) + CHILD_BYTES * len(tree.children), "values", record=name):
        return _valued(tree, root)


def _bytes_of_values(tree: Tree) -> int:
    """Bytes of memory that the values of all nodes take, with texts and names as ASCII."""
    kinds = tree.kinds(np.arange(len(tree.value)))
    objects = int(SIZE[kinds].sum())
    in_dicts = tree.spans(np.flatnonzero(kinds == ValueKind.DICT.value))[1]
    items = PART_BYTES * len(tree.children) + PAIR_BYTES * int(in_dicts.sum())
    names = int(tree.value[kinds == ValueKind.GLOBAL.value].sum())
    return objects + items + names + int(tree.strings.length.sum())


def _valued(tree: Tree, root: int) -> object:
    """The value of a node."""
    # Depth first without recursion, because a pickle may be deeper than Python's stack: a node that holds
    # others is visited twice, first to value its parts and put those on the stack that hold others, then to
    # be made from them.
    values: list[object] = [_NEW] * len(tree.value)
    kinds = tree.kinds(np.arange(len(tree.value))).tobytes()
    numbers, bounds, children = tree.value.data, tree.bounds.data, tree.children.data
    stack = [root]
    depth, deepest = 0, memory.limits().depth
    while stack:
        node = stack[-1]
        held = values[node]
        if held is not _NEW and held is not _OPENED:
            stack.pop()
            continue
        if kinds[node] not in HOLDERS:
            values[node] = _plain(tree, node, kinds[node], numbers[node])
            continue
        number = numbers[node]
        parts = children[bounds[number] : bounds[number + 1]].tolist()
        if node in tree.states:
            parts.append(tree.states[node])
        if held is _OPENED:
            depth -= 1
        else:
            values[node] = _OPENED
            first = None
            for part in reversed(parts):
                if values[part] is _OPENED:
                    raise tree.tokens.fault(node, "a value that holds itself")
                if values[part] is _NEW:
                    first = part
                    if kinds[part] in HOLDERS:
                        stack.append(part)
                    else:
                        values[part] = _plain(tree, part, kinds[part], numbers[part])
            if first is not None and depth + 1 >= deepest:
                name, at = tree.tokens.place(first)
                raise LimitError("depth", deepest, depth + 2, record=name, place=f"byte {at}")
            if stack[-1] != node:
                depth += 1
                continue
        values[node] = _holder(tree, node, kinds[node], [values[part] for part in parts])
        stack.pop()
    return values[root]


def class_names(root: object) -> set[str]:
    """The qualified names of the classes of all objects in a value."""
    return {str(made.what) if isinstance(made.what, Global) else "" for made in objects(root)}


def objects(root: object) -> Iterator[Inert]:
    """All objects in a value, each once."""
    return (value for value in walked(root) if isinstance(value, Inert))


def global_names(root: object) -> set[str]:
    """The qualified names of all classes and functions in a value."""
    return {str(value) for value in walked(root) if isinstance(value, Global)}


def maker_of(value: object) -> object:
    """The class or callable of an object; of other values the name of their type."""
    return value.what if isinstance(value, Inert) else type(value).__name__


def is_object(value: object) -> TypeGuard[Inert]:
    """Whether a value is an object whose class has a name."""
    return isinstance(value, Inert) and isinstance(value.what, Global)


def is_member(value: Inert) -> bool:
    """Whether an object is a member of one of the model's enums: its other classes take no arguments."""
    return (
        isinstance(value.what, Global) and value.what.module.startswith("__torch__") and bool(value.arguments)
    )


def _plain(tree: Tree, node: int, kind: int, number: int) -> object:
    """The value of a node that holds no others."""
    if kind == INT:
        return number
    if kind == TEXT:
        written = bytes(tree.strings.data(number))  # its memory was asked for as ASCII
        return written.decode() if written.isascii() else charged(written)
    if kind == BOOL:
        return bool(tree.tokens.op[node] == NEWTRUE)
    if kind == FLOAT:
        return float_of(number.to_bytes(8, "big", signed=True))
    return None if kind == NONE else Global(*tree.names(node))


def _holder(tree: Tree, node: int, kind: int, parts: list[object]) -> object:
    """The value of a node that holds others."""
    if kind == LIST:
        return parts
    if kind == DICT:
        if len(parts) % 2:
            raise tree.tokens.fault(node, "a dict with a key that has no value")
        for key in parts[::2]:
            if not isinstance(key, str | int | float | Tensor | Global | None):
                raise tree.tokens.fault(node, f"expected a dict key, found {shown(type(key).__name__)}")
        return dict(zip(parts[::2], parts[1::2], strict=True))
    if kind in (REDUCE, OBJECT):
        return _made(tree, node, kind, parts)
    return tuple(parts)


def _made(tree: Tree, node: int, kind: int, parts: list[object]) -> object:
    """The result of a call, described; ``parts``: callee, arguments, and the state if there is one."""
    what, arguments, *state = parts
    if kind == REDUCE and not isinstance(arguments, tuple):
        member = Inert(what, (arguments,), None)  # TorchScript writes a member's value without a tuple
        if is_member(member):
            return member
    if not isinstance(arguments, tuple):
        raise tree.tokens.fault(node, "expected a tuple of arguments")
    made = Inert(what, arguments, state[0] if state else None)
    if kind == REDUCE and not state and isinstance(what, Global) and arguments:
        if what.name in BUILDERS and what.module == "torch.jit._pickle":
            return arguments[0]
        call = call_of(made)
        if call == PLAIN:
            return _tensor(tree, node, made)
        if call == QUANTISED:
            made.made = _made_by(tree, node, made)
    if what == Global("collections", "OrderedDict") and not arguments and not state:
        return {}
    return made


def _made_by(tree: Tree, node: int, call: Inert) -> Tensor | None:
    """The tensor that a call makes, in the folder of its pickle; None where it makes none."""
    name, at = tree.tokens.place(node)
    try:
        return made_by(call, storages_of(name))
    except LimitError as error:
        raise error.within(record=name, place=f"byte {at}") from None


def _tensor(tree: Tree, node: int, call: Inert) -> Tensor:
    tensor = _made_by(tree, node, call)
    if tensor is None or not _is_whole(call) or tensor.strides != call.arguments[3]:
        name, at = tree.tokens.place(node)
        raise ArchiveError(
            record=name,
            place=f"byte {at}",
            expected="a tensor: storage, offset, shape, strides",
            found=", ".join(_brief(argument) for argument in call.arguments[:4]),
        )
    return tensor


def _is_whole(call: Inert) -> bool:
    """Whether a call has an offset, strides, and a storage: ``("storage", type, key, device, elements)``."""
    match call.arguments:
        case [((_, Global(), str() | int(), str(), int(), *_),), int(), _, tuple(), *_]:
            return True
    return False


def _brief(value: object) -> str:
    """A value for a message; a container only by its size, because shared ones may unfold without end."""
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return shown(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
