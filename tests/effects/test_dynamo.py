"""What our tables change is what PyTorch dynamo's side effects change, model for model.

Both are told as the same texts: ``self.count`` for an attribute, ``self.history[...]`` for what a list or
dict holds, ``module:NAME`` for a global, ``cell name`` for a variable of a function around. Dynamo knows
which list is changed, not which of its items; to it a module's buffers are a dict, too. What a tensor holds
is no side effect to it: its graph changes tensors in place, ours gives what is to be copied into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew

from archive.effects import capture
from archive.formats.effects.model import (
    Attribute,
    ClosureCell,
    Constant,
    GlobalName,
    Item,
    Local,
    Op,
    Temporary,
)
from archive.formats.effects.parts import root_of
from archive.formats.effects.words import ATTRIBUTE_OPS
from tests.effects import changing_models
from tests.effects.changing_models import CASES, Case, Note, X
from tests.support.live_state import live_state
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.formats.effects.model import Effect, Source

pytestmark = pytest.mark.torch

KEPT: dict[str, Any] = {"n": 1}


class Held(nn.Module):
    """Objects and containers in one another; what was there before is changed, what is new is put there."""

    def __init__(self) -> None:
        super().__init__()
        self.note = Note(torch.ones(3), 0)
        self.pair = ([1], {"list": [torch.ones(3)]})
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.BatchNorm1d(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.note.number += 1
        self.pair[0].append(2)
        self.pair[1]["list"][0] = x
        self.layers[0].last = x
        self.made = Note([x], 1)
        self.made.value.append(x)
        return self.layers[1](torch.stack([x, x * 2]))


class Dicts(nn.Module):
    """All that is done to dicts, a global one too."""

    def __init__(self) -> None:
        super().__init__()
        self.put: dict[str, Any] = {"n": 1}
        self.deleted: dict[str, Any] = {"x": 1, "y": 2}
        self.cleared: dict[str, Any] = {"x": 1}
        self.updated: dict[str, Any] = {"x": 1}
        self.read: dict[str, Any] = {"x": torch.ones(3)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.put["n"] += 1
        del self.deleted["x"]
        self.deleted["x"] = x
        self.cleared.clear()
        self.updated.update(x=2, y=x)
        KEPT["n"] *= 2
        return x + self.read["x"]


class Shadowed(nn.Module):
    """Local containers, and state that is only read: nothing changes."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = [1.0, 2.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = list(self.scales)
        seen.append(3.0)
        table = {"x": x}
        table["y"] = x * seen[-1]
        return table["y"]


def doubled(grad: torch.Tensor) -> torch.Tensor:
    return grad * 2


class Hooked(nn.Module):
    """A hook that stays, and one that is taken off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.register_hook(doubled)
        x.register_hook(doubled).remove()
        return x * 2


MORE = {one.__name__: Case(one, (X,)) for one in (Held, Dicts, Shadowed)}
MORE["Hooked"] = Case(Hooked, (X.clone().requires_grad_(),))
ONLY_DYNAMO = {
    "Window": {"self.window"},  # `+=` binds the attribute to the list that it is bound to
    "InPlace": {"self._buffers[...]"},  # the same with a buffer
    "Deleting": {"self.temporary"},  # set, and deleted in the same call: nothing is left to be done
}
"""What dynamo does once more though it changes nothing."""


class Spelling:
    """Texts for what was there before a call, by identity.

    Args:
        module: the model.
    """

    def __init__(self, module: nn.Module) -> None:
        self._names: dict[int, str] = {}
        self._add("self", module)
        for name in ("SEEN", "KEPT"):
            for where in (changing_models.__name__, __name__):
                self._names[id(globals_of(where).get(name))] = f"{where}:{name}"
        for (_, name), cell in live_state(module).cells.items():
            self._names[id(cell)] = f"cell {name}"

    def _add(self, name: str, value: Any) -> None:  # noqa: ANN401
        if id(value) in self._names:
            return
        parts: dict[str, Any] = {}
        if isinstance(value, list | tuple):
            parts = {f"{name}[{place}]": one for place, one in enumerate(value)}
        elif isinstance(value, dict):
            parts = {f"{name}[{key!r}]": one for key, one in value.items()}
        elif isinstance(value, nn.Module | Note):
            own = vars(value) | vars(value).get("_modules", {})
            parts = {f"{name}.{key}": one for key, one in own.items() if key != "_modules"}
        else:
            return
        self._names[id(value)] = name
        for key, one in parts.items():
            self._add(key, one)

    def __getitem__(self, value: object) -> str:
        return self._names[id(value)]


def globals_of(module: str) -> dict[str, Any]:
    return vars(changing_models) if module == changing_models.__name__ else globals()


def found(module: nn.Module, source: Source) -> Any:  # noqa: ANN401
    """What lives at a source of ours."""
    match source:
        case Local("self"):
            return module
        case Attribute(base, name):
            return getattr(found(module, base), name)
        case Item(base, key):
            return found(module, base)[key]
        case GlobalName(where, name):
            return globals_of(where)[name]
    raise TypeError(source)


def ours(module: nn.Module, effect: Effect, names: Spelling) -> str | None:
    """What an effect changes; None for new objects, whose attributes nobody has seen before, and tensors."""
    source = effect.source
    if effect.op in (Op.NEW, Op.COPY) or isinstance(root_of(source), Temporary):
        return None
    if effect.op is Op.REGISTER_HOOK:
        return "a hook"
    if isinstance(source, ClosureCell):
        return f"cell {source.name}"
    if effect.op is Op.SET_GLOBAL and isinstance(source, GlobalName):
        return f"{source.module}:{source.name}"
    return _of_object(found(module, source), effect, names)


def _of_object(target: object, effect: Effect, names: Spelling) -> str:
    name = effect.key.value if isinstance(effect.key, Constant) else None
    if effect.op not in ATTRIBUTE_OPS or not isinstance(name, str):
        return f"{names[target]}[...]"
    if isinstance(target, nn.Module) and name in target._buffers:
        return f"{names[target]}._buffers[...]"
    return f"{names[target]}.{name}"


def theirs(effects: SideEffects, names: Spelling) -> Iterator[str]:
    """What dynamo is going to change."""
    graph = effects.output_graph_weakref()
    assert graph is not None
    scope = {"L": graph.local_scope, "G": graph.global_scope}
    for variable in effects._get_modified_vars():
        if isinstance(variable.mutation_type, AttributeMutationNew | ValueMutationNew):
            continue
        kind = type(variable).__name__
        stored = effects.store_attr_mutations.get(variable, {})
        if kind == "NewGlobalVariable":
            yield from (f"{scope['G']['__name__']}:{name}" for name in stored)
            continue
        holder = names[eval(variable.source.name, scope)]  # noqa: S307 (dynamo's own text)
        if kind == "CellVariable":
            yield holder
        elif stored:
            yield from (f"{holder}.{name}" for name in stored)
        else:
            yield f"{holder}[...]"
    yield from ("a hook" for _ in effects.tensor_hooks)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Globals are put back, and dynamo forgets."""
    monkeypatch.setattr(changing_models, "CALLS", 0)
    monkeypatch.setattr(changing_models, "SEEN", [])
    monkeypatch.setitem(KEPT, "n", 1)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def traced(module: nn.Module, case: Case, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What dynamo says of a call."""
    names = Spelling(module)
    said: set[str] = set()
    update: Callable[..., Any] = SideEffects.codegen_update_mutated

    def noted(self: SideEffects, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        said.update(theirs(self, names))
        return update(self, *args, **kwargs)

    monkeypatch.setattr(SideEffects, "codegen_update_mutated", noted)
    compiled = torch.compile(module, backend=lambda graph, _: graph, fullgraph=True)
    compiled(*case.arguments)
    return said


@pytest.mark.parametrize("name", sampled(CASES | MORE, most=8))
def test_the_same_is_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = (CASES | MORE)[name]
    module = case.make()
    names = Spelling(module)
    effects = capture(module, *case.arguments).side_effects.flat().effects.effects
    said = {ours(module, effect, names) for effect in effects} - {None}
    assert said | ONLY_DYNAMO.get(name, set()) == traced(module, case, monkeypatch)
