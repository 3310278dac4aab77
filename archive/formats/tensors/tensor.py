"""A tensor that an archive describes, and where its elements are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.keys import text_key
from archive.base.quick_dataclass import dataclass
from archive.formats.tensors.dtypes import BLOCKS, WIDTHS, bytes_of

MOST_ELEMENTS = (1 << 63) - 1
"""PyTorch counts elements with 63 bits."""
QUANTISER_PARTS = (None, "q_per_channel_scales", "q_per_channel_zero_points")
"""The parts of a quantiser that are tensors if each channel has a scale, as PyTorch calls them."""
MATH_BITS = ("conj", "neg")
"""What must still be done to the stored elements: ``torch.Tensor.is_conj``, ``is_neg``."""


def path_below(path: str, step: str) -> str:
    """The path of a value in another one: ``encoder.weight``; a step "" adds nothing."""
    return f"{path}.{step}" if path and step else path or step


def check_dimensions(count: int) -> None:
    """Refuse more dimensions than ``Limits.dimensions``."""
    most = memory.limits().dimensions
    if count > most:
        raise LimitError("dimensions", most, count)


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse too many dimensions, and more elements than any tensor has."""
    check_dimensions(len(shape))
    _check_elements(shape)


def _check_elements(shape: tuple[int, ...]) -> None:
    """Refuse more elements than any tensor has; sizes of 0 do not count."""
    if prod(filter(None, shape)) > MOST_ELEMENTS:
        raise ArchiveError(expected=f"a shape of at most {MOST_ELEMENTS:,} elements", found="one of more")


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of contiguous elements, the last dimension fastest.

    >>> row_major((3, 2))
    (2, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that an archive describes.

    Attributes:
        dtype: of its elements, as PyTorch names it: ``float32``.
        shape: elements per dimension.
        strides: elements between neighbours of a dimension.
        offset: its first element, counted from the beginning of its storage.
        record: the record that is its storage. Several tensors may share one. "" for a tensor without
            storage.
        requires_grad: whether it asks for a gradient; None if that is not recorded.
        quantiser: of a quantised tensor, the scheme's name, and its scale and zero point; or, for one with a
            scale per channel, the axis of channels: scales and zero points are then tensors of their own.
        math_bits: those of ``MATH_BITS`` that are set.
        device: that it was saved from, as PyTorch names it: ``cpu``; "" where that is not recorded.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    record: str
    requires_grad: bool | None = None
    quantiser: tuple[object, ...] = ()
    math_bits: tuple[str, ...] = ()
    device: str = ""

    def __post_init__(self) -> None:
        """Refuse a shape that no tensor has, before anything is computed from it."""
        try:
            _check_elements(self.shape)
        except ArchiveError as error:
            raise error.within(record=self.record) from None

    def at(self, record: str) -> Tensor:
        """The same tensor with another record for its storage; one without storage stays so."""
        return replace(self, record=record) if self.record else self

    def in_storage(self, record: str) -> Tensor:
        """The same tensor with a storage."""
        return replace(self, record=record)

    def __hash__(self) -> int:
        """Hash its numbers as a text, because a file chooses them."""
        return hash(self.key)

    @property
    def key(self) -> str:
        """What its elements are, and how they are read, as a key to look tensors up by."""
        return text_key(self.record, self.offset, self.strides, self.shape, self.dtype)

    @property
    def kind(self) -> str:
        """Its dtype and shape, as a key to look up tensors of a kind."""
        return text_key(self.dtype, self.shape)

    @property
    def width(self) -> int | None:
        """Bytes per element; None for an unknown dtype."""
        return WIDTHS.get(self.dtype)

    @property
    def count(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def bytes(self) -> int | None:
        """Bytes of its elements; None for an unknown dtype."""
        return bytes_of(self.dtype, self.count)

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements are contiguous, in logical order."""
        expected = 1
        if len(self.shape) != len(self.strides):
            return False
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return self.count == 0
            expected *= size
        return True

    def span(self, size: int) -> tuple[int, int]:
        """The first byte of its elements in its storage, and the byte after the last.

        Args:
            size: bytes of the storage.
        """
        if self.dtype in BLOCKS:
            return self._span_of_blocks(size)
        if self.width is None:
            raise ArchiveError(f"the width of {self.dtype} is not known here", record=self.record)
        if len(self.shape) != len(self.strides):
            raise ArchiveError(
                record=self.record,
                expected=f"{len(self.shape)} strides, one a dimension",
                found=f"{len(self.strides)}",
            )
        numbers = (*self.shape, *self.strides, self.offset)
        if min(numbers) < 0:
            raise ArchiveError(record=self.record, expected="sizes from 0 on", found=f"{min(numbers)}")
        if not self.count:
            return 0, 0
        far = sum(stride * (size - 1) for size, stride in zip(self.shape, self.strides, strict=True))
        stop = (self.offset + far + 1) * self.width
        if stop > size:
            raise ArchiveError(
                record=self.record,
                expected=f"a storage of {stop:,} bytes at least, for shape {self.shape}",
                found=f"{size:,}",
            )
        return self.offset * self.width, stop

    def _span_of_blocks(self, size: int) -> tuple[int, int]:
        """The same for a tensor of blocks, which begin with its storage and are in order."""
        stop = self.bytes or 0
        if self.offset or not self.is_contiguous or stop > size:
            expected = f"a storage of {stop:,} bytes at least, of blocks in order, for shape {self.shape}"
            raise ArchiveError(record=self.record, expected=expected, found=f"{size:,}")
        return 0, stop


class NamedTensors(dict[str, Tensor]):
    """Tensors by name. A name that was given before gets a number: ``a.b (2)``."""

    def __init__(self) -> None:
        super().__init__()
        self._again = Counter[str]()

    def free(self, name: str) -> str:
        """A name that no tensor has: both values of ``{"a.b": …, "a": {"b": …}}`` are called ``a.b``."""
        found = name
        while found in self:
            self._again[name] += 1
            found = f"{name} ({self._again[name] + 1})"
        return found

    def add(self, name: str, tensor: Tensor) -> None:
        """Add a tensor under such a name."""
        self[self.free(name)] = tensor
