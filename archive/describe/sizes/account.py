"""An account of a file: its pieces with their labels, and their sums by view."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.notebooks import shown_by
from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import Group, MetadataKind, RecordKind, SpareKind

if TYPE_CHECKING:
    from collections.abc import Mapping


class View(StrEnum):
    """The ways to label the bytes of a file."""

    KIND = "kind"
    PART = "part"
    RECORD = "record"
    MODULE = "module"
    SOURCE = "source"
    WEIGHTS = "weights"


class Part(StrEnum):
    """The zip's own bytes, and the parts of debug records; see :mod:`archive.describe.sizes`."""

    HEADER = "local headers"
    PADDING = "padding"
    DESCRIPTOR = "descriptors"
    DIRECTORY = "directory"
    GAP = "gaps"
    TEXT = "text"
    ROWS = "rows"
    OVERHEAD = "pickle overhead"
    UNREADABLE = "unreadable"


STRUCTURE = (Part.HEADER, Part.PADDING, Part.DESCRIPTOR, Part.DIRECTORY, Part.GAP)
"""The parts of the zip itself. They belong to no record, so each is a kind, too."""

SEPARATORS = {View.RECORD: "/", View.MODULE: ".", View.SOURCE: "/", View.WEIGHTS: "."}
"""Views whose labels are paths."""


GROUP_OF_LABEL: dict[str, Group] = {
    **{kind: kind.group for kind in RecordKind},
    **dict.fromkeys((*MetadataKind, *SpareKind), Group.DEBUG),
    **dict.fromkeys(STRUCTURE, Group.CONTAINER),
}
"""What each kind of bytes counts as. Where tensors are known, they are weights whatever their record is."""

UNNAMED = "(unnamed)"
"""What a tensor is called that is all of a file, and a step of a path that is empty."""


class Weight(NamedTuple):
    """The tensor that bytes are of; where several share them, the first.

    Attributes:
        name: of the tensor.
        dtype: of its elements.
        shape: elements a dimension.
        elements: how many of all these tensors the bytes hold; of several pieces, the first has all.
        others: how many further tensors share its storage.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    others: int


class Piece(NamedTuple):
    """Bytes of the file that have all labels in common; None where they have no label in a view.

    Attributes:
        kind: a ``RecordKind``, ``MetadataKind`` or ``SpareKind``, or one of ``STRUCTURE``.
        part: None for what isn't debug info, or not looked into.
        record: name without root; of a header, that of its record.
        module: of the record.
        source: the file of the model's source.
        stored: bytes in the file.
        inflated: bytes of the record; 0 for the zip's own.
        weight: the tensor.
    """

    kind: str
    part: str | None
    record: str | None
    module: str | None
    source: str | None
    stored: int
    inflated: int
    weight: Weight | None = None

    @property
    def group(self) -> Group:
        """What it counts as."""
        group = GROUP_OF_LABEL.get(self.kind, Group.OTHER)
        return Group.WEIGHTS if self.weight and group not in {Group.DEBUG, Group.CONTAINER} else group

    @property
    def weights(self) -> str | None:
        """The name of the tensor."""
        return self.weight.name or UNNAMED if self.weight else None

    def label(self, view: View, depth: int | None = None) -> str:
        """The piece's label in a view; below ``depth`` folders or modules, the rest of it is ``*``."""
        label: str | None = getattr(self, view)
        if label is None:
            return f"[{self.kind}]"
        if depth is None or view not in SEPARATORS:
            return str(label)
        parts = steps_of(label) if view is View.WEIGHTS else label.split(SEPARATORS[view])
        depth += not parts[0]  # an absolute path
        return label if len(parts) <= depth else SEPARATORS[view].join([*parts[:depth], "*"])


def steps_of(tensor: str) -> list[str]:
    """The steps of a tensor's path; the part of the archive stands with the first.

    >>> steps_of("model/model.pkl:encoder.weight")
    ['model/model.pkl:encoder', 'weight']
    """
    part, colon, path = tensor.partition(":")
    first, *others = [step or UNNAMED for step in (path if colon else part).split(".")]
    return [f"{part}:{first}" if colon else first, *others]


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes stored in the file, and bytes of records when inflated."""

    stored: int = 0
    inflated: int = 0

    def plus(self, other: Size) -> Size:
        """The sizes of both."""
        return Size(self.stored + other.stored, self.inflated + other.inflated)


@dataclass(frozen=True, slots=True)
class WeightSize(Size):
    """The same of tensors; how many elements they store, and of which types, in alphabetical order."""

    elements: int = 0
    dtypes: tuple[str, ...] = ()

    def plus(self, other: Size) -> WeightSize:
        """The sizes of both."""
        elements, dtypes = self.elements, set(self.dtypes)
        if isinstance(other, WeightSize):
            elements, dtypes = elements + other.elements, dtypes | set(other.dtypes)
        stored, inflated = self.stored + other.stored, self.inflated + other.inflated
        return WeightSize(stored, inflated, elements, tuple(sorted(dtypes)))


@dataclass(frozen=True, slots=True)
class SizeChange:
    """Stored bytes of a label in the old and in the new file; None for a file without this label."""

    old: int | None
    new: int | None

    @property
    def difference(self) -> int:
        """Bytes by which the label grew."""
        return (self.new or 0) - (self.old or 0)


@dataclass(frozen=True, slots=True)
class Account:
    """The labelled bytes of a file.

    Attributes:
        file: its name.
        size: its size in bytes, which the sizes of each view add up to.
        pieces: all of its bytes, in pieces.
        is_companion: whether it is a companion, which is debug info as a whole.
    """

    file: str
    size: int
    pieces: tuple[Piece, ...] = field(repr=False)
    is_companion: bool = field(repr=False)

    _repr_html_ = shown_by("of_account")

    @property
    def debug_bytes(self) -> int:
        """Stored bytes of debug records, without headers, and of metadata; the whole size of a companion."""
        if self.is_companion:
            return self.size
        return sum(piece.stored for piece in self.pieces if piece.group is Group.DEBUG)

    def group_of(self, piece: Piece) -> Group:
        """What one of the pieces counts as; those of a companion are debug info as a whole."""
        return Group.DEBUG if self.is_companion else piece.group

    def by(self, view: View | str, depth: int | None = None) -> dict[str, Size]:
        """The sizes by label, largest first; of the view weights, each a :class:`WeightSize`.

        Args:
            view: which labels.
            depth: levels of folders or modules that labels keep: ``__torch__.torch.*`` at depth 2.

        Raises:
            ValueError: the view is unknown.
        """
        view = View(view)
        if view is View.WEIGHTS:
            return by_size(self._weights(depth))
        stored: dict[str, int] = {}
        inflated: dict[str, int] = {}
        for piece in self.pieces:
            label = piece.label(view, depth)
            stored[label] = stored.get(label, 0) + piece.stored
            inflated[label] = inflated.get(label, 0) + piece.inflated
        return by_size({label: Size(stored[label], inflated[label]) for label in stored})

    def _weights(self, depth: int | None) -> dict[str, Size]:
        sizes: dict[str, Size] = {}
        for piece in self.pieces:
            label, weight = piece.label(View.WEIGHTS, depth), piece.weight
            elements, dtypes = (weight.elements, (weight.dtype,)) if weight else (0, ())
            size = WeightSize(piece.stored, piece.inflated, elements, dtypes)
            sizes[label] = sizes[label].plus(size) if label in sizes else size
        return sizes

    def difference(self, base: Account, view: View | str, depth: int | None = None) -> dict[str, SizeChange]:
        """The changes from another file to this one, by label, largest difference first.

        Args:
            base: the other file.
            view: which labels.
            depth: as for :meth:`by`.

        Raises:
            ValueError: the view is unknown.
        """
        return changes(base.by(view, depth), self.by(view, depth))


def by_size(sizes: Mapping[str, Size]) -> dict[str, Size]:
    """The sizes by label, largest first."""
    order = sorted(sizes, key=lambda label: (-sizes[label].stored, label))
    return {label: sizes[label] for label in order}


def changes(old: Mapping[str, Size], new: Mapping[str, Size]) -> dict[str, SizeChange]:
    """The changes of stored bytes by label, largest difference first."""
    before, after = _stored(old), _stored(new)
    found = {label: SizeChange(before.get(label), after.get(label)) for label in {**before, **after}}
    order = sorted(found, key=lambda label: (-abs(found[label].difference), label))
    return {label: found[label] for label in order}


def _stored(sizes: Mapping[str, Size]) -> dict[str, int]:
    return {label: size.stored for label, size in sizes.items()}
