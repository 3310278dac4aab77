"""Dataclasses of the library behave as Python's own."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.base import quick_dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

ROOT = Path(archive.__file__).parent
WITH_PYTORCH = {"backend", "effects", "server"}
"""Rooms that are imported by none of the commands that are quick."""
DECORATORS = {"Python's": dataclasses.dataclass, "the library's": quick_dataclass.dataclass}


class Point:
    """Fields of each kind, before they are declared."""

    x: int
    name: str = "a"
    hidden: int = dataclasses.field(default=1, repr=False)
    uncompared: int = dataclasses.field(default=2, compare=False)
    values: list[int] = dataclasses.field(default_factory=list)


class Own:
    """A class with methods of its own, before it is declared."""

    x: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", self.x + 1)

    def __repr__(self) -> str:
        return f"<{self.x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and abs(self.x - other.x) < 2

    def __hash__(self) -> int:
        return 7


class Empty:
    """No fields."""


class Single:
    """A field whose values may be unequal to themselves."""

    x: float


def declared(decorator: Callable[..., Any], body: type, **options: bool) -> Any:  # noqa: ANN401 (a class)
    """A class with the body of another one, made a dataclass."""
    members = {name: value for name, value in vars(body).items() if name not in ("__dict__", "__weakref__")}
    members = {name: copy.copy(value) for name, value in members.items()}
    return decorator(**options)(type(body.__name__, (), members))


def told(call: Callable[[], object]) -> object:
    """What a call gives: a value, or an error and its message."""
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


def behaviour(cls: Any) -> dict[str, object]:  # noqa: ANN401 (a class)
    """What a class and its objects say and do, in plain values."""
    given = {field.name: place for place, field in enumerate(dataclasses.fields(cls)) if field.init}
    one, same = cls(**given), cls(**given)
    other = dataclasses.replace(one, **({"x": 5} if given else {}))
    cyclic = copy.copy(one)
    if given and "values" in given:
        object.__setattr__(cyclic, "values", cyclic)
    return {
        "signature": str(inspect.signature(cls)),
        "annotations": cls.__init__.__annotations__,
        "name": cls.__init__.__qualname__,
        "match": cls.__match_args__,
        "slots": getattr(cls, "__slots__", None),
        "texts": (repr(one), repr(other), repr(cyclic)),
        "equal": (one == same, one == other, one == 3, one != same),
        "hash": told(lambda: (hash(one), hash(other))),
        "values": (dataclasses.asdict(one), dataclasses.astuple(other)),
        "set": [told(partial(setattr, one, name, 9)) for name in given],
        "deleted": [told(partial(delattr, other, name)) for name in given],
        "after": (told(lambda: repr(one)), told(lambda: repr(other))),
        "too few": told(lambda: repr(cls())),
        "too many": told(lambda: cls(1, 2, 3, 4, 5, 6)),
        "defaults": told(lambda: repr(cls(4))),
        "fresh": told(lambda: cls(4).values is cls(4).values),
    }


OPTIONS = {
    "frozen, slots": {"frozen": True, "slots": True},
    "frozen": {"frozen": True},
    "slots": {"slots": True},
    "plain": {},
    "unequal": {"frozen": True, "slots": True, "eq": False},
    "by name": {"frozen": True, "slots": True, "kw_only": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("body", [Point, Own, Empty, Single])
def test_classes_behave_as_pythons_own(body: type, options: dict[str, bool]) -> None:
    expected, found = (behaviour(declared(each, body, **options)) for each in DECORATORS.values())
    if options.get("eq") is False and body is not Own:
        assert expected.pop("hash") != found.pop("hash")  # by identity
    assert found == expected


def test_a_value_equals_itself() -> None:
    cls, nan = declared(quick_dataclass.dataclass, Single, frozen=True), float("nan")
    assert cls(nan) == cls(nan)  # as tuples of values do, and until 3.12 Python's own classes
    assert cls(nan) != cls(float("nan"))


@quick_dataclass.dataclass(frozen=True, slots=True)
class Kept:
    """Pickled by name."""

    x: int
    y: tuple[str, ...] = ("b",)


@quick_dataclass.dataclass(frozen=True, slots=True)
class KeptMore(Kept):
    """One more field."""

    z: int = 3


@pytest.mark.parametrize("value", [Kept(1), KeptMore(1, ("c",), 5)])
def test_frozen_values_are_pickled_and_copied(value: Kept) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value  # noqa: S301 (made here)
    assert copy.copy(value) == copy.deepcopy(value) == value


def test_a_class_without_a_docstring_gets_its_name_and_no_signature() -> None:
    @quick_dataclass.dataclass(frozen=True)
    class Plain:
        x: int

    assert Plain.__doc__ == "Plain"  # to make "Plain(x: int)" takes longer than all the rest


# --- all classes of the library


def modules() -> Iterator[ModuleType]:
    """The modules of rooms that need no PyTorch."""
    for found in pkgutil.walk_packages([str(ROOT)], "archive."):
        room = found.name.split(".")[1]
        apart = found.name.endswith(("__main__", "model_explorer.main")) or ".demo" in found.name
        if room not in WITH_PYTORCH and not apart:
            yield importlib.import_module(found.name)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_who_inherits_is_frozen_alike(decorator: Callable[..., Any], frozen: bool) -> None:  # noqa: FBT001
    base: type = quick_dataclass.dataclass(frozen=frozen, slots=True)(
        type("Base", (), {"__annotations__": {"x": int}})
    )
    body = {"__annotations__": {"y": int}}
    made = decorator(frozen=frozen, slots=True)(type("Derived", (base,), body))(1, 2)
    assert (made.x, made.y) == (1, 2)
    if frozen:
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.x = 3
    with pytest.raises(TypeError, match="cannot inherit"):
        dataclasses.dataclass(frozen=not frozen)(type("Other", (base,), dict(body)))


def test_each_class_is_declared_as_python_would() -> None:
    count = 0
    for module in modules():
        for cls in vars(module).values():
            if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
                continue
            if cls.__module__ != module.__name__:
                continue
            count += 1
            fields = [(field.name, field.type, field) for field in dataclasses.fields(cls)]
            python = dataclasses.make_dataclass(cls.__name__, fields)
            assert str(inspect.signature(cls)) == str(inspect.signature(python)), cls
    assert count > 150


def test_quick_commands_declare_no_class_with_pythons_decorator() -> None:
    pattern = re.compile(r"^\s*(from dataclasses import .*\bdataclass\b|import dataclasses)", re.MULTILINE)
    files = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] not in WITH_PYTORCH and pattern.search(path.read_text("utf-8"))
    ]
    assert files == ["base/quick_dataclass.py"]
