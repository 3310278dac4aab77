"""The model's functions as copies: with globals and cells of their own; the real ones stay as they are.

Names are looked up when they are needed. What a function stores stays in the copy's globals or cell; who
looks there afterwards knows what was stored. The statement that stored it is found in the function's code.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.capture.builtin import replaced_builtins
from archive.effects.capture.sites import model_frames, place, position_of
from archive.effects.capture.variables import ABSENT
from archive.formats.effects.model import ClosureCell, GlobalName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.recorder import Recorder
    from archive.effects.capture.sites import Place
    from archive.formats.effects.model import Source

OWN_NAMES = ("__builtins__", "__name__", "__package__", "__spec__", "__file__")
LIBRARIES = frozenset({"torch", "numpy", *sys.stdlib_module_names}) - {"__main__"}
STORES = ("STORE_GLOBAL", "DELETE_GLOBAL")


def model_code(module: object) -> bool:
    """Whether a Python module's code is a model's, and no library's that runs as it is."""
    return isinstance(module, str) and module.partition(".")[0] not in LIBRARIES


class Globals(dict[str, Any]):
    """Globals of copied functions: real ones wrapped when they are read, and what the copies have stored.

    Args:
        recorder: of the call.
        real: the real globals.
        builtins: for the copies.
    """

    def __init__(self, recorder: Recorder, real: dict[str, Any], builtins: dict[str, Any]) -> None:
        super().__init__({name: real[name] for name in OWN_NAMES if name in real})
        dict.__setitem__(self, "__builtins__", builtins)
        self.recorder, self.real = recorder, real
        self.module = str(real.get("__name__", ""))
        self.noted: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        value = self.recorder.world.global_name(self.real, name)
        if value is ABSENT:
            raise KeyError(name)
        return self.recorder.wrap(value, GlobalName(self.module, name))

    def stored(self) -> Iterator[tuple[str, Any]]:
        """What has been stored and not been noted."""
        for name, value in list(dict.items(self)):
            if name not in OWN_NAMES and self.noted.get(name, ABSENT) is not value:
                self.noted[name] = value
                yield name, value


class Namespace:
    """Stands in for a Python module of the model.

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
        names.recorder.functions.settle(None)

    def __delattr__(self, name: str) -> None:
        names = object.__getattribute__(self, "_names")
        names.recorder.refuse(f"a global that is deleted: {name}")


class Ran(NamedTuple):
    """A function that has run.

    Attributes:
        code: of it.
        stores: where it stores what.
        first: its first argument.
    """

    code: CodeType
    stores: dict[str, tuple[CodeType, int]]
    first: object


class Functions:
    """Copies functions.

    Args:
        recorder: of the call.

    Attributes:
        ambiguous: cells of functions that share a name, so that none of them can be found by it.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._builtins = replaced_builtins(recorder)
        self._globals: dict[int, Globals] = {}
        self._cells: dict[int, tuple[CellType, CellType, ClosureCell]] = {}
        self._labels: dict[ClosureCell, CellType] = {}
        self.ambiguous: set[Source] = set()
        self._contents: dict[int, object] = {}
        self._copies: dict[int, Any] = {}
        self._attributes: list[tuple[Any, Any]] = []
        self._items: dict[Source, object] = {}

    def globals_of(self, real: dict[str, Any]) -> Globals:
        """Globals for copies of functions that have these."""
        if id(real) not in self._globals:
            self._globals[id(real)] = Globals(self._recorder, real, self._builtins)
        return self._globals[id(real)]

    def namespace(self, module: ModuleType) -> Namespace:
        """What stands in for a Python module."""
        return Namespace(self.globals_of(module.__dict__))

    def copy(self, function: Any) -> Any:  # noqa: ANN401
        """A function with globals and cells of its own; a library's runs as it is, but for what it wraps."""
        if id(function) in self._copies:
            return self._copies[id(function)]
        own = model_code(function.__globals__.get("__name__"))
        if not own and not function.__closure__:
            return function
        names: Any = self.globals_of(function.__globals__) if own else function.__globals__
        label = f"{function.__module__}:{function.__qualname__}"
        cells = tuple(
            self._cell(cell, ClosureCell(label, name))
            for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True)
        )
        made = FunctionType(function.__code__, names, function.__name__, None, cells)
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        result: Any = made
        stores = stores_of(function.__code__)
        if stores and own:
            result = self._watched(made, stores)
        self._copies[id(function)] = result
        self._recorder.side_effects.keepalive.append(function)
        self._fill(function, made, own=own)
        if own:
            result.__dict__.update({k: v for k, v in function.__dict__.items() if k != "__wrapped__"})
            self._attributes.append((function, result))
        return result

    def _fill(self, function: FunctionType, made: FunctionType, *, own: bool) -> None:
        """Give a copy its defaults and what its cells hold."""
        wrap = self._recorder.wrap
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
            value = self._recorder.world.cell(cell)
            self._contents[id(cell)] = ABSENT
            if value is not ABSENT:
                followed = own or _is_own(value)
                fresh.cell_contents = self._contents[id(cell)] = wrap(value, source) if followed else value

    def _cell(self, cell: CellType, source: ClosureCell) -> CellType:
        if id(cell) not in self._cells:
            if self._labels.setdefault(source, cell) is not cell:
                source = ClosureCell(f"{source.function}#{len(self._cells)}", source.name)
                self.ambiguous |= {source, ClosureCell(source.function.partition("#")[0], source.name)}
            self._cells[id(cell)] = cell, CellType(), source
        return self._cells[id(cell)][1]

    def _watched(self, function: FunctionType, stores: dict[str, tuple[CodeType, int]]) -> Any:  # noqa: ANN401
        """A copy that says afterwards what it has stored."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            try:
                return function(*args, **kwargs)
            finally:
                self.settle(Ran(function.__code__, stores, args[0] if args else None))

        return watched

    def settle(self, ran: Ran | None) -> None:
        """Note what has been stored in globals and cells since the last time.

        Args:
            ran: the function that has; None for whoever runs now.
        """
        recorder = self._recorder
        for names in list(self._globals.values()):
            for name, value in names.stored():
                source = GlobalName(names.module, name)
                before = recorder.world.global_name(names.real, name)
                if before is not ABSENT:
                    recorder.originals.setdefault(source, before)
                self._store(source, name, value, self._place(ran, name))
        for identity, (cell, fresh, shared) in list(self._cells.items()):
            now = contents_of(fresh)
            if now is self._contents.get(identity, ABSENT):
                continue
            if now is ABSENT:
                recorder.refuse(f"a variable that is deleted: {shared.name}")
            self._contents[identity] = now
            before = recorder.world.cell(cell)
            if before is not ABSENT:
                recorder.originals.setdefault(shared, before)
            self._store(shared, shared.name, now, self._place(ran, shared.name))

    def _store(self, source: Source, name: str, value: object, at: Place | None) -> None:
        effects = self._recorder.side_effects
        if source not in self._items:
            self._items[source] = item = object()
            if isinstance(source, ClosureCell):
                effects.track_cell_existing(source, item)
            else:
                effects.track_global_existing(source, item)
        self._recorder.check_once()
        variable = effects[self._items[source]]
        self._recorder.seen_written.add(source)
        if isinstance(source, ClosureCell):
            effects.store_cell(variable, value, at)
        else:
            effects.store_global(variable, name, value, at)

    def _place(self, ran: Ran | None, name: str) -> Place | None:
        recorder = self._recorder
        if ran is None or name not in ran.stores:
            return recorder.here()
        code, instruction = ran.stores[name]
        called = code, recorder.owner_by(ran.first)
        return place(model_frames(), recorder.owner_of, position_of(code, instruction), called)

    def cell_values(self) -> Iterator[tuple[CellType, CellType]]:
        """Real cells and the copies' own."""
        return ((cell, fresh) for cell, fresh, _ in self._cells.values())

    def global_values(self) -> Iterator[Globals]:
        """All globals that copies have."""
        return iter(self._globals.values())

    def set_attributes(self) -> str | None:
        """The name of a function that has been given attributes in the call."""
        for real, copy in self._attributes:
            before = {key: value for key, value in real.__dict__.items() if key != "__wrapped__"}
            after = {key: value for key, value in copy.__dict__.items() if key != "__wrapped__"}
            if list(before) != list(after) or any(before[key] is not after[key] for key in before):
                return str(real.__qualname__)
        return None


def _is_own(value: Any) -> bool:  # noqa: ANN401
    """Whether what a library's function holds in a cell may be of the model."""
    if isinstance(value, functools.partial):
        return _is_own(value.func)
    if isinstance(value, MethodType):
        owner = value.__self__
        return isinstance(owner, torch.nn.Module) or model_code(type(owner).__module__)
    return isinstance(value, FunctionType)


def contents_of(cell: CellType) -> object:
    """What a cell holds; ``ABSENT`` if nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


@functools.cache
def stores_of(code: CodeType) -> dict[str, tuple[CodeType, int]]:
    """Where some code stores globals and what it shares with functions around it: the last place of each."""
    found: dict[str, tuple[CodeType, int]] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = stores_of(constant).items()
            found |= {name: at for name, at in inner if name not in code.co_cellvars}
    for instruction in dis.get_instructions(code):
        own = instruction.opname in STORES
        shared = instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and (
            instruction.argval in code.co_freevars
        )
        if own or shared:
            found[instruction.argval] = code, instruction.offset // 2
    return found
