"""Values of pickles → bytes, and elements of tensors → digests: one way, whoever wrote them.

Each value begins with a letter for its kind; texts and containers say their length. A list, dict or object
that was written before is its number: so values that are shared differ from copies. A set is sorted. A tensor
is the digest of what it holds, wherever its storage lies; devices are left out. Nothing is executed.

The elements of a tensor are hashed in logical order, little-endian, in pieces of 8 MiB, the last one shorter.
Their digest is the sha256 of the concatenated sha256 of all pieces: so a large tensor takes all
cores. The digest of a tensor is that of its properties (:func:`archive.compare.sameness.properties_of`) and
elements.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.cores import Cores
from archive.base.errors import ArchiveError, in_file
from archive.compare.sameness import properties_of
from archive.formats.record_kinds import DATA_FOLDER
from archive.formats.tensors.elements import READ_BYTES, READ_TIMES, elements
from archive.formats.tensors.pickled import tensor_of, tensor_parts
from archive.pickles.ops import float_bytes
from archive.pickles.values import Global, Inert, bytes_of, set_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.formats.tensors.tensor import Tensor
    from archive.reader.tensors import Tensors

STORAGE_PARTS = 5
"""Elements of a storage's persistent id."""
REDUCED = "reduce_package"
"""How the name of a TorchScript module in a package begins. An address in the process follows."""
Work = list[object]


class ValueBytes:
    """Bytes of values.

    Args:
        place: gives the record of a storage by its key.
        text: what stands for a text.
        name: what stands for the name of a class.
        folder: of the values' tensors.
        script: whether TorchScript wrote the values. In others a list or tuple is written as an object.
    """

    def __init__(
        self,
        contents: TensorDigests,
        place: Callable[[str], str],
        text: Callable[[str], str] = str,
        name: Callable[[str], str] = str,
        *,
        folder: str = DATA_FOLDER,
        script: bool = True,
    ) -> None:
        self._contents = contents
        self._place, self._text, self._name = place, text, name
        self._folder, self._script = folder, script
        self._numbers: dict[int, int] = {}
        self._held: list[object] = []

    def written(self, value: object) -> bytes:
        """The bytes of a value."""
        pieces: list[bytes] = []
        stack: Work = [value]
        while stack:
            head, parts = self._taken(stack.pop())
            memory.take(memory.TEXT + len(head), "values")
            pieces.append(head)
            stack += reversed(parts)
        return b"".join(pieces)

    def _taken(self, value: object) -> tuple[bytes, Work]:
        """What a value's bytes begin with, and the values that follow."""
        plain = self._plain(bytes_of(value))
        if plain is not None:
            return plain, []
        members = set_of(value)
        is_frozen = (isinstance(value, Inert) and value.what == "persistent") or (
            members is not None and members[0] == "frozenset"
        )
        if isinstance(value, list | dict | Inert) and not is_frozen:
            if id(value) in self._numbers:
                return _numbered(b"R", self._numbers[id(value)]), []
            self._numbers[id(value)] = len(self._numbers)
            self._held.append(value)  # so that no other value gets its id
        head = None if members is None else self._set(*members)
        if head is not None:
            return head, []
        tensor = tensor_of(value)
        if tensor is not None:
            digest = self._contents.of(tensor.at(self._place(tensor.record.removeprefix(self._folder))))
            parts = tensor_parts(value).values()
            return _numbered(b"T", len(parts)) + digest, list(parts)
        return self._held_by(value)

    def _plain(self, value: object) -> bytes | None:
        if isinstance(value, str):
            return _sized(b"S", _utf8(self._text(value)))
        if value is None:
            return b"N"
        if isinstance(value, bool):
            return b"Y" if value else b"n"
        if isinstance(value, int):
            return _sized(b"I", b"%d" % value)
        if isinstance(value, float):
            return b"F" + float_bytes(value)
        if isinstance(value, bytes | bytearray):
            return _sized(b"B", bytes(value))
        return _sized(b"G", _utf8(self._name(str(value)))) if isinstance(value, Global) else None

    def _set(self, kind: str, elements: Iterable[object]) -> bytes | None:
        """A set, sorted, as a process decides its order. None if it has other values than plain ones."""
        encoded = []
        for element in elements:
            plain = self._plain(bytes_of(element))
            if plain is None:
                return None
            memory.take(memory.TEXT + len(plain), "values")
            encoded.append(plain)
        return _numbered(_sized(b"E", kind.encode()), len(encoded)) + b"".join(sorted(encoded))

    def _held_by(self, value: object) -> tuple[bytes, Work]:
        match value:
            case tuple() | list():
                if not self._script:
                    return _object(type(value).__name__, items=value)
                if _is_storage(value):
                    return self._storage(value)
                return _numbered(b"L" if isinstance(value, list) else b"U", len(value)), list(value)
            case dict():
                return _numbered(b"D", len(value)), [part for pair in value.items() for part in pair]
            case Inert() if self._script:
                return b"O", [value.what, value.arguments, value.state]
            case Inert(what="persistent", arguments=[[_, *_] as items]):
                if _is_storage(items):
                    return self._storage(items)
                named = [REDUCED, *items[2:]] if items[0] == REDUCED else items
                return _numbered(b"P", len(named)), list(named)
            case Inert():
                return _object(value.what, value.arguments, value.items, value.pairs, value.state)
        raise ArchiveError(expected="a value of a pickle", found=type(value).__name__)

    def _storage(self, items: Iterable[object]) -> tuple[bytes, Work]:
        _, kind, key, *_ = items
        digest = self._contents.of_storage(self._place(str(key)))
        return b"A" + digest, [kind]


def _object(
    what: object,
    arguments: Sequence[object] = (),
    items: Sequence[object] = (),
    pairs: Sequence[tuple[object, object]] = (),
    state: object = None,
) -> tuple[bytes, Work]:
    sizes = (len(arguments), len(items), len(pairs))
    head = b"V" + b"".join(_numbered(b"", size) for size in sizes)
    return head, [what, *arguments, *items, *(part for pair in pairs for part in pair), state]


def _is_storage(items: object) -> bool:
    return (
        isinstance(items, list | tuple)
        and len(items) >= STORAGE_PARTS
        and items[0] == "storage"
        and isinstance(items[1], Global)
    )


def _sized(kind: bytes, data: bytes) -> bytes:
    return _numbered(kind, len(data)) + data


def _numbered(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(8, "big")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --- tensors

PIECE = 1 << 23
"""Bytes of elements that have a digest of their own."""


class TensorDigests:
    """The digests of an archive's tensors and storages, each computed once."""

    def __init__(self, tensors: Tensors, file: str, size: int) -> None:
        self._tensors, self._file = tensors, file
        self._left = READ_TIMES * size + READ_BYTES
        self._cores = Cores()
        self._values: dict[str, bytes] = {}

    def of(self, tensor: Tensor) -> bytes:
        """The digest of a tensor."""
        values = self.of_elements(tensor) if tensor.record else b"meta"
        return hashlib.sha256(repr(tuple(properties_of(tensor))).encode() + values).digest()

    def of_elements(self, tensor: Tensor) -> bytes:
        """The digest of the elements of a tensor that has a storage."""
        key = tensor.key
        if key not in self._values:
            self._left -= tensor.bytes or 0
            if self._left < 0:
                raise ArchiveError("too many views of one storage", file=self._file, record=tensor.record)
            with in_file(self._file):
                storage, big = self._tensors.storage(tensor.record), self._tensors.is_big_endian
                self._values[key] = self._hashed(elements(tensor, storage, big=big))
        return self._values[key]

    def of_storage(self, record: str) -> bytes:
        """The digest of all bytes of a storage."""
        with in_file(self._file):
            return self._hashed([self._tensors.storage(record)])

    def of_bytes(self, data: memoryview) -> bytes:
        """The digest of some bytes."""
        return self._hashed([data])

    def _hashed(self, data: Iterable[memoryview]) -> bytes:
        whole = hashlib.sha256()
        for digest in self._cores.map(sha256_of, _pieces(data)):
            whole.update(digest)
        return whole.digest()


def sha256_of(data: memoryview | bytes) -> bytes:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(data).digest()


def _pieces(data: Iterable[memoryview]) -> Iterator[memoryview | bytes]:
    """Bytes in pieces of one size, the last one shorter; views where a piece is of one view."""
    rest = b""
    for view in data:
        at = 0
        if rest:
            at = min(PIECE - len(rest), len(view))
            rest += bytes(view[:at])
            if len(rest) < PIECE:
                continue
            yield rest
        while at + PIECE <= len(view):
            yield view[at : at + PIECE]
            at += PIECE
        rest = bytes(view[at:])
    if rest:
        yield rest
