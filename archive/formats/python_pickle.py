"""Python's own pickles, of any protocol, as inert values: one instruction after the other, none executed.

TorchScript's pickles are read by :mod:`archive.pickles.tree`, fast and strictly. ``torch.save``
(``torch/serialization.py``) uses Python's pickler, which has more opcodes. Its pickles are small, so a plain
stack machine reads them here.
"""

from __future__ import annotations

import pickletools
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError
from archive.debuginfo.model import Global

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.base.limits import Allowance

VALUE_BYTES = 250
"""Bytes of memory that the value of an instruction costs, at most, besides its argument."""
LINE_PIECE = 4096
MARK_ON_STACK = object()
CONSTANT_VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
LEAVES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
}
EMPTY_CONTAINERS = {"EMPTY_LIST": "list", "EMPTY_TUPLE": "tuple", "EMPTY_DICT": "dict", "EMPTY_SET": "set"}
TO_MARK = {"TUPLE": "tuple", "LIST": "list", "DICT": "dict", "FROZENSET": "frozenset"}
IGNORED = {"PROTO", "FRAME", "STOP", "NEXT_BUFFER", "READONLY_BUFFER"}


@dataclass(slots=True, eq=False)
class PyValue:
    """A container, or what a call would have made.

    Attributes:
        what: ``list``, ``tuple``, ``dict``, ``set``, ``persistent``; or the callable.
        arguments: the callable's arguments.
        items: the values that it holds, or that were appended to it.
        pairs: its keys and values.
        state: the state that BUILD gave it.
    """

    what: object
    arguments: Sequence[object] = ()
    items: Sequence[object] = ()
    pairs: Sequence[tuple[object, object]] = ()
    state: object = None

    def extend(self, values: list[object]) -> None:
        """Append items."""
        if isinstance(self.items, list):
            self.items += values
        else:
            self.items = [*self.items, *values]

    def update(self, pairs: list[tuple[object, object]]) -> None:
        """Add keys and values."""
        if isinstance(self.pairs, list):
            self.pairs += pairs
        else:
            self.pairs = [*self.pairs, *pairs]


def bytes_of(value: object) -> object:
    """The bytes that protocols before 3 write as ``_codecs.encode("ab", "latin1")``; others as they are."""
    match value:
        case PyValue(what=Global(module="_codecs", name="encode"), arguments=[str(text), "latin1"]):
            with suppress(UnicodeEncodeError):
                return text.encode("latin1")
    return value


def set_of(value: object) -> tuple[str, Sequence[object]] | None:
    """The kind of a set, ``set`` or ``frozenset``, and its elements; None where a value is no set.

    Protocols before 4 call its class on a list.
    """
    match value:
        case PyValue(what="set" | "frozenset" as kind, items=items):
            return kind, items
        case PyValue(
            what=Global(module="__builtin__" | "builtins", name="set" | "frozenset" as kind),
            arguments=[PyValue(what="list", items=items)],
        ):
            return kind, items
    return None


def plain_value(data: memoryview, at: int, allowance: Allowance) -> tuple[object, int]:
    """The value of a pickle, described and not made; and the position behind the pickle.

    Args:
        data: the bytes that hold the pickle.
        at: its first byte.
        allowance: the memory that the values may cost.

    Raises:
        ArchiveError: the bytes are no pickle.
        LimitError: the values would cost more memory than that.
    """
    machine = _Machine()
    stream = _PickleFile(data[at:])
    position = 0
    try:
        for op, argument, place in pickletools.genops(stream):  # type: ignore[arg-type]
            allowance.take(VALUE_BYTES + _size(argument), "values of a pickle", place=f"byte {at + position}")
            position = place or 0
            machine.step(op.name, argument)
        return machine.stack[-1], at + stream.tell()
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(place=f"byte {at + position}", expected="a pickle", found=str(error)) from error


class _PickleFile:
    """Bytes as the file that ``pickletools`` reads; nothing is copied but the arguments of instructions."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def tell(self) -> int:
        """The position."""
        return self._at

    def read(self, count: int) -> bytes:
        """The next bytes."""
        return self._up_to(self._at + count)

    def readline(self) -> bytes:
        """The next bytes up to a newline."""
        end = self._at
        while end < len(self._data):
            found = bytes(self._data[end : end + LINE_PIECE]).find(b"\n")
            end += LINE_PIECE if found < 0 else found + 1
            if found >= 0:
                break
        return self._up_to(end)

    def _up_to(self, end: int) -> bytes:
        data = bytes(self._data[self._at : end])
        self._at += len(data)
        return data


def _size(argument: object) -> int:
    """Bytes of an instruction's argument, about."""
    return len(argument) if isinstance(argument, str | bytes | bytearray) else 0


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, object] = {}

    def step(self, name: str, argument: Any) -> None:  # noqa: ANN401 (as the instruction has it)
        if name in LEAVES:
            self.stack.append(argument)
        elif name in CONSTANT_VALUES:
            self.stack.append(CONSTANT_VALUES[name])
        elif name in EMPTY_CONTAINERS:
            self.stack.append(PyValue(EMPTY_CONTAINERS[name]))
        elif name in TO_MARK:
            self._collect(TO_MARK[name])
        elif name not in IGNORED:
            ACTIONS[name](self, argument)

    def popped(self) -> list[Any]:
        """Take all values above the last mark, and the mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not MARK_ON_STACK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values

    def _collect(self, what: str) -> None:
        values = self.popped()
        made = PyValue(what)
        if what == "dict":
            made.pairs = list(zip(values[::2], values[1::2], strict=True))
        else:
            made.items = values
        self.stack.append(made)


def _tuple(count: int) -> Callable[[_Machine, Any], None]:
    def run(machine: _Machine, _: object) -> None:
        values = machine.stack[-count:]
        del machine.stack[-count:]
        machine.stack.append(PyValue("tuple", items=values))

    return run


def _called(machine: _Machine, _: object) -> None:
    arguments = machine.stack.pop()
    machine.stack.append(PyValue(machine.stack.pop(), arguments.items))


def _called_by_name(machine: _Machine, _: object) -> None:
    named = machine.stack.pop()
    _called(machine, None)
    machine.stack[-1].pairs = named.pairs


def _instance(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(PyValue(Global(module, name), machine.popped()))


def _object(machine: _Machine, _: object) -> None:
    what, *arguments = machine.popped()
    machine.stack.append(PyValue(what, arguments))


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(Global(module, name))


def _stack_global(machine: _Machine, _: object) -> None:
    name = machine.stack.pop()
    machine.stack.append(Global(str(machine.stack.pop()), str(name)))


def _append(machine: _Machine, _: object) -> None:
    value = machine.stack.pop()
    machine.stack[-1].extend([value])


def _extend(machine: _Machine, _: object) -> None:
    values = machine.popped()
    machine.stack[-1].extend(values)


def _set_item(machine: _Machine, _: object) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.stack[-1].update([(key, value)])


def _set_items(machine: _Machine, _: object) -> None:
    values = machine.popped()
    machine.stack[-1].update(list(zip(values[::2], values[1::2], strict=True)))


def _build(machine: _Machine, _: object) -> None:
    state = machine.stack.pop()
    machine.stack[-1].state = state


def _persistent(machine: _Machine, _: object) -> None:
    machine.stack.append(PyValue("persistent", [machine.stack.pop()]))


def _put(machine: _Machine, argument: int) -> None:
    machine.memo[argument] = machine.stack[-1]


def _get(machine: _Machine, argument: int) -> None:
    machine.stack.append(machine.memo[argument])


ACTIONS: dict[str, Callable[[_Machine, Any], object]] = {
    "MARK": lambda machine, _: machine.stack.append(MARK_ON_STACK),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.popped(),
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    **{f"TUPLE{count}": _tuple(count) for count in (1, 2, 3)},
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _called),
    "NEWOBJ_EX": _called_by_name,
    "INST": _instance,
    "OBJ": _object,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "APPEND": _append,
    **dict.fromkeys(("APPENDS", "ADDITEMS"), _extend),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "BUILD": _build,
    "BINPERSID": _persistent,
    "PERSID": lambda machine, argument: machine.stack.append(PyValue("persistent", [argument])),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _get),
    "MEMOIZE": lambda machine, _: machine.memo.setdefault(len(machine.memo), machine.stack[-1]),
    **dict.fromkeys(
        ("EXT1", "EXT2", "EXT4"), lambda machine, code: machine.stack.append(Global("extension", str(code)))
    ),
}
