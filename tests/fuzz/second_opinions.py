"""Second opinions: what another reader makes of the same bytes, where both read them.

A wrong answer that looks right breaks no assertion of its reader. So changed records are read by the slow
reader, too, which has nothing in common with the library, and changed zips by ``zipfile``. One of the two
may refuse what the other reads; where both read it, they must read the same.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.formats.inert_values import BUILDERS
from archive.formats.tensors.dtypes import dtype_of_storage
from archive.formats.tensors.pickled import CALLS, PLAIN
from archive.formats.tensors.tensor import Tensor
from archive.pickles.values import Global, Inert
from tests.support import slow_reader
from tests.support.slow_reader import NOTHING, Dict, Made, Name, Persistent, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.slow_reader import Value

SLOW_REFUSALS = (
    RefusedError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""How the slow reader refuses a record: it has no checks of its own."""
ZIP_REFUSALS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
"""How ``zipfile`` refuses a zip, or a record of it."""
UTF8 = 0x800
"""The flag of a name that is UTF-8; ``zipfile`` reads others as cp437."""


def check_slowly(answer: object, read: Callable[[bytes], object], data: bytes) -> None:
    """Compare an answer with the slow reader's, if that reads the record at all."""
    try:
        expected = read(data)
    except SLOW_REFUSALS:
        return
    assert answer == expected, "not as the slow reader reads it"


def check_value(value: object, data: bytes) -> None:
    """Compare an inert value with the slow reader's."""
    numbers = Numbers()
    check_slowly(numbers.of(value), lambda data: numbers.of(inert(slow_reader.load(data), {})), data)


class Numbers:
    """Values as numbers: equal values have one number, however often they are shared inside of one another.

    Types count, too: ``1``, ``1.0`` and ``True`` are three values, and a float is its bits.
    """

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._seen: dict[int, tuple[object, int]] = {}

    def of(self, value: object) -> int:
        """The number of a value."""
        known = self._seen.get(id(value))
        if known is None:
            known = value, self._known.setdefault(self._key(value), len(self._known))
            self._seen[id(value)] = known  # with the value itself, so that no other one takes its id
        return known[1]

    def _key(self, value: object) -> object:
        if isinstance(value, list | tuple):
            return type(value), *map(self.of, value)
        if isinstance(value, dict):
            return dict, *((self.of(key), self.of(one)) for key, one in value.items())
        if isinstance(value, Inert):
            return Inert, self.of(value.what), self.of(value.arguments), self.of(value.state)
        if isinstance(value, float):
            return float, struct.pack("<d", value)
        return type(value), value


def inert(value: object, made: dict[int, tuple[object, object]]) -> object:
    """A value of the slow reader as an inert one, by the rules of ``archive.formats.inert_values``.

    Args:
        value: the value.
        made: receives each value and its inert one, by the value's ``id``; shared values are made once.
    """
    if id(value) not in made:
        made[id(value)] = value, _inert(value, lambda part: inert(part, made))
    return made[id(value)][1]


def _inert(value: object, inner: Callable[[object], object]) -> object:
    if isinstance(value, bytes):
        return decoded(value)
    if isinstance(value, Name):
        return Global(value.module, value.name)
    if isinstance(value, Persistent):
        return (inner(value.identity),)
    if isinstance(value, list):
        return [inner(item) for item in value]
    if isinstance(value, tuple):
        return tuple([inner(item) for item in value])
    if isinstance(value, Dict):
        items = [inner(item) for item in value.items]
        return dict(zip(items[::2], items[1::2], strict=True))
    return _made(value, inner) if isinstance(value, Made) else value


def _made(value: Made, inner: Callable[[object], object]) -> object:
    what, arguments = inner(value.what), inner(value.arguments)
    if not isinstance(arguments, tuple):
        raise RefusedError("a call without a tuple of arguments")
    if value.how == "REDUCE" and value.state is NOTHING and isinstance(what, Global) and arguments:
        if what.module == "torch.jit._pickle" and what.name in BUILDERS:
            return arguments[0]
        if CALLS.get((what.module, what.name)) == PLAIN:
            return _tensor(*arguments)
    if what == Global("collections", "OrderedDict") and not arguments and value.state is NOTHING:
        return {}
    return Inert(what, arguments, None if value.state is NOTHING else inner(value.state))


def _tensor(storage: Value, offset: int, shape: Value, strides: Value, *more: object) -> Tensor:
    """A tensor by the arguments of ``_rebuild_tensor_v2``."""
    ((_, kind, key, device, *_),) = storage
    grad = more[0] if more and isinstance(more[0], bool) else None
    return Tensor(dtype_of_storage(kind.name), shape, strides, offset, f"data/{key}", grad, device=device)


def check_by_zipfile(records: dict[str, bytes], root: str, data: bytes) -> None:
    """Compare the records of a zip with those that ``zipfile`` reads."""
    try:
        file = zipfile.ZipFile(io.BytesIO(data))
    except ZIP_REFUSALS:
        return
    with file:
        listed = {_name(one): one for one in file.infolist() if not one.orig_filename.endswith("/")}
        assert [f"{root}/{name}" for name in records] == list(listed), "not the records that zipfile lists"
        for known, one in zip(records.values(), listed.values(), strict=True):
            try:
                expected = file.read(one)
            except ZIP_REFUSALS:
                continue
            assert known == expected, "not the bytes that zipfile reads"


def _name(one: zipfile.ZipInfo) -> str:
    encoding = "utf-8" if one.flag_bits & UTF8 else "cp437"
    return one.orig_filename.encode(encoding).decode("utf-8", "surrogateescape")
