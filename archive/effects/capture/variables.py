"""What the table of effects follows: lists, dicts, objects, cells and globals, each by one variable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from archive.effects.capture.sites import Place
    from archive.formats.effects.model import Op, Source


class Kind(StrEnum):
    """What a variable stands for."""

    LIST = "list"
    DICT = "dict"
    OBJECT = "object"
    CELL = "cell"
    GLOBAL = "global"
    OTHER = "other"  # functions, classes and the like: passed on, never changed


class MutationType(Enum):
    """How a variable may change, by the original's names."""

    VALUE_EXISTING = "ValueMutationExisting"
    ATTRIBUTE_EXISTING = "AttributeMutationExisting"
    ATTRIBUTE_NEW = "AttributeMutationNew"


class Deleted(Enum):
    """What an attribute is that has been deleted."""

    DELETED = "deleted"


class Absent(Enum):
    """What is not there."""

    ABSENT = "absent"


DELETED: Final = Deleted.DELETED
ABSENT: Final = Absent.ABSENT


@dataclass(slots=True, eq=False)
class Variable:
    """What stands for one object; there is one per object.

    Attributes:
        kind: of the object.
        source: where it lives; None for what has been made in this call.
        class_name: of a new object, as ``module:qualname``.
        contents: of a cell, before any effect.
    """

    kind: Kind
    source: Source | None = None
    class_name: str | None = None
    contents: object = ABSENT

    @property
    def mutation_type(self) -> MutationType | None:
        """How it may change; None for what never does."""
        if self.kind is Kind.OTHER:
            return None
        if self.kind in (Kind.LIST, Kind.DICT):
            return MutationType.VALUE_EXISTING
        return MutationType.ATTRIBUTE_EXISTING if self.source is not None else MutationType.ATTRIBUTE_NEW


@dataclass(frozen=True, slots=True)
class Change:
    """One mutation of a list, a dict or a tensor.

    Attributes:
        order: of all changes, from 0.
        op: what is done.
        target: to what; a source for tensors.
        key: which item, where there is one.
        value: what is put there, where there is one.
        place: the model's statement.
    """

    order: int
    op: Op
    target: Variable | Source
    key: object = ABSENT
    value: object = ABSENT
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Hook:
    """A tensor's hook: what it is on, its function as ``module:qualname``, and the model's statement."""

    tensor: object
    function: str
    place: Place | None = None
