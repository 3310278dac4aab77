"""An eager model and the same one captured or loaded: their states as plain data, compared."""

from __future__ import annotations

import warnings
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from tests.support.live_state import live_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects import State

pytestmark = pytest.mark.torch


CODE = (type, FunctionType, ModuleType, type(torch.ops))


REGISTERED = ("_parameters", "_buffers", "_modules")


ATOMS = (bool, int, float, str, type(None))


def scripted(graph: Any) -> Any:  # noqa: ANN401
    """A graph as TorchScript, whose warnings are not of interest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(graph)


def attributes(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """What an object holds by name, without functions and the like."""
    held = vars(value)
    found = {name: one for name, one in held.items() if not name.startswith("_")}
    for name in REGISTERED:
        found |= held.get(name, {})
    return {name: one for name, one in found.items() if not isinstance(one, CODE)}


def shown(value: Any) -> Any:  # noqa: ANN401
    """A value as plain data, with the identities of what can be changed."""
    if isinstance(value, torch.Tensor):
        return id(value), value._version, value.requires_grad, value.tolist()
    if isinstance(value, list | tuple):
        return id(value), [shown(one) for one in value]
    if isinstance(value, dict):
        return id(value), [(key, shown(one)) for key, one in value.items()]
    if isinstance(value, (*ATOMS, *CODE)):
        return type(value), repr(value)
    return type(value) if isinstance(value, SimpleNamespace) else id(value)


def named(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """What is below an object, by its path."""
    yield path, value
    inside: dict[str, Any] = {}
    if isinstance(value, list | tuple):
        inside = {f"{path}[{place}]": one for place, one in enumerate(value)}
    elif isinstance(value, dict):
        inside = {f"{path}[{key!r}]": one for key, one in value.items()}
    elif not isinstance(value, (*ATOMS, torch.Tensor)):
        inside = {f"{path}.{name}": one for name, one in attributes(value).items()}
    for place, one in inside.items():
        yield from named(one, place)


class Comparing:
    """Compares values of the eager model with those of another one: what is the same is the same there, too.

    Args:
        before: attributes before the first call; such may be missing there as long as nothing changes them.
    """

    def __init__(self, before: dict[str, Any]) -> None:
        self._before = before
        self._pairs: dict[int, Any] = {}
        self._back: dict[int, Any] = {}

    def same(self, ours: Any, theirs: Any, path: str) -> None:  # noqa: ANN401
        if isinstance(ours, ATOMS):
            assert (type(theirs), repr(theirs)) == (type(ours), repr(ours)), path
            return
        if not isinstance(ours, tuple):
            assert self._pairs.setdefault(id(ours), theirs) is theirs, f"{path}: one object here, two there"
            known = id(theirs) in self._back
            assert self._back.setdefault(id(theirs), ours) is ours, f"{path}: two objects here, one there"
            if known:
                return
        if isinstance(ours, torch.Tensor):
            assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype), path
            assert torch.allclose(theirs, ours, rtol=1e-6, atol=1e-6, equal_nan=True), (path, theirs, ours)
            assert theirs.requires_grad == ours.requires_grad, f"{path}: requires_grad"
        elif isinstance(ours, list | tuple):
            assert (type(theirs), len(theirs)) == (type(ours), len(ours)), path
            for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                self.same(one, other, f"{path}[{place}]")
        elif isinstance(ours, dict):
            assert (type(theirs), list(theirs)) == (dict, list(ours)), path
            for key, one in ours.items():
                self.same(one, theirs[key], f"{path}[{key!r}]")
        else:
            self._objects(attributes(ours), attributes(theirs), path)

    def _objects(self, ours: dict[str, Any], theirs: dict[str, Any], path: str) -> None:
        assert not theirs.keys() - ours.keys(), f"{path}: what the eager model does not have"
        for name, one in ours.items():
            place = f"{path}.{name}"
            if name in theirs:
                self.same(one, theirs[name], place)
            else:
                assert self._before.get(place) == shown(one), f"{place}: it has changed, and is missing"


def state_of(model: Any, module: ModuleType) -> SimpleNamespace:  # noqa: ANN401
    """What the eager model can change."""
    cells = {
        key: cell.cell_contents for key, cell in dict(live_state(model).cells).items() if cell is not None
    }
    return SimpleNamespace(
        module=model,
        globals=SimpleNamespace(**{module.__name__: SimpleNamespace(**vars(module))}),
        cells=SimpleNamespace(**{" ".join(key): one for key, one in cells.items()}),
    )


class HasState(Protocol):
    """What has a state: a loaded model, or the entries of a captured one."""

    state: State


def state_in(loaded: HasState) -> SimpleNamespace:
    """The same of a loaded one."""
    state = loaded.state
    return SimpleNamespace(
        module=state.module,
        globals=SimpleNamespace(**{key: SimpleNamespace(**one) for key, one in state.globals.items()}),
        cells=SimpleNamespace(
            **{" ".join(key): one.cell_contents for key, one in state.cells.items() if one is not None}
        ),
    )


def leaves(value: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)


def picture(value: Any, seen: dict[int, int] | None = None) -> Any:  # noqa: ANN401
    """All there is in a state, in its order, and what is the same object."""
    seen = {} if seen is None else seen
    if isinstance(value, (*ATOMS, *CODE)):
        return type(value), repr(value)
    if not isinstance(value, tuple) and seen.setdefault(id(value), len(seen)) != len(seen) - 1:
        return "same", seen[id(value)]
    if isinstance(value, torch.Tensor):
        return shown(value)
    if isinstance(value, dict):
        return [(key, picture(one, seen)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [picture(one, seen) for one in value]
    return picture(attributes(value), seen)
