"""The parameters, buffers and other attributes of a module whose effects are lowered, beside its graphs.

A graph holds parameters and buffers that no call changes, and a table the state that calls read or change.
Neither has what no call reads, nor the names. The rows of members have both. They are made when the module is
lowered (:func:`members_of`); when it is loaded, :class:`Members` gives parameters, buffers and modes by the
methods that ``torch.nn.Module`` has for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Container
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.base.errors import ArchiveError
from archive.effects.errors import StateError
from archive.effects.placeholders import ABSENT, FIXED, Plain, Sealed, seal
from archive.effects.places import item_or_absent, own
from archive.formats.effects.hooks import functions_of, hooks_of
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    Each,
    Item,
    Length,
    Local,
    Look,
    Op,
)
from archive.formats.effects.parts import guarded, parts_of, places, source_of
from archive.formats.effects.source_text import guard_text, source_text
from archive.formats.effects.words import ATTRIBUTE_OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from archive.formats.effects.model import EffectTable, Guard, MethodEffects, Source, Value


# --- lowering

MODULE, SAME, MODE, PARAMETER, BUFFER, TRANSIENT, OTHER = (
    *("module", "same", "mode", "parameter", "buffer", "transient", "other"),
)
"""Kinds of members; a mode is ``training``, and a transient buffer is not persistent."""
IN_STATE, NO_TENSOR, ODD = -1, -2, -3
"""Numbers in place of a tensor's."""
READ = "read"
DONE_BY = {
    "train": ("train",),
    "parameters": ("parameters", "named_parameters", "named_modules", "_named_members"),
    "named_parameters": ("named_parameters", "named_modules", "_named_members"),
    "state_dict": ("state_dict", "_save_to_state_dict", "get_extra_state"),
    "load_state_dict": ("load_state_dict", "_load_from_state_dict", "set_extra_state"),
    "to": ("to", "_apply"),
}
"""Methods of a module that a loaded one has, too, each with those of ``torch.nn.Module`` by which it is done.

A class may have any of them of its own.
"""
MODULES_OF_PYTORCH = ("torch.nn.modules.batchnorm", "torch.nn.modules.rnn")
"""Python modules of PyTorch whose own methods do no more for what this release saves."""
HOOKS = {
    "state_dict": ("_state_dict_hooks", "_state_dict_pre_hooks"),
    "load_state_dict": ("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
}
TRAINING = "training"
OF_MODULES = frozenset(vars(torch.nn.Module()))
"""Attributes that all modules have."""


class ModuleMember(NamedTuple):
    """A member of a module or of its parts.

    Attributes:
        path: its names, joined by dots; "" for the module itself.
        kind: what it is, by one of the words above.
        detail: for a module, the methods that its class has of its own, joined by blanks; for a module that
            was met before, its first path; for a parameter or buffer, the path at which the state has it, or
            ``READ`` if a graph reads it.
        number: for a module, its version; for a mode, 0 or 1; for a parameter or buffer, that of its tensor,
            or -1 if the state has it, -2 if it is None, -3 if it isn't a dense tensor.
    """

    path: str
    kind: str
    detail: str
    number: int


def members_of(
    module: torch.nn.Module, state: Collection[Source], graphs: torch.nn.Module
) -> tuple[list[ModuleMember], list[torch.Tensor]]:
    """The members of a module, and their tensors."""
    in_graphs = {
        tensor.data_ptr()
        for tensor in (*graphs.parameters(), *graphs.buffers())
        if tensor.layout == torch.strided
    }
    tensors: list[torch.Tensor] = []
    numbers: dict[int, tuple[str, int]] = {}
    rows: list[ModuleMember] = []

    def add(path: str, kind: str, tensor: torch.Tensor | None, source: Source) -> None:
        if tensor is None or tensor.layout != torch.strided:
            rows.append(ModuleMember(path, kind, "", NO_TENSOR if tensor is None else ODD))
            return
        if id(tensor) not in numbers:
            is_state = source in state
            if is_state:
                numbers[id(tensor)] = path, IN_STATE
            else:
                numbers[id(tensor)] = READ if tensor.data_ptr() in in_graphs else "", len(tensors)
                tensors.append(tensor.detach().requires_grad_(tensor.requires_grad))
        rows.append(ModuleMember(path, kind, *numbers[id(tensor)]))

    for path, part, first, source in _modules(module):
        if first is not None:
            rows.append(ModuleMember(path, SAME, first, 0))
            continue
        below = f"{path}." if path else ""
        rows.append(
            ModuleMember(path, MODULE, " ".join(_own_methods(part)), int(getattr(part, "_version", 1)))
        )
        rows.append(ModuleMember(f"{below}{TRAINING}", MODE, "", int(part.training)))
        for name, parameter in part._parameters.items():
            add(below + name, PARAMETER, parameter, Attribute(source, name))
        for name, buffer in part._buffers.items():
            kind = TRANSIENT if name in part._non_persistent_buffers_set else BUFFER
            add(below + name, kind, buffer, Attribute(source, name))
        rows += [
            ModuleMember(below + name, OTHER, "", 0)
            for name in vars(part)
            if name not in OF_MODULES and "." not in name
        ]
    return rows, tensors


def _modules(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module, str | None, Source]]:
    """Modules as ``state_dict`` comes to them: path, module, path at which it was met before, and source."""
    met: dict[int, str] = {}
    waiting: list[tuple[str, torch.nn.Module, Source]] = [("", module, Local("self"))]
    while waiting:
        path, part, source = waiting.pop()
        first = met.get(id(part))
        yield path, part, first, source
        if first is None:
            met[id(part)] = path
            waiting += [
                (f"{path}.{name}" if path else name, child, Attribute(source, name))
                for name, child in reversed(part._modules.items())
                if child is not None
            ]


def _own_methods(module: torch.nn.Module) -> Iterator[str]:
    """The methods that a module's class has of its own."""
    for method, names in DONE_BY.items():
        hooks = any(vars(module).get(name) for name in HOOKS.get(method, ()))
        if hooks or any(_is_own(type(module), name) for name in names):
            yield method


def _is_own(kind: type, name: str) -> bool:
    """Whether a class has another method of this name than ``torch.nn.Module``."""
    for base in kind.__mro__:
        if base is torch.nn.Module:
            return False
        if name in vars(base):
            return base.__module__ not in MODULES_OF_PYTORCH
    return inspect.getattr_static(kind, name, None) is not None


# --- loading

REGISTERING = {Op.REGISTER_BUFFER: BUFFER, Op.REGISTER_TRANSIENT: TRANSIENT}
"""Effects that register buffers, with the kinds of these."""
MOST_MODULES = 1_000_000
"""Modules, each as often as it is in others."""


class Members:
    """The members of a loaded module, in a state that was made of its table.

    Args:
        root: the module's object in the state; it gets the members that the graph holds, and is sealed: what
            no call would notice cannot be set in it, nor in the objects in it.
        rows: the members; none where the archive has none.
        own: finds the graph's own tensor for one with the same memory; None if it has none.
    """

    def __init__(
        self,
        root: Plain,
        rows: Sequence[ModuleMember],
        tensors: Sequence[torch.Tensor],
        own: Callable[[torch.Tensor], torch.Tensor | None],
        table: EffectTable,
        *,
        file: str,
    ) -> None:
        self._root = root
        of_graph = [own(tensor) for tensor in tensors]
        self._rows = rows = [
            # A backend may keep what the graph reads in a form of its own.
            row._replace(number=ODD)
            if row.detail == READ and 0 <= row.number < len(of_graph) and of_graph[row.number] is None
            else row
            for row in rows
        ]
        held = [
            tensor if in_graph is None else in_graph
            for tensor, in_graph in zip(tensors, of_graph, strict=True)
        ]
        self._table = table
        self._objects = {"": root}
        self._fixed: dict[int, set[str]] = {}
        self._known: dict[int, set[str]] = {}
        self._parts: dict[str, list[ModuleMember]] = {}
        self._versions: dict[str, int] = {}
        try:
            for row in rows:
                self._furnish(row, held)
        except LookupError as error:
            raise ArchiveError(
                f"members of a module that contradict each other: {error}", file=file
            ) from error
        self._registered = _registered(table)
        self._seal(table)
        self._held = list(self._code_in_containers())

    # --- making ----------------------------------------------------------------------------------------

    def _furnish(self, row: ModuleMember, tensors: Sequence[torch.Tensor]) -> None:
        """Put a member where it belongs, unless the state has it."""
        above, _, name = row.path.rpartition(".")
        if not row.path:
            self._parts[""], self._versions[""] = [], row.number
            return
        holder = self._objects[above]
        self._parts[above].append(row)
        names = holder.__dict__
        self._known.setdefault(id(holder), set()).add(name)
        is_there = name in names
        if row.kind == SAME:
            names.setdefault(name, self._objects[row.detail])
        elif row.kind == MODULE:
            part = names.setdefault(name, Plain())
            self._objects[row.path] = part if isinstance(part, Plain) else Plain()
            self._parts[row.path], self._versions[row.path] = [], row.number
        elif row.kind == MODE:
            names.setdefault(name, bool(row.number))
            return
        elif row.kind not in (PARAMETER, BUFFER, TRANSIENT, OTHER):
            raise LookupError(f"no kind of members: {row.kind!r}")
        elif is_there:
            return
        elif row.number >= 0 and row.kind != OTHER:
            names[name] = tensors[row.number]
        elif row.number == IN_STATE:
            names[name] = self._value(source_of(row.detail))
        elif row.number == NO_TENSOR:
            names[name] = None
        if not is_there:
            self._fixed.setdefault(id(holder), set()).add(name)

    def _seal(self, table: EffectTable) -> None:
        """Seal all objects; each has the name of the place at which it is met first."""
        settable = self._by_object(_settable(table))
        set_later = self._by_object(_set_later(table))
        # Hooks may run code of the model, which sets attributes that the table does not have.
        hooks = [hook for method in table.methods for effect in method.effects for hook in hooks_of(effect)]
        is_open = any(digest for hook in hooks for _, digest in functions_of(hook))
        waiting: list[tuple[Plain, Source]] = [
            (part, source_of(path)) for path, part in self._objects.items()
        ]
        done = set[int]()
        for holder, source in waiting:  # which grows
            if id(holder) in done:
                continue
            done.add(id(holder))
            inner = {name: value for name, value in holder.__dict__.items() if isinstance(value, Plain)}
            waiting += [(value, Attribute(source, name)) for name, value in inner.items()]
            fixed = (self._fixed.get(id(holder), set()) | set(inner)) - set_later.get(id(holder), set())
            names = (settable.get(id(holder), set()) - fixed) | {TRAINING}
            known = self._known.get(id(holder))
            seal(holder, Sealed(source_text(source), _Others(fixed) if is_open else names, fixed, known))

    def _by_object(self, names: Iterable[tuple[Source, str]]) -> dict[int, set[str]]:
        """Names of attributes by the objects at places: an object has several places."""
        by_object: dict[int, set[str]] = {}
        for source, name in names:
            holder = self._value(source)
            if isinstance(holder, Plain):
                by_object.setdefault(id(holder), set()).add(name)
        return by_object

    def _code_in_containers(self) -> Iterator[tuple[Source, Plain]]:
        """Items of lists and dicts whose class or code the graph holds, with their placeholders.

        What calls themselves put there, or somewhere above, is none of these.
        """
        changed: set[Source] = {Attribute(holder, name) for holder, name in _set_later(self._table)}
        for method in self._table.methods:
            changed |= {effect.source for effect in method.effects if effect.op not in ATTRIBUTE_OPS}
        for source, value in self._table.state:
            if any(place in changed for place in _above(source)):
                continue
            for part in parts_of([value]):
                if isinstance(part, At) and isinstance(part.source, Item) and part.source.base == source:
                    item = self._value(part.source)
                    if type(item) is Plain:
                        yield part.source, item

    # --- calls -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse a call after something in a list or dict that the graph holds was replaced.

        Raises:
            StateError: it was.
        """
        for source, value in self._held:
            if self._value(source) is not value:
                raise StateError(f"{source_text(source)}{FIXED}")

    def _value(self, source: Source) -> Any:  # noqa: ANN401
        """What is at a place under ``self``; ABSENT without one."""
        chain: list[Any] = []
        while isinstance(source, Attribute | Item):
            chain.append(source)
            source = source.base
        if source != Local("self"):
            return ABSENT
        value: Any = self._root
        for step in reversed(chain):
            try:
                value = (
                    own(value, step.name) if isinstance(step, Attribute) else item_or_absent(value, step.key)
                )
            except StateError:
                return ABSENT
            if value is ABSENT:
                return ABSENT
        return value

    # --- as torch.nn.Module ------------------------------------------------------------------------------

    def refuse_own(self, method: str) -> None:
        """Refuse a method that one of the model's classes has of its own."""
        if not self._rows:
            raise StateError(f"{method}: the archive does not list the members of its module; lower it again")
        for row in self._rows:
            if row.kind == MODULE and method in row.detail.split():
                place = f"self.{row.path}" if row.path else "self"
                raise StateError(f"{method}: the class of {place} does it in its own way")

    def train(self, mode: bool) -> None:  # noqa: FBT001
        """Set the mode of all modules."""
        self.refuse_own("train")
        before = {path: holder.__dict__.get(TRAINING, ABSENT) for path, holder in self._objects.items()}
        for holder in self._objects.values():
            holder.__dict__[TRAINING] = mode
        broken = [self._broken(method) for method in self._table.methods]
        if None not in broken:
            for path, was in before.items():
                if was is ABSENT:
                    del self._objects[path].__dict__[TRAINING]
                else:
                    self._objects[path].__dict__[TRAINING] = was
            first = next(guard for guard in broken if guard is not None)
            call = f"model.{'train' if mode else 'eval'}()"
            raise StateError(
                f"no captured call is for {TRAINING}={mode}: {guard_text(first)}; "
                f"call {call} before the model is lowered"
            )

    def _broken(self, method: MethodEffects) -> Guard | None:
        """The first guard about the mode of a module that does not hold."""
        for guard in method.guards:
            match guard.look, guard.subject, guard.value:
                case Look.EQUAL, At(Attribute(base, name)), Constant(wanted) if name == TRAINING:
                    holder = self._value(base)
                    mode = own(holder, TRAINING) if isinstance(holder, Plain) else ABSENT
                    if mode is not wanted:
                        return guard
        return None

    def parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Parameters by their paths, each once, in the order of ``named_parameters``."""
        met = set[int]()
        for path, kind, tensor in self._tensors(twice=False):
            if kind == PARAMETER and id(tensor) not in met:
                met.add(id(tensor))
                yield path, tensor

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What ``state_dict`` has, in its order; both of what is there twice."""
        return ((path, tensor) for path, kind, tensor in self._tensors(twice=True) if kind != TRANSIENT)

    def every(self) -> Iterator[torch.Tensor]:
        """All parameters and buffers."""
        return (tensor for _, _, tensor in self._tensors(twice=False))

    def versions(self) -> Iterator[tuple[str, int]]:
        """Modules by their paths, with their versions, as ``state_dict`` has them."""
        return ((path, version) for path, _, version in self._modules(twice=True))

    def _tensors(self, *, twice: bool) -> Iterator[tuple[str, str, torch.Tensor]]:
        """Path, kind and tensor of parameters and buffers."""
        for path, first, _ in self._modules(twice=twice):
            holder = self._objects[first]
            rows = [row for row in self._parts[first] if row.kind in (PARAMETER, BUFFER, TRANSIENT)]
            if odd := next((row for row in rows if row.number == ODD), None):
                raise StateError(f"self.{odd.path} is not kept as a dense tensor")
            kinds = {_name(row): row.kind for row in rows} | self._registered.get(source_of(first), {})
            for name in sorted(kinds, key=lambda name: kinds[name] != PARAMETER):
                tensor = holder.__dict__.get(name)
                if isinstance(tensor, torch.Tensor):
                    yield f"{path}.{name}" if path else name, kinds[name], tensor

    def _modules(self, *, twice: bool) -> Iterator[tuple[str, str, int]]:
        """Modules in the order of ``named_modules``: path, path at which it was met first, version."""
        waiting, count = [("", "", self._rows[0].number)], 0
        while waiting:
            path, first, version = waiting.pop()
            yield path, first, version
            count += 1
            if count > MOST_MODULES:
                raise StateError(f"more than {MOST_MODULES:,} modules, or some that are in themselves")
            for row in reversed(self._parts[first]):
                if row.kind == MODULE or (row.kind == SAME and twice):
                    inner = row.path if row.kind == MODULE else row.detail
                    name = _name(row)
                    waiting.append((f"{path}.{name}" if path else name, inner, self._versions[inner]))


def _settable(table: EffectTable) -> Iterator[tuple[Source, str]]:
    """The attributes that calls read or set, with the places of their objects."""
    sources = [source for source, _ in table.state]
    for method in table.methods:
        sources += [*places(method), *guarded(method)]
        for guard in method.guards:
            if guard.look is Look.ATTRIBUTE and isinstance(guard.subject, At):
                yield guard.subject.source, _text(guard.key)
    for source in sources:
        place = source.base if isinstance(source, Length | Each) else source
        if isinstance(place, Attribute):
            yield place.base, place.name
    yield from _set_later(table)


def _set_later(table: EffectTable) -> Iterator[tuple[Source, str]]:
    """The attributes that calls set, with the places of their objects."""
    for method in table.methods:
        for effect in method.effects:
            if effect.op in ATTRIBUTE_OPS:
                yield effect.source, _text(effect.key)


def _above(source: Source) -> Iterator[Source]:
    """A place, and those that it is in."""
    yield source
    while isinstance(source, Attribute | Item):
        source = source.base
        yield source


class _Others(Container[str]):
    """All names but some."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names


def _registered(table: EffectTable) -> dict[Source, dict[str, str]]:
    """The buffers that effects register: their kinds by the places of modules and by names."""
    buffers: dict[Source, dict[str, str]] = {}
    for method in table.methods:
        for effect in method.effects:
            if effect.op in REGISTERING:
                buffers.setdefault(effect.source, {})[_text(effect.key)] = REGISTERING[effect.op]
    return buffers


def _text(key: Value | None) -> str:
    return str(key.value) if isinstance(key, Constant) else ""


def _name(row: ModuleMember) -> str:
    return row.path.rpartition(".")[2]
