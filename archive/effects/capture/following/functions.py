"""Copies of the model's functions, with their own globals, cells and builtins; the real ones stay unchanged.

Real globals are wrapped when a copy reads them. A copy's stores stay in its own globals and cells, where
``settle`` finds them after the copy has run; the function's code shows which statement stored each.

Proxies of the model's Python modules show the globals of the copies.
"""

from __future__ import annotations

import builtins
import dis
import functools
from contextlib import suppress
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.capture.following.builtin_functions import replaced_builtins
from archive.effects.capture.graph.scalars import NUMBERS
from archive.effects.capture.graph.sites import (
    comparison_by_identity,
    contents_of,
    is_model_module,
    position_of,
    statement_in,
    stores_of,
)
from archive.effects.capture.graph.variables import (
    VariableKind,
)
from archive.effects.capture.proxies.containers import ContainerType
from archive.effects.capture.proxies.tracked_set import (
    checking,
    makes_sets,
)
from archive.effects.capture.proxies.type_proxies import MathModule, NumberType, ObjectType
from archive.effects.code import codes_in
from archive.effects.placeholders import ABSENT
from archive.effects.places import CONTAINERS
from archive.formats.effects.model import ClosureCell, GlobalName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.effects.capture.graph.sites import ModelStatement
    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- model globals

OWN_NAMES = ("__builtins__", "__name__", "__package__", "__spec__", "__file__", "__warningregistry__")


class Globals(dict[str, Any]):
    """Globals of copied functions: real values, wrapped when they are read, and values that copies store.

    Attributes:
        noted: stored values that the table has.
    """

    def __init__(self, call: CapturedCall, real: dict[str, Any], builtins: dict[str, Any]) -> None:
        super().__init__({name: real[name] for name in OWN_NAMES if name in real})
        dict.__setitem__(self, "__builtins__", builtins)
        self.call, self.real = call, real
        self.module = str(real.get("__name__", ""))
        self.noted: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:
        value = self.call.snapshot.global_name(self.real, name)
        if value is ABSENT:
            raise KeyError(name)
        return self.call.wrap(value, GlobalName(self.module, name))

    def get(self, name: str, default: Any = None) -> Any:
        """What the model finds when it asks for the dict of its globals."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return self.get(name, ABSENT) is not ABSENT  # type: ignore[arg-type]

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Set a global that does not exist."""
        if name not in self:
            self[name] = default
        return self[name]

    def stored(self) -> Iterator[tuple[str, Any]]:
        """Names and values stored since the last time; they count as noted from now on."""
        for name, value in list(dict.items(self)):
            if name not in OWN_NAMES and self.noted.get(name, ABSENT) is not value:
                self.noted[name] = value
                yield name, value


def _refusing(name: str) -> Any:
    def method(self: Globals, *_: object, **__: object) -> Any:
        return self.call.refuse(f"{name} of globals(): it would be of all globals that there are")

    return method


for _name in ("__iter__", "__len__", "__reversed__", "__or__", "__ror__", "__ior__", "__eq__", "copy"):
    setattr(Globals, _name, _refusing(_name))
for _name in ("items", "keys", "values", "pop", "popitem", "clear", "update", "__delitem__"):
    setattr(Globals, _name, _refusing(_name))


class Namespace:
    """The proxy of a Python module of the model."""

    def __init__(self, names: Globals) -> None:
        object.__setattr__(self, "_names", names)

    def __getattribute__(self, name: str) -> Any:
        names = object.__getattribute__(self, "_names")
        try:
            return names[name]
        except KeyError:
            raise AttributeError(f"module {names.module!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        names = object.__getattribute__(self, "_names")
        dict.__setitem__(names, name, value)
        names.call.functions.settle()

    def __delattr__(self, name: str) -> None:
        names = object.__getattribute__(self, "_names")
        names.call.refuse(f"a global that is deleted: {name}")


# --- functions

OF_PYTORCH = (torch.nn.modules.batchnorm._BatchNorm.forward,)
"""Functions of PyTorch that are copied like the model's: they make Python numbers from tensors."""


class Ran(NamedTuple):
    """A function that has run.

    Attributes:
        stores: the instruction that stores each name; see ``stores_of``.
    """

    code: CodeType
    stores: dict[str, tuple[CodeType, int]]
    first: object


class Functions:
    """Copies functions, and notes what the copies store.

    Attributes:
        types: these, and the proxies of ``list``, ``dict`` and the like.
        compares: the first statement met that compares the identity of values by ``is``, or None.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self.numbers: Mapping[type, NumberType] = {kind: NumberType(call, kind) for kind in NUMBERS}
        containers: dict[type, Any] = {kind: ContainerType(call, kind) for kind in CONTAINERS}
        self.types: Mapping[type, Any] = {**self.numbers, **containers, object: ObjectType(call)}
        self.mathematics = MathModule(call)
        self.compares: ModelStatement | None = None
        self._builtins = replaced_builtins(call, self.types)
        self._stand_ins = {
            id(real): self._builtins[name]
            for name, real in vars(builtins).items()
            if self._builtins[name] is not real
        }
        self._globals: dict[int, Globals] = {}
        self._cells: dict[int, tuple[CellType, CellType, ClosureCell]] = {}
        self._labels: dict[ClosureCell, CellType] = {}
        self._contents: dict[int, object] = {}
        self._copies: dict[int, Any] = {}
        self._originals: dict[int, FunctionType] = {}
        self._attributes: list[tuple[Any, Any]] = []
        self._items: dict[Source, object] = {}

    def in_place_of(self, value: object) -> Any:
        """What copies get under the name of a builtin, however else they find it; None for other values."""
        return self._stand_ins.get(id(value))

    def globals_of(self, real: dict[str, Any]) -> Globals:
        """The globals for copies of functions that have these real ones."""
        if id(real) not in self._globals:
            self._globals[id(real)] = Globals(self._call, real, self._builtins)
        return self._globals[id(real)]

    def namespace(self, module: ModuleType) -> Namespace:
        """The proxy of a Python module."""
        return Namespace(self.globals_of(module.__dict__))

    def copy(self, function: Any) -> Any:
        """A copy of a function. A library's function runs as it is, or in a copy whose cells hold proxies."""
        if id(function) in self._copies:
            return self._copies[id(function)]
        if isinstance(function.__globals__, Globals):
            return function  # made by a copy in this call
        own = is_model_module(function.__globals__.get("__name__")) or function in OF_PYTORCH
        if not own and not function.__closure__:
            return function
        names: Any = self.globals_of(function.__globals__) if own else function.__globals__
        compared = comparison_by_identity(function.__code__) if own and self.compares is None else None
        if compared is not None:
            called = compared[0], None
            self.compares = statement_in([], self._call.owner_of, position_of(*compared), called)
        label = f"{function.__module__}:{function.__qualname__}"
        cells = tuple(
            self._cell(cell, ClosureCell(label, name))
            for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True)
        )
        code = function.__code__
        if own and makes_sets(code):
            self._call.seen.set_makers.add(code)
        if own and self._call.makes_sets:
            code = checking(code)  # it checks what it iterates
        made = FunctionType(code, names, function.__name__, None, cells)
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        result: Any = made
        stores = stores_of(code)
        if stores and own:
            result = self._watched(made, stores)
        self._copies[id(function)] = result
        self._originals[id(result)] = self._originals[id(made)] = function
        self._call.side_effects.keepalive.append(function)
        self._fill(function, made, own=own)
        if own:
            with suppress(NameError):  # Python 3.14 asks for names only now
                held = function.__annotations__.items()
                result.__annotations__ = {name: self._named_type(kind) for name, kind in held}
                made.__annotations__ = result.__annotations__
            result.__dict__.update({k: v for k, v in function.__dict__.items() if k != "__wrapped__"})
            self._attributes.append((function, result))
        return result

    def _named_type(self, kind: Any) -> Any:
        """A type in an annotation, as the model has it under its name."""
        return self.types.get(kind, kind) if isinstance(kind, type) else kind

    def _fill(self, function: FunctionType, made: FunctionType, *, own: bool) -> None:
        """Give a copy its defaults and the contents of its cells."""
        wrap = self._call.wrap
        if not own:
            made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        elif function.__defaults__:
            made.__defaults__ = tuple(wrap(default, None) for default in function.__defaults__)
        if own and function.__kwdefaults__:
            made.__kwdefaults__ = {
                key: wrap(default, None) for key, default in function.__kwdefaults__.items()
            }
        for cell in function.__closure__ or ():
            _, fresh, source = self._cells[id(cell)]
            if id(cell) in self._contents:
                continue
            value = self._call.snapshot.cell(cell)
            self._contents[id(cell)] = ABSENT
            if value is not ABSENT:
                followed = own or _is_own(value)
                fresh.cell_contents = self._contents[id(cell)] = wrap(value, source) if followed else value

    def _cell(self, cell: CellType, source: ClosureCell) -> CellType:
        if id(cell) not in self._cells:
            if self._labels.setdefault(source, cell) is not cell:
                source = ClosureCell(f"{source.function}#{len(self._cells)}", source.name)
                self._call.ambiguous |= {source, ClosureCell(source.function.partition("#")[0], source.name)}
            self._cells[id(cell)] = cell, CellType(), source
        return self._cells[id(cell)][1]

    def _watched(self, function: FunctionType, stores: dict[str, tuple[CodeType, int]]) -> Any:
        """A copy that notes its stores whenever it has run."""
        ran, settle = Ran, self.settle

        def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                settle(ran(function.__code__, stores, args[0] if args else None))

        # The model may ask for its function's globals.
        made = FunctionType(watched.__code__, function.__globals__, None, None, watched.__closure__)
        return functools.wraps(function)(made)

    def settle(self, ran: Ran | None = None) -> None:
        """Note what was stored in globals and cells since the last time.

        Args:
            ran: the function that stored it; None for the code that runs now.
        """
        call = self._call
        for names in list(self._globals.values()):
            for name, value in names.stored():
                source = GlobalName(names.module, name)
                before = call.snapshot.global_name(names.real, name)
                if before is not ABSENT:
                    call.originals.setdefault(source, before)
                self._store(source, name, value, self._storing_statement(ran, name))
        for identity, (cell, fresh, shared) in list(self._cells.items()):
            now = contents_of(fresh)
            if now is self._contents.get(identity, ABSENT):
                continue
            if now is ABSENT:
                call.refuse(f"a variable that is deleted: {shared.name}")
            self._contents[identity] = now
            before = call.snapshot.cell(cell)
            if before is not ABSENT:
                call.originals.setdefault(shared, before)
            self._store(shared, shared.name, now, self._storing_statement(ran, shared.name))

    def _store(self, source: Source, name: str, value: object, at: ModelStatement | None) -> None:
        effects = self._call.side_effects
        if source not in self._items:
            self._items[source] = item = object()
            kind = VariableKind.CELL if isinstance(source, ClosureCell) else VariableKind.GLOBAL
            effects.track(kind, source, item)
        self._call.check_once()
        self._call.seen_written.add(source)
        effects.store_attr(effects[self._items[source]], name, value, statement=at)

    def _storing_statement(self, ran: Ran | None, name: str) -> ModelStatement | None:
        call = self._call
        if ran is None or name not in ran.stores:
            return call.here()
        code, instruction = ran.stores[name]
        called = code, call.owner_by(ran.first)
        return statement_in(call.frames(), call.owner_of, position_of(code, instruction), called)

    def original(self, copy: object) -> FunctionType | None:
        """The function that was copied; None if the value isn't a copy."""
        return self._originals.get(id(copy))

    def source_of(self, cell: CellType) -> ClosureCell | None:
        """The source of a cell of copies; None for a cell that the call created."""
        return next((source for _, fresh, source in self._cells.values() if fresh is cell), None)

    def stored_cells(self) -> Iterator[tuple[CellType, CellType]]:
        """The real cells in which the call stored something, each with the cell of the copies."""
        return ((cell, fresh) for cell, fresh, source in self._cells.values() if source in self._items)

    def stored_globals(self) -> Iterator[tuple[dict[str, Any], str, object]]:
        """The globals that were stored: the real globals, the name, the value."""
        for names in self._globals.values():
            for name, value in names.noted.items():
                yield names.real, name, value

    def real(self, source: GlobalName | ClosureCell) -> object:
        """The value of a global or a cell, whatever calls have put there; ``ABSENT`` if it has none."""
        if isinstance(source, ClosureCell):
            cells = (cell for cell, _, place_of_cell in self._cells.values() if place_of_cell == source)
            return next(map(contents_of, cells), ABSENT)
        return (self.names(source.module) or {}).get(source.name, ABSENT)

    def names(self, module: str) -> dict[str, Any] | None:
        """The real globals of a Python module; None if no function of it was met."""
        return next((names.real for names in self._globals.values() if names.module == module), None)

    def copied(self) -> Iterator[FunctionType]:
        """The functions that were copied."""
        return (function for function in self._originals.values())

    def globals_read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The real globals of these functions, by the names of their Python modules."""
        return ((names.module, names.real) for names in self._globals.values())

    def cells_read(self) -> Iterator[tuple[CellType, ClosureCell]]:
        """The real cells of these functions, each with its source."""
        return ((cell, source) for cell, _, source in self._cells.values())

    def changed_attributes(self) -> tuple[str, str, tuple[str, int]] | None:
        """A function whose attributes the call changed, or None.

        Returns:
            Its name, that of the attribute, and the first line that sets an attribute of this name, if any.
        """
        for real, copy in self._attributes:
            before = {key: value for key, value in real.__dict__.items() if key != "__wrapped__"}
            after = {key: value for key, value in copy.__dict__.items() if key != "__wrapped__"}
            other = [key for key in before | after if before.get(key, ABSENT) is not after.get(key, ABSENT)]
            if other or list(before) != list(after):
                name = other[0] if other else next(iter(after), "")
                return str(real.__qualname__), name, self._setting(name)
        return None

    def _setting(self, attribute: str) -> tuple[str, int]:
        """The first line of the model's functions that sets an attribute of a name."""
        for function in self.copied():
            for code in codes_in(function.__code__):
                for step in dis.get_instructions(code):
                    if step.opname == "STORE_ATTR" and step.argval == attribute and step.positions:
                        return code.co_filename, step.positions.lineno or 0
        return "", 0


def _is_own(value: Any) -> bool:
    """Whether a value in a cell of a library's function may be the model's."""
    if isinstance(value, functools.partial):
        return _is_own(value.func)
    if isinstance(value, MethodType):
        owner = value.__self__
        return isinstance(owner, torch.nn.Module) or is_model_module(type(owner).__module__)
    return isinstance(value, FunctionType)
