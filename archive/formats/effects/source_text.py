"""Sources, values, effects and guards as Python.

``self.history[-1]``, ``tests.models.COUNT``, ``count`` for a closure cell, ``out[0]`` for an output of the
graph. Names that are no Python identifiers are written as strings: ``getattr(self, 'block-1')``,
``modules['my-app'].COUNT``.
"""

from __future__ import annotations

import keyword
import math
import unicodedata
from typing import TYPE_CHECKING

from archive.formats.effects.computed import COMPARISONS, COMPUTED
from archive.formats.effects.container_text import container_text, new_text
from archive.formats.effects.hook_text import hooks_text
from archive.formats.effects.hooks import hooks_of
from archive.formats.effects.known_calls import call_text
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Look,
    Made,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.formats.effects.model import Effect, Guard, Literal, Source, Value

STATEMENTS = {
    Op.REGISTER_BUFFER: "{source}.register_buffer({key}, {value})",
    Op.REGISTER_TRANSIENT: "{source}.register_buffer({key}, {value}, persistent=False)",
    Op.SET_ITEM: "{source}[{key}] = {value}",
    Op.DELETE_ITEM: "del {source}[{key}]",
    Op.APPEND: "{source}.append({value})",
    Op.EXTEND: "{source}.extend({value})",
    Op.INSERT: "{source}.insert({key}, {value})",
    Op.POP: "{source}.pop({key})",
    Op.APPEND_LEFT: "{source}.appendleft({value})",
    Op.POP_LEFT: "{source}.popleft()",
    Op.ADD: "{source}.add({value})",
    Op.DISCARD: "{source}.discard({value})",
    Op.CLEAR: "{source}.clear()",
    Op.COPY: "{source}.copy_({value})",
    Op.SAVE_FOR_BACKWARD: "{source}.save_for_backward(*{value})",
    Op.TAKE_OFF: "{source}.remove()",
}
GUARD_TEXTS = {
    Look.EQUAL: "{subject} == {value}",
    Look.TEXT: "str({subject}) == {value}",
    Look.RANGE: "-{value} <= {subject} <= {value}",
    Look.LENGTH: "len({subject}) == {value}",
    Look.KEYS: "tuple({subject}) == {value}",
    Look.ATTRIBUTE: "hasattr({subject}, {key}) is {value}",
    Look.HOOKS: "hooks({subject}, {key}) == {value}",
    Look.SAME: "{subject} is {value}",
    Look.APART: "apart({subject}, {value})",
    Look.DIM: "{subject}.dim() == {value}",
    Look.SIZE: "{subject}.size({key}) == {value}",
    Look.SHAPE: "{subject}.shape == {value}",
    Look.STRIDE: "{subject}.stride() == {value}",
    Look.REQUIRES_GRAD: "{subject}.requires_grad is {value}",
}
NUMBER_TESTS = {
    "float": "{}.is_floating_point()",
    "complex": "{}.is_complex()",
    "bool": "{}.dtype == torch.bool",
    "int": "is_int({}.dtype)",
}
MOST_DECIMAL_BITS = 10_000
"""Bits of integers printed in decimal; by default Python refuses more than 4300 digits."""
EACH = "item"
"""The name of each item of a list."""
HANDLE = "torch.utils.hooks:RemovableHandle"
EMPTY_LITERALS = {"builtins:list": "[]", "builtins:dict": "{}", HANDLE: "object.__new__(RemovableHandle)"}
"""Classes that an effect ``new`` may make without permission."""


def is_name(text: str) -> bool:
    """Whether a text is an identifier that Python keeps as it is: no keyword, and in NFKC form."""
    return (
        text.isidentifier()
        and not keyword.iskeyword(text)
        and text != "__debug__"
        and unicodedata.normalize("NFKC", text) == text
    )


def is_dotted(text: str) -> bool:
    """Whether a text is identifiers with dots between them."""
    return all(map(is_name, text.split(".")))


def source_text(source: Source) -> str:
    """A source as Python."""
    return Printer().source(source)


def value_text(value: Value) -> str:
    """A value as Python."""
    return Printer().value(value)


def effect_text(effect: Effect) -> str:
    """An effect as a Python statement."""
    return Printer().effect(effect)


def guard_text(guard: Guard) -> str:
    """A guard as a Python expression."""
    text = _condition(guard)
    if isinstance(guard.subject, At) and isinstance(guard.subject.source, Each):
        return f"all({text} for {EACH} in {source_text(guard.subject.source.base)})"
    return text


def _condition(guard: Guard) -> str:
    """A guard as a Python expression, for one item if it is for each."""
    subject, value = value_text(guard.subject), value_text(guard.value)
    literal = guard.value.value if isinstance(guard.value, Constant) else None
    key = "" if guard.key is None else value_text(guard.key)
    match guard.look, literal:
        case Look.EQUAL, bool() if isinstance(guard.subject, Computed):
            return subject if literal else f"not {subject}"
        case Look.IS_NONE, _:
            return f"{subject} is {'' if literal else 'not '}None"
        case Look.EQUAL, None | bool():
            return f"{subject} is {value}"
        case Look.HAS, _:
            return f"{key} {'in' if literal else 'not in'} {subject}"
        case Look.TYPE, "tensor":
            return f"isinstance({subject}, torch.Tensor)"
        case Look.TYPE, str(name):
            return f"type({subject}) is {one_word(name.rpartition(':')[2])}"
        case Look.DTYPE, str(name):
            return f"{subject}.dtype == {one_word(name)}"
        case Look.DEVICE, _:
            return f"str({subject}.device) == {value}"
        case Look.KIND, str(name):
            return NUMBER_TESTS.get(name, f"{{}}.kind == {value}").format(subject)
        case Look.SETTING, _:
            return f"{one_word(str(literal_of(guard.key)))} is {value}"
        case Look.RANGE, int(bound) if bound > 0 and bound & (bound - 1) == 0:
            value = f"2**{bound.bit_length() - 1}"
    return GUARD_TEXTS[guard.look].format(subject=subject, value=value, key=key)


def literal_of(value: Value | None) -> Literal:
    """The literal of a constant; None for anything else."""
    return value.value if isinstance(value, Constant) else None


def one_word(text: str) -> str:
    """A dotted name as it is, any other text quoted."""
    return text if is_dotted(text) else repr(text)


def literal_text(literal: Literal) -> str:
    """A constant as Python."""
    if isinstance(literal, tuple):
        return _tuple([literal_text(item) for item in literal])
    if isinstance(literal, float) and not math.isfinite(literal):
        return f"float('{literal}')"
    if type(literal) is int and literal.bit_length() > MOST_DECIMAL_BITS:
        return hex(literal)
    return repr(literal)


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _own_name(what: Local | ClosureCell | str) -> str:
    """The name of a local, a cell or a word in the model itself, or an expression in its place."""
    if isinstance(what, str):
        return what
    if is_name(what.name):
        return what.name
    return f"{'arguments' if isinstance(what, Local) else 'cells'}[{what.name!r}]"


class Printer:
    """Prints sources, values and effects as Python.

    Args:
        named: gives the name of a fact that a program has bound to one; otherwise None.
        free: gives the Python name of a local or a cell, of the first part of a module's name, and of the
            words ``out``, ``tmp``, ``hooks``, ``modules``, ``named`` and ``tensors``, and of those of hooks.
    """

    def __init__(
        self,
        named: Callable[[Source | Value], str | None] = lambda _: None,
        free: Callable[[Local | ClosureCell | str], str] = _own_name,
    ) -> None:
        self._named = named
        self._free = free

    def source(self, source: Source) -> str:
        """A source as an expression."""
        name = self._named(source)
        if name is not None:
            return name
        match source:
            case Attribute(base, attribute):
                return self.attribute(self.source(base), attribute)
            case Item(base, key):
                return f"{self.source(base)}[{literal_text(key)}]"
            case GlobalName(module, attribute):
                return self.attribute(self._dotted(module, "modules"), attribute)
            case Temporary(number):
                return f"{self._free('tmp')}{number}"
            case Length(base):
                return f"len({self.source(base)})"
            case Each():
                return EACH
        return self._free(source)

    def word(self, word: str) -> str:
        """The program's name for a word of its own."""
        return self._free(word)

    def attribute(self, base: str, name: str) -> str:
        """An attribute of an expression."""
        return f"{base}.{name}" if is_name(name) else f"getattr({base}, {name!r})"

    def _dotted(self, text: str, otherwise: str) -> str:
        """A dotted name that the program may use as it is; otherwise an entry of a dict by this name."""
        if is_dotted(text) and self._free(text.partition(".")[0]) == text.partition(".")[0]:
            return text
        return f"{self._free(otherwise)}[{text!r}]"

    def reference(self, text: str) -> str:
        """A class or function ``module:qualname`` as an expression."""
        module, _, name = text.partition(":")
        if is_dotted(name):
            return f"{self._dotted(module, 'modules')}.{name}"
        return f"{self._free('named')}[{text!r}]"

    def value(self, value: Value) -> str:
        """A value as an expression."""
        name = self._named(value)
        if name is not None:
            return name
        match value:
            case Output(index):
                return f"{self._free('out')}[{index}]"
            case Constant(literal):
                return literal_text(literal)
            case At(source):
                return self.source(source)
            case New(number):
                return f"{self._free('tmp')}{number}"
            case Stored(number):
                return f"{self._free('tensors')}[{number}]"
            case Computed(op, items):
                return COMPUTED[op].format(*(self._operand(op, item) for item in items))
        return self._container(value)

    def _operand(self, op: str, value: Value) -> str:
        """An operand in its operation: in brackets unless it has no operator, or one that binds more."""
        text = self.value(value)
        is_plain = not isinstance(value, Computed) or COMPUTED[value.op][-1] == ")"
        binds_more = isinstance(value, Computed) and op in COMPARISONS and value.op not in COMPARISONS
        return text if is_plain or binds_more else f"({text})"

    def _container(self, value: Made) -> str:
        items = [self.value(item) for item in value.items]
        if value.kind == "list":
            return f"[{', '.join(items)}]"
        if value.kind == "inference":
            return f"inference({items[0]})"
        if value.kind == "format":
            return f"{items[0]}.format({', '.join(items[1:])})"
        if value.kind in ("dtype", "device"):
            text = str(literal_of(value.items[0]))
            return text if value.kind == "dtype" else f"torch.device({text!r})"
        if value.kind in ("tuple", "size"):
            return _tuple(items) if value.kind == "tuple" else f"torch.Size({_tuple(items)})"
        return container_text(value, items, self.reference)

    def effect(self, effect: Effect) -> str:
        """An effect as a statement."""
        if effect.op is Op.CALL:
            return call_text(effect, self.value, lambda module: self._dotted(module, "modules"))
        source = self.source(effect.source)
        if hooks_of(effect):
            return hooks_text(effect, self)
        key = "" if effect.key is None else self.value(effect.key)
        value = "" if effect.value is None else self.value(effect.value)
        if effect.op in STATEMENTS:
            return STATEMENTS[effect.op].format(source=source, key=key, value=value)
        literal = effect.key.value if isinstance(effect.key, Constant) else None
        name = literal if isinstance(literal, str) else ""
        match effect.op, effect.source:
            case Op.NEW, _ if isinstance(effect.value, Made):
                return new_text(source, name, effect.value, value, self.reference)
            case Op.NEW, _:
                return f"{source} = {EMPTY_LITERALS.get(name) or f'object.__new__({self.reference(name)})'}"
            case Op.DELETE_ATTRIBUTE, _:
                return f"del {source}.{name}" if is_name(name) else f"delattr({source}, {key})"
            case Op.SET_BACKWARD, _:
                return f"set_backward({source}, {self.reference(name)}, *{value})"
            case Op.REMOVE_HOOK, _:
                return f"{self._free('hooks')}.pop({value}).remove()"
            case Op.SET_CELL, ClosureCell() as cell:
                return f"{self._free(cell)} = {value}"
            case _, GlobalName(module, name) if effect.op is Op.SET_GLOBAL:
                source = self._dotted(module, "modules")
        return f"{source}.{name} = {value}" if is_name(name) else f"setattr({source}, {name!r}, {value})"
