"""State at capture, rebuilt from its table in a process without the module's classes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import CellType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.errors import StateError
from archive.effects.placeholders import ABSENT, Plain
from archive.effects.places import check_settable, item_or_absent, own, set_own
from archive.effects.replay.changes import set_item
from archive.effects.replay.classes import container_maker, device, dtype, real_literal, tuple_maker
from archive.formats.effects.containers import CLASS_NAMES, PAIRED, contents, parameter
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    GlobalName,
    Item,
    Length,
    Local,
    Look,
    Made,
    Op,
    Stored,
)
from archive.formats.effects.parts import is_under_argument, reads, root_of
from archive.formats.effects.rows import FactNumbers
from archive.formats.effects.source_text import source_text, value_text
from archive.formats.effects.words import ATTRIBUTE_OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.formats.effects.model import Effect, EffectTable, Source, Value

MAKERS: dict[str, Any] = {
    "tuple": tuple,
    "size": torch.Size,
    "dtype": lambda items: dtype(*items),
    "device": lambda items: device(*items),
}
"""Functions that make immutable values from their items, by kind."""

MOST_HASHED = 1_000_000
"""Most parts of all keys in a state, each counted as often as it occurs."""


class FreshState:
    """Builds objects, globals and closure cells from the state of a table.

    The value at each source is created once: from its row in the table, or as a plain object if only sources
    below it have rows. A list or dict is registered before its items are made, so it may contain itself.
    """

    def __init__(self, table: EffectTable, tensors: Sequence[object] | Mapping[int, object]) -> None:
        self.module = Plain()
        self.globals: dict[str, dict[str, Any]] = {}
        self.cells: dict[tuple[str, str], CellType | None] = {}
        self._tensors = tensors if isinstance(tensors, Mapping) else dict(enumerate(tensors))
        self._numbering = FactNumbers()
        self._rows = {self._numbering.source(source): (source, value) for source, value in table.state}
        self._methods = table.methods
        self._set_later = {
            Attribute(effect.source, str(effect.key.value))
            for method in table.methods
            for effect in method.effects
            if effect.op in ATTRIBUTE_OPS and isinstance(effect.key, Constant)
        }
        self._made: dict[int, Any] = {}
        self._hashed = 0
        self._making: set[int] = set()

    def fill(self) -> None:
        """Make all values of the table's state, and the targets of its effects."""
        source: Source = Local("self")
        try:
            for source, _ in self._rows.values():
                if not is_under_argument(source):
                    self._put(source, self._at(source))
            for number, method in enumerate(self._methods):
                later = number > 0 and self._methods[number - 1].method == method.method
                for effect in method.effects:
                    source = effect.source
                    self._prepare(effect, later=later)
                for guard in method.guards:
                    if guard.look in (Look.HOOKS, Look.ATTRIBUTE) and isinstance(guard.subject, At):
                        source = guard.subject.source
                        self._ensure(source, later=later)
                        self._ensure_class(source)
        except StateError as error:
            raise StateError(f"{source_text(source)}: {error}") from None
        except RecursionError:
            raise StateError(f"{source_text(source)}: too deep to be made") from None
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise StateError(f"{source_text(source)}: {type(error).__name__}: {error}") from error

    def _at(self, source: Source) -> Any:
        """The value at a source, created at the first request."""
        number = self._numbering.source(source)
        if number in self._made:
            return self._made[number]
        if source == Local("self"):
            return self.module
        if number in self._making:
            raise StateError("the value refers to itself in a circle")
        self._making.add(number)
        if number in self._rows:
            value = self._value(self._rows[number][1], source)
        else:
            value = ABSENT  # a part of the object above, if that has it
            if isinstance(source, Attribute):
                holder = self._at(source.base)
                value = own(holder, source.name)
                if value is ABSENT:
                    check_settable(holder, source.name)
            elif isinstance(source, Item):
                value = item_or_absent(self._at(source.base), real_literal(source.key))
            if value is ABSENT:
                value = Plain()
        self._making.discard(number)
        self._made[number] = value
        return value

    def _value(self, value: Value, source: Source | None = None) -> Any:
        """A value; a container is registered at its source before it has items, which may be read there."""
        match value:
            case Constant(literal):
                return real_literal(literal)
            case At(source):
                return self._at(source)
            case Stored(which):
                if which not in self._tensors:
                    raise StateError(f"tensor {which} is missing")
                return self._tensors[which]
            case Made(kind, items) if kind in MAKERS:
                return MAKERS[kind](map(self._item, items))
            case Made("namedtuple"):
                fields: Any = parameter(value, 1)
                return tuple_maker(str(parameter(value)), fields, ())(map(self._item, contents(value)))
            case Made("view", (base, *shape)):
                return _part(self._value(base), *map(self._value, shape))
            case Made("frozenset"):
                return frozenset(map(self._value, contents(value)))
            case Made():
                return self._container(value, source)
        raise StateError(f"{value_text(value)} isn't state")

    def _item(self, value: Value) -> Any:
        """The item of a tuple under construction: what has no row, such as a function, is a plain object."""
        if isinstance(value, At) and isinstance(value.source, Item):
            number = self._numbering.source(value.source)
            if number not in self._rows:
                return self._made.setdefault(number, Plain())
        return self._value(value)

    def _key(self, value: Value) -> Any:
        """The key of a dict: Python hashes each of its parts as often as it occurs."""
        made = self._value(value)
        parts = [made]
        while parts:
            self._hashed += 1
            if self._hashed > MOST_HASHED:
                raise StateError(f"keys have more than {MOST_HASHED:,} parts")
            part = parts.pop()
            if isinstance(part, tuple | frozenset):
                parts.extend(part)
        return made

    def _container(self, value: Made, source: Source | None) -> Any:
        """A list, dict or the like, or an object of a stand-in for a class that derives from one."""
        name = str(parameter(value)) if value.kind == "subclass" else CLASS_NAMES[value.kind]
        inner = value.items[1] if value.kind == "subclass" else value
        assert isinstance(inner, Made)  # noqa: S101 (checked)
        made = container_maker(name, inner.kind, parameter(inner), ())()
        if source is not None:
            self._made[self._numbering.source(source)] = made
        inside = contents(inner)
        if inner.kind in PAIRED:
            for key, item in zip(inside[::2], inside[1::2], strict=True):
                inner_key = key.value if isinstance(key, Constant) else ABSENT
                made[self._key(key)] = self._value(item, _inside(source, inner_key, item))
        elif inner.kind == "set":
            made.update(map(self._value, inside))
        else:
            for index, item in enumerate(inside):
                made.append(self._value(item, _inside(source, index, item)))
        return made

    def _put(self, source: Source, value: Any) -> None:
        """Put a value at its source, unless it is already there."""
        match source:
            case Attribute(base, name):
                holder = self._holder(base)
                if own(holder, name) is not value:
                    set_own(holder, name, value)
            case Item(base, given):
                key = real_literal(given)
                holder = self._holder(base)
                if isinstance(holder, list | deque) and type(key) is int and key == len(holder):
                    holder.append(value)
                elif item_or_absent(holder, key) is not value:
                    set_item(holder, key, value)
            case GlobalName(module, name):
                self.globals.setdefault(module, {})[name] = value
            case ClosureCell(function, name):
                self.cells[function, name] = CellType(value)

    def _holder(self, base: Source) -> Any:
        """The object that has a place, itself put at its own source."""
        holder = self._at(base)
        if isinstance(base, Attribute | Item) or self._numbering.source(base) not in self._rows:
            self._put(base, holder)
        return holder

    def _prepare(self, effect: Effect, *, later: bool) -> None:
        """Make the targets and values of an effect that have no row.

        Args:
            later: whether the entry isn't the method's first: another entry may have to create what it needs.
        """
        source = effect.source
        if effect.op is Op.CALL:
            pass
        elif effect.op is Op.SET_GLOBAL and isinstance(source, GlobalName):
            self.globals.setdefault(source.module, {})
        elif effect.op is Op.SET_CELL and isinstance(source, ClosureCell):
            self.cells.setdefault((source.function, source.name), CellType())
        else:
            self._ensure(source, later=later)
            if effect.op in ATTRIBUTE_OPS:
                self._ensure_class(source)
        for value in (effect.key, effect.value):
            for read in () if value is None else reads(value):
                self._ensure(read, later=later)

    def _ensure(self, source: Source, *, later: bool) -> None:
        if root_of(source) != Local("self") or isinstance(source, Local | Length):
            return
        if not (later and self._may_come_later(source)):
            self._put(source, self._at(source))

    def _ensure_class(self, source: Source) -> None:
        """Make an object in place of a class, which may have no attributes yet."""
        if isinstance(root_of(source), GlobalName):
            self._put(source, self._at(source))

    def _may_come_later(self, source: Source) -> bool:
        """Whether an entry may have to create what is at a source; rows of containers have their items."""
        while isinstance(source, Attribute | Item):
            if isinstance(source, Item) or source in self._set_later:
                return True
            source = source.base
        return False


def _inside(source: Source | None, key: Any, value: Value) -> Source | None:
    """The source of a container in another one; None for other values."""
    return Item(source, key) if source is not None and key is not ABSENT and isinstance(value, Made) else None


def _part(tensor: Any, shape: Any, strides: Any, offset: int) -> Any:
    """A part of a tensor, in its memory."""
    if not isinstance(tensor, torch.Tensor):
        raise StateError("a view of what isn't a tensor")
    try:
        return tensor.detach().as_strided(shape, strides, tensor.storage_offset() + offset)
    except RuntimeError as error:
        raise StateError(str(error).partition("\n")[0]) from error
