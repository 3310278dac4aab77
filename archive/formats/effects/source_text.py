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

from archive.formats.effects.containers import CLASS_NAMES, FACTORIES, PAIRED, PARAMETERS, parameter
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
from archive.formats.effects.parts import output_count, places, reads, root_of, values_of
from archive.formats.effects.words import COMPARISONS, COMPUTED, LOOKS, OPS

if TYPE_CHECKING:
    from archive.formats.effects.model import Effect, Guard, Literal, MethodEffects, Source, Value

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


def guard_text(guard: Guard) -> str:
    """A guard as a Python expression."""
    rule, literal = LOOKS[guard.look], literal_of(guard.value)
    subject, value = value_text(guard.subject), value_text(guard.value)
    if guard.look is Look.RANGE and type(literal) is int and literal > 0 and literal & (literal - 1) == 0:
        value = f"2**{literal.bit_length() - 1}"
    text = rule.texts.get(literal, rule.text) if isinstance(literal, bool | str | None) else rule.text
    if guard.look is Look.EQUAL and isinstance(guard.subject, Computed) and isinstance(literal, bool):
        text = "{subject}" if literal else "not {subject}"
    text = text.format(
        subject=subject,
        value=value,
        word=one_word(str(literal).rpartition(":")[2]),
        key="" if guard.key is None else value_text(guard.key),
        option=one_word(str(literal_of(guard.key))),
    )
    if isinstance(guard.subject, At) and isinstance(guard.subject.source, Each):
        return f"all({text} for {EACH} in {source_text(guard.subject.source.base)})"
    return text


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


# --- sources and values


def source_text(source: Source) -> str:
    """A source as an expression."""
    match source:
        case Attribute(base, name):
            return _attribute(source_text(base), name)
        case Item(base, key):
            return f"{source_text(base)}[{literal_text(key)}]"
        case GlobalName(module, name):
            return _attribute(_module(module), name)
        case Temporary(number):
            return f"tmp{number}"
        case Length(base):
            return f"len({source_text(base)})"
        case Each():
            return EACH
    if is_name(source.name):
        return source.name
    return f"{'arguments' if isinstance(source, Local) else 'cells'}[{source.name!r}]"


def _attribute(base: str, name: str) -> str:
    return f"{base}.{name}" if is_name(name) else f"getattr({base}, {name!r})"


def _module(name: str) -> str:
    return name if is_dotted(name) else f"modules[{name!r}]"


def _reference(text: str) -> str:
    """A class or function ``module:qualname`` as an expression."""
    module, _, name = text.partition(":")
    return f"{_module(module)}.{name}" if is_dotted(name) else f"named[{text!r}]"


def value_text(value: Value) -> str:
    """A value as an expression."""
    match value:
        case Output(index):
            return f"out[{index}]"
        case Constant(literal):
            return literal_text(literal)
        case At(source):
            return source_text(source)
        case New(number):
            return f"tmp{number}"
        case Stored(number):
            return f"tensors[{number}]"
        case Computed(op, items):
            return COMPUTED[op].format(*(_operand(op, item) for item in items))
    return _container(value)


def _operand(op: str, value: Value) -> str:
    """An operand in its operation: in parentheses unless it has no operator or binds more tightly."""
    text = value_text(value)
    is_plain = not isinstance(value, Computed) or COMPUTED[value.op][-1] == ")"
    binds_more = isinstance(value, Computed) and op in COMPARISONS and value.op not in COMPARISONS
    return text if is_plain or binds_more else f"({text})"


def _container(value: Made) -> str:
    """A container as an expression; its first items may say what it is."""
    kind = value.kind
    items = list(map(value_text, value.items))
    inside = items[PARAMETERS.get(kind, 0) :]
    listed = f"[{', '.join(inside)}]"
    if kind in PAIRED:
        pairs = zip(inside[::2], inside[1::2], strict=False)
        text = f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
        if kind == "defaultdict":
            return f"collections.defaultdict({_factory(parameter(value))}, {text})"
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
            return f"collections.deque({listed}{'' if parameter(value) is None else f', {parameter(value)}'})"
    return f"{_reference(str(parameter(value)))}({', '.join(inside)})"


def _factory(name: object) -> str:
    """The factory of a ``defaultdict`` as an expression."""
    if name is None:
        return "None"
    return FACTORIES[str(name)].__name__ if name in FACTORIES else _reference(str(name))


# --- methods and effects


def graph_text(effects: MethodEffects) -> str:
    """Inputs and outputs of a method's graph: ``graph(x, self.count) -> 3 values``."""
    count = output_count(effects)
    inputs = ", ".join(map(source_text, effects.inputs))
    return f"graph({inputs}) -> {count} value{'' if count == 1 else 's'}"


def notes_of(effects: MethodEffects) -> list[str]:
    """What the texts of a method's effects don't say: when places are read, and whose variables cells are."""
    read = (root_of(source) for value in values_of(effects) for source in reads(value))
    reads_places = any(not isinstance(root, Temporary) for root in read)
    notes = ["values of places are those before the call"] if reads_places else []
    cells = dict.fromkeys(root for root in map(root_of, places(effects)) if isinstance(root, ClosureCell))
    return notes + [f"{source_text(cell)} is a variable of {cell.function!r}" for cell in cells]


def effect_text(effect: Effect) -> str:
    """An effect as a statement."""
    if effect.op is Op.CALL:
        return _call(effect)
    value = "" if effect.value is None else value_text(effect.value)
    hooks = hooks_of(effect)
    literal = literal_of(effect.key)
    name, source = literal if isinstance(literal, str) else "", source_text(effect.source)
    if effect.op is Op.NEW and isinstance(effect.value, Made):
        return _new(source, name, effect.value)
    if effect.op is Op.NEW and name in EMPTY_LITERALS:
        return f"{source} = {EMPTY_LITERALS[name]}"
    if effect.op is Op.SET_GLOBAL and isinstance(effect.source, GlobalName):
        source, name = _module(effect.source.module), effect.source.name
    rule = OPS[effect.op]
    text = rule.odd if rule.odd and not is_name(name) else rule.text
    return text.format(
        source=source,
        name=name,
        code=_reference(name),
        value=value,
        key="" if hooks or effect.key is None else value_text(effect.key),
        hooks=", ".join(map(_hook, hooks)),
        handle=value if isinstance(effect.value, New) else f"hooks[{value}]",
    )


def _new(target: str, name: str, base: Made) -> str:
    """The statement that creates a container, or an object of the class ``name`` derived from one.

    ``base`` is an empty container of the kind that the class is, or derives from.
    """
    if name == CLASS_NAMES[base.kind]:
        return f"{target} = {value_text(base)}"
    cls = CLASS_NAMES[base.kind].replace(":", ".").removeprefix("builtins.")
    made = f"{target} = {cls}.__new__({_reference(name)})"
    if parameter(base) is None:
        return made
    given = f"[], {parameter(base)}" if base.kind == "deque" else _factory(parameter(base))
    return f"{made}; {cls}.__init__({target}, {given})"


def _call(effect: Effect) -> str:
    """A call of a known function; its place in the source, which formatters may see, is left out."""
    assert isinstance(effect.value, Made)  # noqa: S101 (checked)
    settings = literal_of(effect.key)
    assert isinstance(settings, tuple)  # noqa: S101 (checked)
    arguments = list(map(value_text, effect.value.items))
    if effect.source == PRINT:
        named = {"sep": (settings[0], " "), "end": (settings[1], "\n")}
        arguments += [f"{name}={given!r}" for name, (given, usual) in named.items() if given != usual]
        return f"print({', '.join(arguments)})"
    if effect.source == WARN:
        return f"warnings.warn({', '.join([*arguments, str(settings[0])])})"
    name, level = settings[:2]
    logger = f"logging.getLogger({name!r})" if name else "logging"
    method = LEVELS.get(level) if isinstance(level, int) else None
    if method is None:
        return f"{logger}.log({', '.join([repr(level), *arguments])})"
    return f"{logger}.{method}({', '.join(arguments)})"


def _hook(hook: Value) -> str:
    """A hook as an expression."""
    if not isinstance(hook, Made):
        return _reference(str(literal_of(hook)))
    if hook.kind == "method":
        return f"MethodType({_hook(hook.items[0])}, {value_text(hook.items[1])})"
    if hook.kind == "partial":
        args, named = hook.items[1:]
        return f"partial({', '.join([_hook(hook.items[0]), *_arguments(args, named)])})"
    name, _, defaults, named, cells, _ = hook.items
    reference = _reference(str(literal_of(name)))
    given = _arguments(defaults, named)
    if held := [value_text(cell.items[0] if isinstance(cell, Made) else cell) for cell in _items(cells)]:
        given.append(f"closure={_tuple(held)}")
    return f"copied({', '.join([reference, *given])})" if given else reference


def _arguments(args: Value, named: Value) -> list[str]:
    """The arguments of a call: a tuple, and a dict by name."""
    keys = (str(literal_of(key)) for key in _items(named)[::2])
    pairs = zip(keys, map(value_text, _items(named)[1::2]), strict=False)
    return [
        *map(value_text, _items(args)),
        *(f"{key}={value}" if _is_keyword(key) else f"**{{{key!r}: {value}}}" for key, value in pairs),
    ]


def _is_keyword(text: str) -> bool:
    """Whether an argument can have a text as its name."""
    return text.isascii() and text.isidentifier() and not iskeyword(text) and text != "__debug__"


def _items(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, Made) else ()
