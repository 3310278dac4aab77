"""Dataclasses, declared in a quarter of the time of :func:`dataclasses.dataclass`.

Python's own decorator writes the source of six methods for each frozen class and compiles it: 0.5 ms, and a
command declares up to a hundred classes. Here only ``__init__``, which is called most, is compiled; the
others are functions that look fields up by name.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 (type checkers see Python's own)


class _Made:
    """The default of a field whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()

if not TYPE_CHECKING:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
    ) -> Callable[[type], type]:
        """A class with its fields, and with the methods that :func:`dataclasses.dataclass` gives it.

        Existing methods are kept. There are no pseudo-fields that only ``__init__`` takes; a field that
        ``__init__`` does not take has no default.
        """

        def declared(cls: type) -> type:
            # Python checks that a class and its bases are all frozen or all not.
            inherits = any(_is_frozen(base) for base in cls.__mro__[1:])
            # Without one, its signature becomes its docstring, for which Python's tokenizer is imported.
            cls.__doc__ = cls.__doc__ or cls.__name__
            cls = dataclasses.dataclass(
                init=False, repr=False, eq=False, frozen=frozen and inherits, slots=slots, kw_only=kw_only
            )(cls)
            cls.__dataclass_params__.frozen = frozen
            _give(cls, __init__=_initialiser(cls, frozen=frozen), __repr__=_repr)
            if eq:
                _give_equality(cls, frozen=frozen)
            if frozen:
                _give(cls, __setattr__=_refuse_assignment, __delattr__=_refuse_deletion)
            if frozen and slots:
                _give(cls, __getstate__=_state, __setstate__=_set_state)
            return cls

        return declared


def _is_frozen(cls: type) -> bool:
    return getattr(getattr(cls, "__dataclass_params__", None), "frozen", False)


def _give(cls: type, **methods: object) -> None:
    """Give a class the methods that it does not define itself."""
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(cls, name, method)


def _initialiser(cls: Any, *, frozen: bool) -> Callable[..., None]:  # noqa: ANN401 (any dataclass)
    """A function that takes the fields and sets them.

    Python's own decorator compiles such functions, too: looking fields up by name would be slower.
    """
    fields = [field for field in dataclasses.fields(cls) if field.init]
    known: dict[str, object] = {"_set_": object.__setattr__, "_MADE_": _MADE}
    parameters, by_name, lines = ["self"], ["*"], []
    for field in fields:
        name, value, default = field.name, field.name, ""
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}_"] = field.default_factory
            value, default = f"_make_{name}_() if {name} is _MADE_ else {name}", "=_MADE_"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}_"], default = field.default, f"=_default_{name}_"
        (by_name if field.kw_only else parameters).append(name + default)
        lines.append(f"_set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    if len(by_name) > 1:
        parameters += by_name
    source = "\n ".join([f"def __init__({', '.join(parameters)}):", *(lines or ["pass"])])
    exec(source, known)  # noqa: S102 (names of fields, which are this library's)
    made: Any = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return made  # type: ignore[no-any-return]


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401 (any dataclass)
    shown = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _give_equality(cls: Any, *, frozen: bool) -> None:  # noqa: ANN401 (any dataclass)
    """Make objects equal if their compared fields are; frozen ones have a hash."""
    values = _values_of(field.name for field in dataclasses.fields(cls) if field.compare)

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    if vars(cls).get("__hash__") is None:  # as Python leaves it if a class only has ``__eq__``
        cls.__hash__ = hashed if frozen else None
    _give(cls, __eq__=equal)


def _values_of(names: Iterable[str]) -> Callable[[object], tuple[object, ...]]:
    """A function from an object to a tuple of some fields."""
    match list(names):
        case []:
            return lambda _: ()
        case [name]:
            return lambda self: (getattr(self, name),)
        case several:
            return attrgetter(*several)


def _refuse_assignment(_: object, name: str, value: object) -> None:  # noqa: ARG001 (Python's parameters)
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:  # noqa: ANN401 (any dataclass)
    """What is pickled: without it Python would restore the fields with ``setattr``."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:  # noqa: ANN401 (any dataclass)
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
