"""How a case of side effects ends: eager calls against those of the loaded archive, and both states."""

from __future__ import annotations

import collections
import contextlib
import inspect
import io
import logging
import re
import warnings
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.parameter import UninitializedParameter
from torch.utils.hooks import RemovableHandle

from archive.backend import BackendError, Effectful, LoweringError, lower, lowered_archive
from archive.effects import CaptureError, GuardError, ReplayError, State
from archive.effects.capturing import capture_entries
from archive.effects.places import items_of
from archive.effects.replay.replay import prepared
from archive.formats.effects.model import Attribute, EffectTable, Local, Stored
from tests.effects.effect_cases import Cases, fresh
from tests.support.live_state import live_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.effects.replay.classes import Allowed
    from archive.formats.effects.model import Source
    from tests.effects.effect_cases import Case


CODE = (type, FunctionType, BuiltinFunctionType, ModuleType, type(torch.ops), logging.Logger, torch.autocast)
"""What is no state."""
ATOMS = (bool, int, float, complex, str, bytes, type(None), range, slice)
IMMUTABLE = (*ATOMS, torch.dtype, torch.device, torch.layout, torch.Size)
CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)
MODULE_DICTS = ("_parameters", "_buffers", "_modules")
INTERNAL = frozenset(vars(torch.nn.Module())) - {"training"}
REFUSALS = (CaptureError, LoweringError, GuardError, ReplayError, BackendError)


class Outcome(NamedTuple):
    """How a case ends.

    Attributes:
        says: what refuses it; empty if it ends equal.
        line: where.
    """

    says: str
    line: int


def outcome(kind: str, name: str, *, lowered: bool, stock: bool = False) -> Outcome:
    """Run a case.

    Args:
        kind: of the case.
        name: of the case.
        lowered: whether it is lowered, saved and loaded, or run as it was captured.
        stock: whether TorchScript runs the loaded graph.

    Raises:
        AssertionError: it does something else than the eager model.
    """
    eager = fresh(kind)
    modules = fresh(kind)
    case: Case = modules[0].CASES[name]
    model, example, allow = _made(case), case.arguments(0), dict(_code(modules))
    before = picture([state_of(model, modules), example])
    made: Direct | Effectful | Outcome
    try:
        if lowered:
            data = lowered_archive(lower(model, "aten", effects=True, example_inputs=example))
            made = Effectful.load(data, allow=allow, stock=stock)
        else:
            made = Direct(model, example, allow)
    except (CaptureError, LoweringError) as error:
        made = _refused(error, kind)
    assert picture([state_of(model, modules), example]) == before, "capture leaves everything as it was"
    assert all(one.grad is None for one in model.parameters())
    return made if isinstance(made, Outcome) else _compared(kind, eager[0].CASES[name], eager, made)


def _compared(kind: str, case: Case, modules: list[ModuleType], loaded: Direct | Effectful) -> Outcome:
    """Call both, and compare results, arguments and state after each call."""
    model = _made(case)
    unchanged = paths(state_of(model, modules))
    same = Comparing(unchanged)
    for number in range(case.calls):
        ours, theirs = case.arguments(number), case.arguments(number)
        told: tuple[list[Any], list[Any]] = [], []
        with shown(told[0]):
            wanted = model(*ours)
        try:
            with shown(told[1]):
                found = loaded(*theirs)
        except REFUSALS as error:
            return _refused(error, kind, number)
        assert told[0] == told[1], f"call {number}: what is printed"
        _backward(wanted)
        _backward(found)
        same.same([wanted, list(ours)], [found, list(theirs)], f"call {number}")
        same.same(state_of(model, modules), state_in(loaded), "")
    return Outcome("", 0)


def _made(case: Case) -> torch.nn.Module:
    torch.manual_seed(0)
    return case.make()


def _refused(error: Exception, kind: str, call: int | None = None) -> Outcome:
    """What an error says, and the line of the kind's file that it names."""
    place = re.search(rf'/cases/{kind}\.py", line (\d+)', str(error))
    says = str(error).splitlines()[0]
    return Outcome(says if call is None else f"call {call}: {says}", int(place[1]) if place else 0)


def _backward(result: Any) -> None:  # noqa: ANN401
    """Go back from all that is in a result."""
    found = [one.sum() for one in _tensors(result) if one.requires_grad and one.grad_fn is not None]
    if found:
        torch.stack(found).sum().backward(retain_graph=True)


def _tensors(value: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, list | tuple | collections.deque):
        for one in value:
            yield from _tensors(one)


def _code(modules: list[ModuleType]) -> Iterator[tuple[str, object]]:
    """Classes and functions of modules, by name."""
    for module in modules:
        for name, one in vars(module).items():
            if isinstance(one, type | FunctionType):
                yield f"{module.__name__}:{name}", one


# --- state ---------------------------------------------------------------------------------------------


def state_of(model: Any, modules: list[ModuleType]) -> SimpleNamespace:  # noqa: ANN401
    """What an eager model can change: itself, globals, variables of functions."""
    names = {
        one.__name__: {name: value for name, value in vars(one).items() if name[:2] != "__"}
        for one in modules
    }
    return _state(model, names, live_state(model).cells)


def state_in(loaded: Direct | Effectful) -> SimpleNamespace:
    """The same of a loaded one."""
    return _state(loaded.state.module, loaded.state.globals, loaded.state.cells)


def _state(model: Any, names: Mapping[str, Any], cells: Mapping[tuple[str, str], Any]) -> SimpleNamespace:  # noqa: ANN401
    held = {name: _data(values) for name, values in names.items()}
    contents = {" ".join(label): cell for label, cell in cells.items() if cell and not _holds_code(cell)}
    return SimpleNamespace(module=model, names=SimpleNamespace(**held), cells=_data(contents))


def _holds_code(cell: CellType) -> bool:
    return isinstance(getattr(cell, "cell_contents", None), CODE)


def _data(names: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(
        **{name: one for name, one in names.items() if not isinstance(one, (*CODE, Cases))},
        **{name: _class_data(one) for name, one in names.items() if isinstance(one, type)},
    )


def _class_data(cls: type) -> SimpleNamespace:
    """The attributes of a class that are data."""
    kept = (*IMMUTABLE, *CONTAINERS, torch.Tensor)
    held = {name: one for name, one in vars(cls).items() if name[:2] != "__" and isinstance(one, kept)}
    return SimpleNamespace(**held)


def _attributes(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """An object's attributes: those of its ``__dict__`` and slots, and what a module registers."""
    if isinstance(value, CellType):
        return {"cell_contents": value.cell_contents}
    held = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = [name for name in cls.__dict__.get("__slots__", ()) if name[:2] != "__"]
        held |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    for name in MODULE_DICTS:
        held |= held.get(name, {})
    return {name: one for name, one in held.items() if name not in INTERNAL and not isinstance(one, CODE)}


def _parts(value: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """What is inside a value, by the text that leads to it; keys are values themselves."""
    parts = _items(value)
    if not isinstance(value, (torch.Tensor, *IMMUTABLE)) and type(value) not in CONTAINERS:
        parts += [(f".{name}", one) for name, one in _attributes(value).items()]
    return parts


def _items(value: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """The items of a container, by the text that leads to each."""
    if isinstance(value, dict):
        return [(f"[{key!r}]" if isinstance(key, ATOMS) else "[…]", one) for key, one in items_of(value)]
    if isinstance(value, set | frozenset):
        return [("{…}", one) for one in sorted(value, key=repr)]
    return [(f"[{n}]", one) for n, one in enumerate(value)] if isinstance(value, CONTAINERS) else []


def _is_of_class(cls: type, name: str, value: object) -> bool:
    """Whether an attribute is one of the class: what stands for an object has it itself."""
    return bool(picture(inspect.getattr_static(cls, name, collections.Counter)) == picture(value))


def picture(value: Any, seen: dict[int, int] | None = None) -> Any:  # noqa: ANN401
    """All there is in a value, in its order, and what is the same object."""
    seen = {} if seen is None else seen
    if isinstance(value, (*IMMUTABLE, *CODE)):
        return type(value).__name__, repr(value)
    if not isinstance(value, tuple) and seen.setdefault(id(value), len(seen)) != len(seen) - 1:
        return "same", seen[id(value)]
    if isinstance(value, UninitializedParameter):
        return type(value).__name__
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.dtype, value.requires_grad, value._version
    return type(value).__name__, [(name, picture(one, seen)) for name, one in _parts(value)]


def paths(value: Any, path: str = "", seen: set[int] | None = None) -> dict[str, Any]:  # noqa: ANN401
    """Pictures of all attributes below a value, by path."""
    seen = set() if seen is None else seen
    found = {path: picture(value)}
    if id(value) in seen or isinstance(value, (torch.Tensor, *IMMUTABLE)):
        return found
    seen.add(id(value))
    for name, one in _parts(value):
        found |= paths(one, path + name, seen)
    return found


def _by_first_label(ours: SimpleNamespace, theirs: SimpleNamespace, before: dict[str, Any]) -> Any:  # noqa: ANN401
    """Our variables, each under one of its labels: a function's name and the variable's.

    Variables of functions that calls have made known since are none of the model's state.
    """
    labels = [one for one in vars(ours) if hasattr(theirs, one) or f".cells.{one}" in before]
    labels.sort(key=lambda label: not hasattr(theirs, label))
    first = {id(getattr(ours, label)): label for label in reversed(labels)}
    return SimpleNamespace(**{label: getattr(ours, label) for label in first.values()})


def _is_on(handle: RemovableHandle) -> bool:
    """Whether a hook has not been taken off; its tensor lives."""
    return handle.id in (handle.hooks_dict_ref() or ())


class Comparing:
    """Compares values of the eager model with those of the loaded one, call by call.

    What is one object here is one object there, in all calls.

    Args:
        before: pictures of the eager state before the first call, by path: the loaded state may lack an
            attribute or global as long as nothing changes it.
    """

    def __init__(self, before: dict[str, Any]) -> None:
        self._before = before
        self._pairs: dict[int, Any] = {}
        self._back: dict[int, Any] = {}
        self._alive: list[Any] = []
        self._done: set[int] = set()

    def same(self, ours: Any, theirs: Any, path: str) -> None:  # noqa: ANN401
        """Compare two values, and all that is in them."""
        self._done = set()
        self._same(ours, theirs, path)

    def _same(self, ours: Any, theirs: Any, path: str) -> None:  # noqa: ANN401
        if isinstance(ours, IMMUTABLE):
            assert (type(theirs), repr(theirs)) == (type(ours), repr(ours)), path
            return
        if isinstance(ours, SimpleNamespace):
            if path == ".cells":
                ours = _by_first_label(ours, theirs, self._before)
            self._named(vars(ours), vars(theirs), path)
            return
        if not isinstance(ours, tuple | frozenset):
            assert self._pairs.setdefault(id(ours), theirs) is theirs, f"{path}: one object here, two there"
            assert self._back.setdefault(id(theirs), ours) is ours, f"{path}: two objects here, one there"
            self._alive += [ours, theirs]
            if id(ours) in self._done:
                return
            self._done.add(id(ours))
        if isinstance(ours, RemovableHandle):
            assert _is_on(theirs) == _is_on(ours), f"{path}: whether the hook is on"
        elif isinstance(ours, torch.Tensor):
            self._tensors(ours, theirs, path)
        elif isinstance(ours, CONTAINERS):
            self._containers(ours, theirs, path)
        else:
            self._named(_attributes(ours), _attributes(theirs), path, type(ours))

    def _tensors(self, ours: Any, theirs: Any, path: str) -> None:  # noqa: ANN401
        assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype), path
        assert torch.equal(theirs.nan_to_num(), ours.nan_to_num()), (path, theirs, ours)
        assert theirs.requires_grad == ours.requires_grad, f"{path}: requires_grad"
        assert theirs.is_inference() == ours.is_inference(), f"{path}: inference"
        if ours.is_leaf and ours.grad is not None and theirs.is_leaf:
            assert theirs.grad is not None, f"{path}: gradient"
            assert torch.equal(theirs.grad, ours.grad), (f"{path}: gradient", theirs.grad, ours.grad)

    def _containers(self, ours: Any, theirs: Any, path: str) -> None:  # noqa: ANN401
        own: Any = next(cls for cls in type(ours).__mro__ if cls.__module__ in ("builtins", "collections"))
        assert isinstance(theirs, own), (path, type(ours), type(theirs))
        assert type(theirs).__name__ == type(ours).__name__, (path, type(ours), type(theirs))
        assert getattr(theirs, "maxlen", None) == getattr(ours, "maxlen", None), path
        one, other = _items(ours), _items(theirs)
        assert [name for name, _ in other] == [name for name, _ in one], path
        if isinstance(ours, dict):
            one += [(".key", key) for key, _ in items_of(ours)]
            other += [(".key", key) for key, _ in items_of(theirs)]
        if type(ours) not in CONTAINERS:
            self._named(_attributes(ours), _attributes(theirs), path, type(ours))
        for (name, mine), (_, its) in zip(one, other, strict=True):
            self._same(mine, its, path + name)

    def _named(self, ours: dict[str, Any], theirs: dict[str, Any], path: str, cls: type = object) -> None:
        more = {name for name in theirs.keys() - ours.keys() if not _is_of_class(cls, name, theirs[name])}
        assert not more, f"{path}: {more} only there"
        for name, one in ours.items():
            place = f"{path}.{name}"
            if name in theirs:
                self._same(one, theirs[name], place)
            else:
                assert self._before.get(place) == picture(one), f"{place}: changed, and missing there"


class _Lines(logging.Handler):
    """Writes all that a formatter may show of a record, but for times and processes."""

    def __init__(self, lines: list[Any]) -> None:
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        where = record.pathname, record.lineno, record.funcName
        self.lines.append((record.name, record.levelno, record.getMessage(), *where))


@contextlib.contextmanager
def shown(lines: list[Any]) -> Iterator[None]:
    """Note what is printed, logged and warned meanwhile, with the lines that loggers and warnings name."""
    root, handler, out = logging.getLogger(), _Lines(lines), io.StringIO()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        lines += [(str(one.message), one.category, one.filename, one.lineno) for one in warned]
        lines.append(out.getvalue())


# --- Captured entries run without lowering: the graphs in Python, the effects on a state made from the table


class Direct:
    """Runs a module by what was captured of it, as ``Effectful`` runs an archive.

    Args:
        module: the module; its parameters are those of the graph.
        example: arguments of a call.
        allow: classes and functions that effects may name.
    """

    def __init__(self, module: torch.nn.Module, example: tuple[Any, ...], allow: Allowed) -> None:
        entries = capture_entries(module, [example])
        methods = tuple(one.side_effects.table() for one in entries)
        initial = entries[0].side_effects.state
        tensors = [one.clone() for one in initial.tensors]
        for source, value in initial.entries:
            parameter = _of(module, source)
            if isinstance(value, Stored) and isinstance(parameter, torch.nn.Parameter):
                tensors[value.number] = parameter
        self.state = State.fresh(EffectTable(methods, tuple(initial.entries)), tensors)
        self._entries = [
            (one.graph, prepared(method, allow)) for one, method in zip(entries, methods, strict=True)
        ]
        self._signature = inspect.signature(module.forward)

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        """Run the entry that fits.

        Raises:
            GuardError: none does.
        """
        named = self._signature.bind(*args).arguments
        refusal: GuardError | None = None
        for graph, effects in self._entries:
            try:
                return effects.replay(self.state, graph(*effects.inputs(self.state, named)), named)
            except GuardError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal


def _of(module: torch.nn.Module, source: Source) -> object:
    """The value of an attribute of a module or of its parts; None for other sources."""
    if isinstance(source, Attribute):
        return getattr(_of(module, source.base), source.name, None)
    return module if source == Local("self") else None
