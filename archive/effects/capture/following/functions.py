"""Copies of the model's functions, with globals and cells of their own; the real ones stay as they are.

Real globals are wrapped when a copy reads them. A copy's stores stay in its own globals and cells, where
``settle`` finds them after the copy has run; the function's code tells which statement stored each.

Proxies of the model's Python modules show the globals of the copies.
"""

from __future__ import annotations

import functools
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.capture.following.builtin import replaced_builtins
from archive.effects.capture.graph.function_code import (
    comparison_by_identity,
    contents_of,
    is_model_module,
    stores_of,
)
from archive.effects.capture.graph.python_numbers import NUMBERS
from archive.effects.capture.graph.sites import position_of, statement_in
from archive.effects.capture.graph.variables import ABSENT
from archive.effects.capture.proxies.containers import KINDS, ContainerType
from archive.effects.capture.proxies.tracked_set import checking, makes_sets
from archive.effects.capture.proxies.type_proxies import MathModule, NumberType, ObjectType
from archive.formats.effects.model import ClosureCell, GlobalName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.effects.capture.graph.sites import Statement
    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- model globals

OWN_NAMES = ("__builtins__", "__name__", "__package__", "__spec__", "__file__", "__warningregistry__")


class Globals(dict[str, Any]):
    """Globals of copied functions: real values, wrapped when they are read, and values that copies store.

    Args:
        call: the captured call.
        real: the real globals.
        builtins: for the copies.

    Attributes:
        noted: stored values that the table has.
    """

    def __init__(self, call: CapturedCall, real: dict[str, Any], builtins: dict[str, Any]) -> None:
        super().__init__({name: real[name] for name in OWN_NAMES if name in real})
        dict.__setitem__(self, "__builtins__", builtins)
        self.call, self.real = call, real
        self.module = str(real.get("__name__", ""))
        self.noted: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        value = self.call.snapshot.global_name(self.real, name)
        if value is ABSENT:
            raise KeyError(name)
        return self.call.wrap(value, GlobalName(self.module, name))

    def stored(self) -> Iterator[tuple[str, Any]]:
        """Names and values that were stored since the last time; they count as noted from now on."""
        for name, value in list(dict.items(self)):
            if name not in OWN_NAMES and self.noted.get(name, ABSENT) is not value:
                self.noted[name] = value
                yield name, value


class Namespace:
    """The proxy of a Python module of the model.

    Args:
        names: its globals, as the copies see them.
    """

    def __init__(self, names: Globals) -> None:
        object.__setattr__(self, "_names", names)

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
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
"""Functions of PyTorch that are copied like the model's: they make Python numbers of tensors."""


class Ran(NamedTuple):
    """A function that has run.

    Attributes:
        code: of the function.
        stores: the instruction that stores each name; see ``stores_of``.
        first: the function's first argument.
    """

    code: CodeType
    stores: dict[str, tuple[CodeType, int]]
    first: object


class Functions:
    """Copies functions, and notes what the copies store.

    Args:
        call: the captured call.

    Attributes:
        numbers: the proxies of ``int``, ``float`` and ``bool``, which the model gets instead of them.
        types: these, and the proxies of ``list``, ``dict`` and the like.
        mathematics: the proxy of ``math``.
        compares: the first statement met that asks by ``is`` which values are the same object; None if the
            model has none.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self.numbers: Mapping[type, NumberType] = {kind: NumberType(call, kind) for kind in NUMBERS}
        containers: dict[type, Any] = {kind: ContainerType(call, kind) for kind in KINDS}
        self.types: Mapping[type, Any] = {**self.numbers, **containers, object: ObjectType(call)}
        self.mathematics = MathModule(call)
        self.compares: Statement | None = None
        self._builtins = replaced_builtins(call, self.types)
        self._globals: dict[int, Globals] = {}
        self._cells: dict[int, tuple[CellType, CellType, ClosureCell]] = {}
        self._labels: dict[ClosureCell, CellType] = {}
        self._contents: dict[int, object] = {}
        self._copies: dict[int, Any] = {}
        self._originals: dict[int, FunctionType] = {}
        self._attributes: list[tuple[Any, Any]] = []
        self._items: dict[Source, object] = {}

    def globals_of(self, real: dict[str, Any]) -> Globals:
        """The globals for copies of functions that have these real ones."""
        if id(real) not in self._globals:
            self._globals[id(real)] = Globals(self._call, real, self._builtins)
        return self._globals[id(real)]

    def namespace(self, module: ModuleType) -> Namespace:
        """The proxy of a Python module."""
        return Namespace(self.globals_of(module.__dict__))

    def copy(self, function: Any) -> Any:  # noqa: ANN401
        """A copy of a function. A library's runs as it is, or in a copy whose cells hold proxies."""
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
        code = self._code(function.__code__) if own else function.__code__
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
            result.__dict__.update({k: v for k, v in function.__dict__.items() if k != "__wrapped__"})
            self._attributes.append((function, result))
        return result

    def _code(self, code: CodeType) -> CodeType:
        """The code of a copy; if the model makes sets, it looks at what it iterates."""
        if makes_sets(code):
            self._call.set_makers.add(code)
        return checking(code) if self._call.makes_sets else code

    def _fill(self, function: FunctionType, made: FunctionType, *, own: bool) -> None:
        """Give a copy its defaults and the contents of its cells."""
        wrap = self._call.wrap
        if not own:
            made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        elif function.__defaults__:
            made.__defaults__ = tuple(wrap(one, None) for one in function.__defaults__)
        if own and function.__kwdefaults__:
            made.__kwdefaults__ = {key: wrap(one, None) for key, one in function.__kwdefaults__.items()}
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

    def _watched(self, function: FunctionType, stores: dict[str, tuple[CodeType, int]]) -> Any:  # noqa: ANN401
        """A copy that notes its stores whenever it has run."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            try:
                return function(*args, **kwargs)
            finally:
                self.settle(Ran(function.__code__, stores, args[0] if args else None))

        return watched

    def settle(self, ran: Ran | None = None) -> None:
        """Note what has been stored in globals and cells since the last time.

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

    def _store(self, source: Source, name: str, value: object, at: Statement | None) -> None:
        effects = self._call.side_effects
        if source not in self._items:
            self._items[source] = item = object()
            if isinstance(source, ClosureCell):
                effects.track_cell_existing(source, item)
            else:
                effects.track_global_existing(source, item)
        self._call.check_once()
        variable = effects[self._items[source]]
        self._call.seen_written.add(source)
        if isinstance(source, ClosureCell):
            effects.store_cell(variable, value, at)
        else:
            effects.store_global(variable, name, value, at)

    def _storing_statement(self, ran: Ran | None, name: str) -> Statement | None:
        call = self._call
        if ran is None or name not in ran.stores:
            return call.here()
        code, instruction = ran.stores[name]
        called = code, call.owner_by(ran.first)
        return statement_in(call.frames(), call.owner_of, position_of(code, instruction), called)

    def original(self, copy: object) -> FunctionType | None:
        """The function that a copy is of; None if it is no copy."""
        return self._originals.get(id(copy))

    def source_of(self, cell: CellType) -> ClosureCell | None:
        """The source of a cell of copies; None for a cell that the call has made."""
        return next((source for _, fresh, source in self._cells.values() if fresh is cell), None)

    def cells(self) -> Iterator[tuple[CellType, CellType]]:
        """The real cells, each with the one of the copies."""
        return ((cell, fresh) for cell, fresh, _ in self._cells.values())

    def stored_globals(self) -> Iterator[tuple[dict[str, Any], str, object]]:
        """The globals that were stored: the real globals, the name, the value."""
        for names in self._globals.values():
            for name, value in names.noted.items():
                yield names.real, name, value

    def real(self, source: GlobalName | ClosureCell) -> object:
        """The value of a global or a cell, whatever calls have put there; ``ABSENT`` if it has none."""
        if isinstance(source, ClosureCell):
            cells = (cell for cell, _, one in self._cells.values() if one == source)
            return next(map(contents_of, cells), ABSENT)
        return (self.names(source.module) or {}).get(source.name, ABSENT)

    def names(self, module: str) -> dict[str, Any] | None:
        """The real globals of a Python module; None if no function of it was met."""
        return next((one.real for one in self._globals.values() if one.module == module), None)

    def changed_attributes(self) -> str | None:
        """The name of a function whose attributes the call has changed; None if there is none."""
        for real, copy in self._attributes:
            before = {key: value for key, value in real.__dict__.items() if key != "__wrapped__"}
            after = {key: value for key, value in copy.__dict__.items() if key != "__wrapped__"}
            if list(before) != list(after) or any(before[key] is not after[key] for key in before):
                return str(real.__qualname__)
        return None


def _is_own(value: Any) -> bool:  # noqa: ANN401
    """Whether a value in a cell of a library's function may be the model's."""
    if isinstance(value, functools.partial):
        return _is_own(value.func)
    if isinstance(value, MethodType):
        owner = value.__self__
        return isinstance(owner, torch.nn.Module) or is_model_module(type(owner).__module__)
    return isinstance(value, FunctionType)
