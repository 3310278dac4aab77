"""What a file of tensors says of itself, in one form for all formats.

Every byte of the file belongs to at most one record; bytes of no record are padding. A tensor whose bytes are
in the file has a record of its own, ``data/NAME``, or shares one with the tensors of the same storage.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeVar

    from archive.formats.record_kinds import RecordKind
    from archive.formats.tensors.tensor import Tensor
    from archive.io.ranged import Bytes

    T = TypeVar("T")

HEADER = "header"
"""The record of everything that isn't in another record or padding."""
BYTE = 8
"""Bits."""
PLACE_BYTES = 200
"""Bytes of memory that the place of a text takes."""
WINDOW, MOST_READ = 1 << 20, 1 << 28
"""Bytes of a remote file that are read for its header at first, and at most."""


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array in a file's metadata, which may be long and is not read.

    Attributes:
        count: how many values it has.
        type: their type, as the format's module names it.
    """

    count: int
    type: str

    def __str__(self) -> str:
        return f"{self.count:,} {self.type}"


Value: TypeAlias = str | int | float | bool | ArrayOf
"""A value of a file's metadata."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A record of a file that isn't a zip: one stretch of bytes, or several.

    Attributes:
        spans: the first byte of each stretch, and the byte after its last.
        width: for integers in protobuf's variable form, the bytes that each becomes; else 0.
        count: how many of these there are.
        bits: how many bits of each the record has, packed; 0 if it has all.
    """

    kind: RecordKind
    spans: tuple[tuple[int, int], ...]
    width: int = 0
    count: int = 0
    bits: int = 0

    @property
    def stored_size(self) -> int:
        """Bytes in the file."""
        return sum(stop - start for start, stop in self.spans)

    @property
    def size(self) -> int:
        """Bytes of the record when read."""
        bits = self.bits or BYTE * self.width
        return -(-bits * self.count // BYTE) if self.width else self.stored_size


@dataclass(frozen=True, slots=True)
class External:
    """Where a tensor in a file beside this one is.

    Attributes:
        file: its path below this file's folder, with slashes.
        start: the first byte.
        size: bytes.
    """

    file: str
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class ClassSource:
    """The source of a Python class, as ``torch.save`` kept it with a whole module.

    Attributes:
        file: where it was defined.
        text: the class statement.
    """

    name: str
    file: str
    text: str


@dataclass(frozen=True, slots=True)
class TensorFile:
    """What a file of tensors says of itself.

    Attributes:
        what: the kind of file in words, with details: "GGUF 3, little-endian, of 291 tensors".
        records: by name. ``header`` is everything that isn't in another record or padding.
        tensors: by name, in the order in which the file describes them. The record of each is one of
            ``records``.
        metadata: what the file says of the model; for arrays, how many values they have.
        external: of tensors in other files, where they lie; the records of these are "".
        sources: of classes, where whole modules were saved.
        imports: what Python imports to read it, and ``weights_only`` refuses.
        padding: bytes that only align others.
        is_big_endian: whether the elements are big-endian.
        version: of the format; None if its files have none.
    """

    what: str
    records: Mapping[str, FileRecord]
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, Value] = field(default_factory=dict)
    external: Mapping[str, External] = field(default_factory=dict)
    sources: Sequence[ClassSource] = ()
    imports: Sequence[str] = ()
    padding: int = 0
    is_big_endian: bool = False
    version: int | None = None


class TextPlace(NamedTuple):
    """Where a text is in a file.

    Attributes:
        start: its first byte.
        stop: the byte after its last.
        is_value: whether it is the value of the text before it, which is a key.
        is_id: whether it names a part of the model: its slashes separate scopes, not folders.
    """

    start: int
    stop: int
    is_value: bool = False
    is_id: bool = False


class CutShortError(ArchiveError):
    """The bytes at hand end before the header does."""


def with_head(data: Bytes, read: Callable[[memoryview], T]) -> T:
    """Call a header reader, giving it more and more of a remote file until that is enough.

    Args:
        read: gets the first bytes, and raises :class:`CutShortError` if they are too few.
    """
    most = min(len(data), MOST_READ)
    size = most if isinstance(data, memoryview) else WINDOW
    while True:
        try:
            with memory.part() as part:
                result, cost = read(data[: min(size, most)]), part.taken
        except CutShortError:
            if size >= most:
                expected = f"a header of at most {MOST_READ:,} bytes"
                raise ArchiveError(expected=expected, found="a longer one") from None
            size *= 4
        else:
            memory.take(cost, "what the file's beginning says")
            return result


def header_around(size: int, spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The stretches of a file between given ones, which do not touch.

    Args:
        spans: the first byte of each, and the byte after its last.
    """
    around, at = [], 0
    for start, stop in sorted(spans):
        if start > at:
            around.append((at, start))
        at = max(at, stop)
    return (*around, (at, size)) if at < size else tuple(around)


def take_tensor(name: str) -> None:
    """Ask for the memory of a tensor."""
    most = memory.limits().name_bytes
    if len(name) > most:
        raise ArchiveError(expected=f"a name of at most {most:,} characters", found=f"{len(name):,}")
    memory.take(8 * memory.ROW + 8 * len(name), "tensors")


def twice(what: str, name: str) -> ArchiveError:
    """The error for a name that occurs twice."""
    return ArchiveError(f"{what} {shown(name)} is there twice")
