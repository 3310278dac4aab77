"""Python's own pickles, of any protocol, as values: read instruction by instruction, none executed.

TorchScript's pickles are read by :mod:`archive.pickles.tree`, strictly and as columns. ``torch.save``
(``torch/serialization.py``) uses Python's pickler, which has more opcodes, for values that are read once.
"""

from __future__ import annotations

import pickletools
import struct
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.json_text import without_collecting
from archive.pickles.ops import BYTE_OF
from archive.pickles.values import Global, Inert

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


ASKED, MOST_FREQUENT = 1 << 16, 256
"""Bytes of memory that are asked for at once; bytes at a pickle's end, where instructions are read singly."""
(BINPUT, BINGET, LONG_BINPUT, LONG_BINGET, BININT1, BININT2, MARK, TUPLE, TUPLE1, TUPLE2, BINUNICODE) = (
    BYTE_OF[name][0]
    for name in (
        *("BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET", "BININT1", "BININT2"),
        *("MARK", "TUPLE", "TUPLE1", "TUPLE2", "BINUNICODE"),
    )
)
BINPERSID, REDUCE, NEWFALSE, EMPTY_TUPLE = (
    BYTE_OF[name][0] for name in ("BINPERSID", "REDUCE", "NEWFALSE", "EMPTY_TUPLE")
)
FREQUENT = (
    dict.fromkeys((MARK, TUPLE, TUPLE1, TUPLE2, BINPERSID, REDUCE, NEWFALSE, EMPTY_TUPLE), 1)
    | dict.fromkeys((BINPUT, BINGET, BININT1), 2)
    | {BININT2: 3}
    | dict.fromkeys((LONG_BINPUT, LONG_BINGET, BINUNICODE), 5)
)
"""Bytes of the instructions that take the fast path, without those of a text."""
U32 = struct.Struct("<I").unpack_from
LINE_PIECE = 4096
LONGEST_INT = 1 << 13
"""Bits of the longest integer: it has 2,467 digits, and Python writes no more than 4,300."""
MARK_ON_STACK = object()
CONSTANT_VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
LEAVES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
}
EMPTY: dict[str, Callable[[], object]] = {
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": lambda: Inert("dict"),
    "EMPTY_SET": lambda: Inert("set"),
}
TO_MARK: dict[str, Callable[[list[object]], object]] = {
    "TUPLE": tuple,
    "LIST": list,
    "DICT": lambda values: Inert("dict", pairs=_pairs(values)),
    "FROZENSET": lambda values: Inert("frozenset", items=values),
}
IGNORED = {"PROTO", "FRAME", "STOP", "NEXT_BUFFER", "READONLY_BUFFER"}


def plain_value(
    data: memoryview, at: int, named: list[Inert] | None = None, imported: set[str] | None = None
) -> tuple[object, int]:
    """The value of a pickle, described rather than created; and the position after the pickle.

    Args:
        named: gets what persistent ids stand for.
        imported: gets what Python would import to read the pickle, in its value or not, as far as it is read.
    """
    machine = Machine([] if named is None else named, imported)
    end = machine.run(data, at)
    return machine.stack[-1], end


class _PickleFile:
    """Bytes as the file that ``pickletools`` reads; only the arguments of instructions are copied."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def tell(self) -> int:
        """The position."""
        return self.at

    def read(self, count: int) -> bytes:
        """The next bytes."""
        return self._up_to(self.at + count)

    def readline(self) -> bytes:
        """The next bytes up to a newline."""
        end = self.at
        while end < len(self.data):
            found = bytes(self.data[end : end + LINE_PIECE]).find(b"\n")
            end += LINE_PIECE if found < 0 else found + 1
            if found >= 0:
                break
        return self._up_to(end)

    def _up_to(self, end: int) -> bytes:
        data = bytes(self.data[self.at : end])
        self.at += len(data)
        return data


class Machine:
    """The stack and the memo of a pickle.

    Args:
        named: takes the values that are ``persistent``, in the pickle's order.

    Attributes:
        at: the byte of the current instruction.
    """

    def __init__(self, named: list[Inert], imported: set[str] | None = None) -> None:
        self.stack: list[Any] = []
        self.at = 0
        self._named, self._imported = named, set[str]() if imported is None else imported
        self.memo: dict[int, object] = {}

    @without_collecting()
    def run(self, data: memoryview, at: int) -> int:
        """Run all instructions of a pickle, which leaves its value on the stack; return where it ends."""
        stream = _PickleFile(data[at:])
        self.at = at
        try:
            is_more = True
            while is_more:
                self._frequent(stream, at)
                self.at = at + stream.tell()
                is_more = self._other(stream)
            _ = self.stack[-1]
        except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
            raise ArchiveError(place=f"byte {self.at}", expected="a pickle", found=str(error)) from error
        return at + stream.tell()

    def _other(self, stream: _PickleFile) -> bool:
        """Run one instruction of any kind, as ``pickletools`` reads it; return whether more follow."""
        op, argument, _ = next(pickletools.genops(stream))  # type: ignore[arg-type]
        size = len(argument) if isinstance(argument, str | bytes | bytearray) else 0
        memory.take(memory.TEXT + size, "values of a pickle", place=f"byte {self.at}")
        _check_length(argument)
        self.step(op.name, argument)
        return op.name != "STOP"

    def _frequent(self, stream: _PickleFile, base: int) -> None:
        """Run instructions up to one that isn't frequent, that has a long text, or that is near the end.

        They do what :meth:`step` does. Nine tenths of a checkpoint's instructions are frequent ones.
        """
        data, at = stream.data, stream.at
        stack, memo = self.stack, self.memo
        end, taken = len(data) - MOST_FREQUENT, 0
        while at < end:
            self.at = base + at
            op = data[at]
            size = FREQUENT.get(op)
            if size is None:
                break
            if op == BINPUT:
                memo[data[at + 1]] = stack[-1]
            elif op == BINGET:
                stack.append(memo[data[at + 1]])
            elif op == LONG_BINPUT:
                memo[U32(data, at + 1)[0]] = stack[-1]
            elif op == LONG_BINGET:
                stack.append(memo[U32(data, at + 1)[0]])
            elif op == BININT1:
                stack.append(data[at + 1])
            elif op == BININT2:
                stack.append(data[at + 1] | data[at + 2] << 8)
            elif op == MARK:
                stack.append(MARK_ON_STACK)
            elif op == TUPLE:
                stack.append(tuple(self._popped()))
            elif op == TUPLE1:
                stack.append((stack.pop(),))
            elif op == TUPLE2:
                stack[-2:] = [tuple(stack[-2:])]
            elif op == BINUNICODE:
                length = U32(data, at + 1)[0]
                size += length
                if at + size > end:
                    break
                taken += length
                stack.append(str(data[at + 5 : at + size], "utf-8", "surrogatepass"))
            elif op == BINPERSID:
                value = Inert("persistent", [stack.pop()])
                self._named.append(value)
                stack.append(value)
            elif op == REDUCE:
                arguments = _arguments(stack.pop())
                stack.append(Inert(stack.pop(), arguments))
            elif op == NEWFALSE:
                stack.append(False)
            elif op == EMPTY_TUPLE:
                stack.append(())
            at += size
            taken += memory.TEXT
            if taken > ASKED:
                memory.take(taken, "values of a pickle", place=f"byte {self.at}")
                taken = 0
        memory.take(taken, "values of a pickle", place=f"byte {self.at}")
        stream.at = at

    def step(self, name: str, argument: Any) -> None:  # noqa: ANN401 (as the instruction has it)
        """Run an instruction: a case for each kind, so that all are on one page."""
        stack = self.stack
        if name in LEAVES:
            stack.append(argument)
        elif name in CONSTANT_VALUES:
            stack.append(CONSTANT_VALUES[name])
        elif name in EMPTY:
            stack.append(EMPTY[name]())
        elif name in TO_MARK:
            stack.append(TO_MARK[name](self._popped()))
        elif name not in IGNORED:
            match name:
                case "BINPUT" | "PUT" | "LONG_BINPUT":  # the most frequent ones first
                    self.memo[argument] = stack[-1]
                case "BINGET" | "GET" | "LONG_BINGET":
                    stack.append(self.memo[argument])
                case "MEMOIZE":
                    self.memo[len(self.memo)] = stack[-1]
                case "MARK":
                    stack.append(MARK_ON_STACK)
                case "POP":
                    stack.pop()
                case "POP_MARK":
                    self._popped()
                case "DUP":
                    stack.append(stack[-1])
                case "TUPLE1" | "TUPLE2" | "TUPLE3":
                    items = stack[-int(name[-1]) :]
                    del stack[-int(name[-1]) :]
                    stack.append(tuple(items))
                case "REDUCE" | "NEWOBJ":
                    arguments = _arguments(stack.pop())
                    stack.append(Inert(stack.pop(), arguments))
                case "NEWOBJ_EX":
                    by_name, arguments = stack.pop(), _arguments(stack.pop())
                    stack.append(Inert(stack.pop(), arguments, pairs=by_name.pairs))
                case "INST":
                    stack.append(Inert(self._global(*argument.split(" ", 1)), self._popped()))
                case "OBJ":
                    what, *values = self._popped()
                    stack.append(Inert(what, values))
                case "GLOBAL":
                    stack.append(self._global(*argument.split(" ", 1)))
                case "STACK_GLOBAL":
                    inner = stack.pop()
                    stack.append(self._global(str(stack.pop()), str(inner)))
                case "APPEND":
                    value = stack.pop()
                    _extend(stack[-1], [value])
                case "APPENDS" | "ADDITEMS":
                    values = self._popped()
                    _extend(stack[-1], values)
                case "SETITEM":
                    value, key = stack.pop(), stack.pop()
                    _update(stack[-1], [(key, value)])
                case "SETITEMS":
                    values = self._popped()
                    _update(stack[-1], _pairs(values))
                case "BUILD":
                    state = stack.pop()
                    stack[-1].state = state
                case "BINPERSID" | "PERSID":
                    value = Inert("persistent", [stack.pop() if name == "BINPERSID" else argument])
                    self._named.append(value)
                    stack.append(value)
                case "EXT1" | "EXT2" | "EXT4":
                    stack.append(self._global("extension", str(argument)))
                case _:
                    raise KeyError(name)

    def _global(self, module: str, name: str = "") -> Global:
        found = Global(module, name)
        self._imported.add(str(found))
        return found

    def _popped(self) -> list[Any]:
        """Take all values above the last mark, and the mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not MARK_ON_STACK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values


def _check_length(argument: object) -> None:
    """Refuse an integer that cannot be written in digits."""
    if isinstance(argument, int) and argument.bit_length() > LONGEST_INT:
        raise ValueError(f"an integer of {argument.bit_length():,} bits")


def _extend(holder: Any, values: list[Any]) -> None:  # noqa: ANN401 (whatever is on the stack)
    if isinstance(holder, list):
        holder += values
    elif isinstance(holder.items, list):
        holder.items += values
    else:
        holder.items = [*holder.items, *values]


def _update(holder: Any, pairs: list[tuple[object, object]]) -> None:  # noqa: ANN401 (the same)
    if isinstance(holder.pairs, list):
        holder.pairs += pairs
    else:
        holder.pairs = [*holder.pairs, *pairs]


def _arguments(value: object) -> Sequence[object]:
    """The arguments of a call: a tuple, or a list, which ``torch.load`` takes with ``weights_only``."""
    if not isinstance(value, tuple | list):
        raise TypeError(f"a call with arguments in a {type(value).__name__}")
    return value


def _pairs(values: list[Any]) -> list[tuple[object, object]]:
    return list(zip(values[::2], values[1::2], strict=True))
