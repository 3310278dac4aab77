"""Globals of copied functions, and proxies of the model's Python modules, which show these globals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.capture.variables import ABSENT
from archive.formats.effects.model import GlobalName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.call import CapturedCall


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
