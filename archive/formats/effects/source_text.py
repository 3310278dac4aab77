"""Sources, values, effects and guards as Python.

``self.history[-1]``, ``tests.models.COUNT``, ``count`` for a closure cell, ``out[0]`` for an output of the
graph. Names that aren't Python identifiers are written as strings: ``getattr(self, 'block-1')``,
``modules['my-app'].COUNT``.

Containers and hooks: ``collections.deque([1, 2], 3)``, ``partial(models.more_by, k=3)``,
``MethodType(models.A.f, self.a)``; ``copied(f, 1, k=2, closure=(x,))`` is a copy of a function with these
defaults and this closure.
"""

from __future__ import annotations

import math
import unicodedata
from keyword import iskeyword
from typing import TYPE_CHECKING

from archive.formats.effects.containers import BASES, COLLECTIONS, FACTORIES, HEADS, PAIRED, head
from archive.formats.effects.hooks import hooks_of
from archive.formats.effects.known_calls import LEVELS, PRINT, WARN
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
    TorchName,
)
from archive.formats.effects.words import COMPARISONS, COMPUTED, LOOKS, OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.formats.effects.model import Effect, Guard, Literal, Source, Value

NUMBER_TESTS = {
    "float": "{}.is_floating_point()",
    "complex": "{}.is_complex()",
    "bool": "{}.dtype == torch.bool",
    "int": "is_int({}.dtype)",
}
HOOK_WORDS = ("MethodType", "partial", "copied", "put_on_backward_hooks")
"""Names that the texts of hooks use."""
MOST_DECIMAL_BITS = 10_000
"""Bits of integers printed in decimal; by default Python refuses more than 4300 digits."""
EACH = "item"
"""The name of each item of a list."""
HANDLE, CONTEXT = "torch.utils.hooks:RemovableHandle", "torch.autograd.function:FunctionCtx"
"""Classes of PyTorch's objects in a table: handles of hooks, and contexts of autograd functions."""
EMPTY_LITERALS = {"builtins:list": "[]", "builtins:dict": "{}", HANDLE: "object.__new__(RemovableHandle)"}
"""Classes that an effect ``new`` may make without permission."""


def is_name(text: str) -> bool:
    """Whether a text is an identifier that Python keeps as it is: not a keyword, and in NFKC form."""
    return (
        text.isidentifier()
        and not iskeyword(text)
        and text != "__debug__"
        and unicodedata.normalize("NFKC", text) == text
    )


def is_dotted(text: str) -> bool:
    """Whether a text is identifiers separated by dots."""
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
        case Look.KIND, str(name):
            return NUMBER_TESTS.get(name, f"{{}}.kind == {value}").format(subject)
        case Look.SETTING, _:
            return f"{one_word(str(literal_of(guard.key)))} is {value}"
        case Look.RANGE, int(bound) if bound > 0 and bound & (bound - 1) == 0:
            value = f"2**{bound.bit_length() - 1}"
    return LOOKS[guard.look].text.format(subject=subject, value=value, key=key)


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
    if isinstance(literal, TorchName):
        is_name = literal.kind == "dtype" and is_dotted(literal.text)
        return literal.text if is_name else f"torch.device({literal.text!r})"
    if isinstance(literal, float) and not math.isfinite(literal):
        return f"float('{literal}')"
    if type(literal) is int and literal.bit_length() > MOST_DECIMAL_BITS:
        return hex(literal)
    return repr(literal)


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _own_name(what: Local | ClosureCell | str) -> str:
    """The name of a local, a cell or a word in the model itself, or an expression for it."""
    if isinstance(what, str):
        return what
    if is_name(what.name):
        return what.name
    return f"{'arguments' if isinstance(what, Local) else 'cells'}[{what.name!r}]"


class Printer:
    """Prints sources, values and effects as Python.

    Args:
        named: fact -> the name that a program bound it to; None for others.
        free: gives the Python name of a local or a cell, of the first part of a module's name, of the words
            ``out``, ``tmp``, ``hooks``, ``modules``, ``named`` and ``tensors``, and of the words of hooks.
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

    def attribute(self, base: str, name: str) -> str:
        """An attribute of an expression."""
        return f"{base}.{name}" if is_name(name) else f"getattr({base}, {name!r})"

    def _dotted(self, text: str, otherwise: str) -> str:
        """A dotted name that the program may use as it is; otherwise an entry of a dict with this name."""
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
        """An operand in its operation: in parentheses unless it has no operator or binds more tightly."""
        text = self.value(value)
        is_plain = not isinstance(value, Computed) or COMPUTED[value.op][-1] == ")"
        binds_more = isinstance(value, Computed) and op in COMPARISONS and value.op not in COMPARISONS
        return text if is_plain or binds_more else f"({text})"

    def _container(self, value: Made) -> str:
        """A container as an expression; its first items may say what it is."""
        kind = value.kind
        items = [self.value(item) for item in value.items]
        inside = items[HEADS.get(kind, 0) :]
        listed = f"[{', '.join(inside)}]"
        if kind in PAIRED:
            pairs = zip(inside[::2], inside[1::2], strict=False)
            text = f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
            if kind == "defaultdict":
                return f"collections.defaultdict({self._factory(head(value))}, {text})"
            return text if kind == "dict" else f"collections.OrderedDict({text})"
        match kind:
            case "list":
                return listed
            case "tuple":
                return _tuple(items)
            case "size":
                return f"torch.Size({_tuple(items)})"
            case "dtype":
                return str(literal_of(value.items[0]))
            case "device":
                return f"torch.device({str(literal_of(value.items[0]))!r})"
            case "inference":
                return f"inference({items[0]})"
            case "format":
                return f"{items[0]}.format({', '.join(items[1:])})"
            case "view":
                return f"{items[0]}.as_strided({', '.join(items[1:])})"
            case "set":
                return f"{{{', '.join(inside)}}}" if inside else "set()"
            case "frozenset":
                return f"frozenset({listed if inside else ''})"
            case "deque":
                return f"collections.deque({listed}{'' if head(value) is None else f', {head(value)}'})"
        return f"{self.reference(str(head(value)))}({', '.join(inside)})"

    def _factory(self, name: object) -> str:
        """The factory of a ``defaultdict`` as an expression."""
        if name is None:
            return "None"
        module, _, function = str(name).partition(":")
        return function if module == "builtins" and function in FACTORIES else self.reference(str(name))

    def effect(self, effect: Effect) -> str:
        """An effect as a statement."""
        if effect.op is Op.CALL:
            return self._call(effect)
        source = self.source(effect.source)
        value = "" if effect.value is None else self.value(effect.value)
        if hooks := [self._hook(hook) for hook in hooks_of(effect)]:
            if effect.op is Op.REGISTER_BACKWARD_HOOKS:
                return f"{self._free('put_on_backward_hooks')}({', '.join([source, value, *hooks])})"
            handle = value if isinstance(effect.value, New) else f"{self._free('hooks')}[{value}]"
            return f"{handle} = {source}.{effect.op}({hooks[0]})"
        key = "" if effect.key is None else self.value(effect.key)
        if text := OPS[effect.op].text:
            return text.format(source=source, key=key, value=value)
        literal = literal_of(effect.key)
        name = literal if isinstance(literal, str) else ""
        match effect.op, effect.source:
            case Op.NEW, _ if isinstance(effect.value, Made):
                return self._new(source, name, effect.value)
            case Op.NEW, _:
                return f"{source} = {EMPTY_LITERALS.get(name) or f'object.__new__({self.reference(name)})'}"
            case Op.DELETE_ATTRIBUTE, _:
                return f"del {source}.{name}" if is_name(name) else f"delattr({source}, {key})"
            case Op.SET_BACKWARD, _:
                return f"set_backward({source}, {self.reference(name)}, *{value})"
            case Op.SET_CELL, ClosureCell() as cell:
                return f"{self._free(cell)} = {value}"
            case _, GlobalName(module, name) if effect.op is Op.SET_GLOBAL:
                source = self._dotted(module, "modules")
        return f"{source}.{name} = {value}" if is_name(name) else f"setattr({source}, {name!r}, {value})"

    def _new(self, target: str, name: str, base: Made) -> str:
        """The statement that creates a container, or an object of a class derived from one.

        Args:
            target: the name that is bound.
            name: the class, ``module:qualname``.
            base: an empty container of the kind that the class is, or derives from.
        """
        if name == BASES[base.kind]:
            return f"{target} = {self.value(base)}"
        cls = f"collections.{base.kind}" if base.kind in COLLECTIONS else base.kind
        made = f"{target} = {cls}.__new__({self.reference(name)})"
        if head(base) is None:
            return made
        given = f"[], {head(base)}" if base.kind == "deque" else self._factory(head(base))
        return f"{made}; {cls}.__init__({target}, {given})"

    def _call(self, effect: Effect) -> str:
        """A call of a known function; its place in the source, which formatters may see, is left out."""
        assert isinstance(effect.value, Made)  # noqa: S101 (checked)
        settings = literal_of(effect.key)
        assert isinstance(settings, tuple)  # noqa: S101 (checked)
        arguments = list(map(self.value, effect.value.items))
        if effect.source == PRINT:
            named = {"sep": (settings[0], " "), "end": (settings[1], "\n")}
            arguments += [f"{name}={given!r}" for name, (given, usual) in named.items() if given != usual]
            return f"print({', '.join(arguments)})"
        if effect.source == WARN:
            warnings = self._dotted("warnings", "modules")
            return f"{warnings}.warn({', '.join([*arguments, str(settings[0])])})"
        name, level = settings[:2]
        logging = self._dotted("logging", "modules")
        logger = f"{logging}.getLogger({name!r})" if name else logging
        method = LEVELS.get(level) if isinstance(level, int) else None
        if method is None:
            return f"{logger}.log({', '.join([repr(level), *arguments])})"
        return f"{logger}.{method}({', '.join(arguments)})"

    def _hook(self, hook: Value) -> str:
        """A hook as an expression."""
        if not isinstance(hook, Made):
            return self.reference(str(literal_of(hook)))
        if hook.kind == "method":
            return f"{self._free('MethodType')}({self._hook(hook.items[0])}, {self.value(hook.items[1])})"
        if hook.kind == "partial":
            args, named = hook.items[1:]
            given = [self._hook(hook.items[0]), *self._arguments(args, named)]
            return f"{self._free('partial')}({', '.join(given)})"
        name, _, defaults, named, cells, _ = hook.items
        reference = self.reference(str(literal_of(name)))
        given = self._arguments(defaults, named)
        if held := [self.value(cell.items[0] if isinstance(cell, Made) else cell) for cell in _items(cells)]:
            given.append(f"closure={_tuple(held)}")
        return f"{self._free('copied')}({', '.join([reference, *given])})" if given else reference

    def _arguments(self, args: Value, named: Value) -> list[str]:
        """The arguments of a call: a tuple, and a dict by name."""
        keys = (str(literal_of(key)) for key in _items(named)[::2])
        pairs = zip(keys, map(self.value, _items(named)[1::2]), strict=False)
        return [
            *map(self.value, _items(args)),
            *(f"{key}={value}" if _is_keyword(key) else f"**{{{key!r}: {value}}}" for key, value in pairs),
        ]


def _is_keyword(text: str) -> bool:
    """Whether an argument can have a text as its name."""
    return text.isascii() and text.isidentifier() and not iskeyword(text) and text != "__debug__"


def _items(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, Made) else ()


def modules_named(value: Value) -> Iterator[str]:
    """The Python modules in the text of a value, without those of its items."""
    if not isinstance(value, Made):
        return
    if value.kind in COLLECTIONS:
        yield "collections"
    which = head(value)
    if isinstance(which, str):
        yield which.partition(":")[0]
