"""The state of a captured module, made again from its table in a process without the module's classes."""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.replay.state import ABSENT, Plain, State, StateError
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    GlobalName,
    Item,
    Local,
    Made,
    Op,
    Stored,
)
from archive.formats.effects.parts import reads, root_of
from archive.formats.effects.rows import Numbering
from archive.formats.effects.source_text import source_text, value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.formats.effects.model import Effect, EffectTable, Source, Value


class Building:
    """A state in the making.

    What a place holds is made once: by its row in the table; where it has none but others are under it, as a
    plain object. Containers are there before their items, so that they may hold themselves.

    Args:
        table: what the state was.
        tensors: by number.
    """

    def __init__(self, table: EffectTable, tensors: Sequence[object] | Mapping[int, object]) -> None:
        self._tensors = tensors if isinstance(tensors, Mapping) else dict(enumerate(tensors))
        self._numbering = Numbering()
        self._rows = {self._numbering.source(source): (source, value) for source, value in table.state}
        self._methods = table.methods
        self._made: dict[int, Any] = {}
        self._making: set[int] = set()
        self._globals: dict[str, dict[str, Any]] = {}
        self._cells: dict[tuple[str, str], CellType | None] = {}
        self._self = Plain()

    def state(self) -> State:
        """The state.

        Raises:
            StateError: a tensor is missing, or what lived somewhere can't be put there.
        """
        source: Source = Local("self")
        try:
            for source, _ in self._rows.values():
                if _root(source) in (None, "self"):
                    self._put(source, self._at(source))
            for method in self._methods:
                for effect in method.effects:
                    source = effect.source
                    self._prepare(effect)
        except StateError as error:
            raise StateError(f"{source_text(source)}: {error}") from None
        except RecursionError:
            raise StateError(f"{source_text(source)}: too deep to be made") from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise StateError(f"{source_text(source)}: {type(error).__name__}: {error}") from error
        return State({"self": self._self}, self._globals, self._cells)

    def _at(self, source: Source) -> Any:  # noqa: ANN401
        """What lives somewhere, made if it isn't there."""
        number = self._numbering.source(source)
        if number in self._made:
            return self._made[number]
        if source == Local("self"):
            return self._self
        if number in self._making:
            raise StateError("what it is is said of it in a circle")
        self._making.add(number)
        if number in self._rows:
            value = self._value(self._rows[number][1], number)
        else:
            value = self._there(source)
            value = Plain() if value is ABSENT else value
        self._making.discard(number)
        self._made[number] = value
        return value

    def _there(self, source: Source) -> Any:  # noqa: ANN401
        """What is somewhere already, as a part of something else."""
        if isinstance(source, Attribute):
            return getattr(self._at(source.base), source.name, ABSENT)
        if isinstance(source, Item):
            base = self._at(source.base)
            try:
                return base[source.key]
            except (LookupError, TypeError):
                return ABSENT
        return ABSENT

    def _value(self, value: Value, number: int | None = None) -> Any:  # noqa: ANN401, PLR0911
        """A value; a container is known by the number of its place before it has items."""
        match value:
            case Constant(literal):
                return literal
            case At(source):
                return self._at(source)
            case Stored(which):
                if which not in self._tensors:
                    raise StateError(f"tensor {which} is missing")
                return self._tensors[which]
            case Made("list", items):
                made: list[Any] = []
                self._note(number, made)
                made += [self._value(item) for item in items]
                return made
            case Made("dict", items):
                pairs: dict[Any, Any] = {}
                self._note(number, pairs)
                for key, item in zip(items[::2], items[1::2], strict=True):
                    pairs[self._value(key)] = self._value(item)
                return pairs
            case Made("tuple", items):
                return tuple(self._value(item) for item in items)
            case Made("size", items):
                return torch.Size(self._value(item) for item in items)
        raise StateError(f"{value_text(value)} is no state")

    def _note(self, number: int | None, made: object) -> None:
        if number is not None:
            self._made[number] = made

    def _put(self, source: Source, value: Any) -> None:  # noqa: ANN401
        """Put something where it lives, unless it is there."""
        match source:
            case Attribute(base, name):
                holder = self._holder(base)
                if getattr(holder, name, ABSENT) is not value:
                    setattr(holder, name, value)
            case Item(base, key):
                self._put_item(self._holder(base), key, value)
            case GlobalName(module, name):
                self._globals.setdefault(module, {})[name] = value
            case ClosureCell(function, name):
                self._cells[function, name] = CellType(value)

    def _put_item(self, holder: Any, key: Any, value: Any) -> None:  # noqa: ANN401
        if isinstance(holder, list) and type(key) is int and key == len(holder):
            holder.append(value)
            return
        try:
            there = holder[key]
        except LookupError:
            there = ABSENT
        if there is not value:
            holder[key] = value

    def _holder(self, base: Source) -> Any:  # noqa: ANN401
        """What something is in; it is itself put where it lives."""
        holder = self._at(base)
        if isinstance(base, Attribute | Item) or self._numbering.source(base) not in self._rows:
            self._put(base, holder)
        return holder

    def _prepare(self, effect: Effect) -> None:
        """Have what an effect changes, and what it puts there, even if nothing is said of it."""
        source = effect.source
        if effect.op is Op.SET_GLOBAL and isinstance(source, GlobalName):
            self._globals.setdefault(source.module, {})
        elif effect.op is Op.SET_CELL and isinstance(source, ClosureCell):
            self._cells.setdefault((source.function, source.name), CellType())
        else:
            self._find(source)
        for value in (effect.key, effect.value):
            for read in () if value is None else reads(value):
                self._find(read)

    def _find(self, source: Source) -> None:
        if _root(source) == "self" and source != Local("self"):
            self._put(source, self._at(source))


def _root(source: Source) -> str | None:
    """The argument that a source is under; None where it is under none."""
    root = root_of(source)
    return root.name if isinstance(root, Local) else None
