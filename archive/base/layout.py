r"""Headers of binary files, each declared once: a tuple whose fields say how many bytes they take.

    >>> from typing import NamedTuple
    >>> class Place(NamedTuple):
    ...     line: U32
    ...     column: U16
    >>> place = BinaryLayout("place", Place, magic=b"AT")
    >>> place.size, place.offset("column")
    (8, 6)
    >>> place.pack(Place(line=7, column=3))
    b'AT\x07\x00\x00\x00\x03\x00'
    >>> place.read(b"AT\x07\x00\x00\x00\x03\x00")
    Place(line=7, column=3)

Fields stand one behind the other, with nothing between them.
"""

from __future__ import annotations

from functools import cached_property
from struct import Struct, calcsize
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar, get_type_hints

from archive.base.errors import ArchiveError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from archive.base.ranged import Bytes

# Types of fields: unsigned integers, a signed one, bytes. Each has the name that ``struct`` gives it.
U8: TypeAlias = Annotated[int, "B"]
U16: TypeAlias = Annotated[int, "H"]
U32: TypeAlias = Annotated[int, "I"]
U64: TypeAlias = Annotated[int, "Q"]
S64: TypeAlias = Annotated[int, "q"]
Bytes16: TypeAlias = Annotated[bytes, "16s"]

LITTLE, BIG = "<", ">"
"""Orders of the bytes of a number."""

T = TypeVar("T", bound=tuple[Any, ...])


class BinaryLayout(Generic[T]):
    """How a header lies in a file.

    Args:
        what: its name, for messages.
        fields: the named tuple of its fields.
        magic: the bytes that it begins with, which are none of them.
        order: LITTLE or BIG.
    """

    def __init__(self, what: str, fields: type[T], *, magic: bytes = b"", order: str = LITTLE) -> None:
        self.what, self.magic, self._fields, self._order = what, magic, fields, order

    @cached_property
    def _forms(self) -> dict[str, str]:
        """What :mod:`struct` calls each field."""
        hints = get_type_hints(self._fields, include_extras=True)
        return {name: hint.__metadata__[0] for name, hint in hints.items()}

    @cached_property
    def _struct(self) -> Struct:
        return Struct(f"{self._order}{len(self.magic)}s" + "".join(self._forms.values()))

    @cached_property
    def size(self) -> int:
        """Its length in bytes, without what follows it."""
        return self._struct.size

    def offset(self, field: str) -> int:
        """Where a field begins in it."""
        names = list(self._forms)
        before = "".join(self._forms[name] for name in names[: names.index(field)])
        return len(self.magic) + calcsize(self._order + before)

    def read(self, data: Bytes, at: int = 0, stop: int | None = None) -> T:
        """The header at byte ``at``, before byte ``stop``.

        Raises:
            ArchiveError: other bytes stand there, or the data end.
        """
        stop = len(data) if stop is None else stop
        if at + self.size > stop:
            left = f"{max(stop - at, 0)} bytes"
            raise ArchiveError(place=f"byte {at}", expected=f"a {self.what} of {self.size} bytes", found=left)
        magic, *values = self._struct.unpack(data[at : at + self.size])
        if magic != self.magic:
            raise ArchiveError(place=f"byte {at}", expected=f"a {self.what}", found=shown(magic))
        return self._fields(*values)

    def read_all(self, data: memoryview) -> Iterator[T]:
        """The headers in some bytes, one behind the other; these are so many times its length."""
        return (self._fields(*values) for _, *values in self._struct.iter_unpack(data))

    def columns(self, data: memoryview) -> np.ndarray:
        """The headers in some bytes as one array, whose columns have the names of the fields.

        Bytes behind the last whole header are left out.
        """
        import numpy as np  # noqa: PLC0415 (single headers do without)

        numbers = {"B": "u1", "H": "u2", "I": "u4", "Q": "u8", "q": "i8"}
        fields = [(name, self._order + numbers[form]) for name, form in self._forms.items()]
        return np.frombuffer(data, fields, len(data) // self.size)

    def pack(self, header: T) -> bytes:
        """The header's bytes."""
        return self._struct.pack(self.magic, *header)
