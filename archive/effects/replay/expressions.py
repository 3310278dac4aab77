"""Sources and values as Python expressions, whose results get names in a compiled function.

========  ==============================================  =========================================
name      value                                           bound
========  ==============================================  =========================================
``k4``    an attribute name, key or constant              as a global name of the function
``s0``    the value at a source                           before the first change
``t0``    a temporary                                     before the first change
``v0``    a value computed from others                    before the first change
``c0``    a computed number                               before the graph runs
``n0``    an operand of one, which is checked             before the graph runs
``w0``    a value at or below a temporary                 right before the change that needs it
========  ==============================================  =========================================

The text has from the table only numbers and names that Python's syntax takes as such; everything else of the
table becomes a constant ``k``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.replay.container_classes import factory, tuple_maker
from archive.effects.replay.errors import StateError
from archive.effects.replay.named_values import NAMED
from archive.formats.effects.computed import COMPUTED, OF_TENSORS
from archive.formats.effects.containers import HEADS, PAIRED, head
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    GlobalName,
    Item,
    Length,
    Local,
    Made,
    New,
    Output,
    Temporary,
)
from archive.formats.effects.parts import root_of
from archive.formats.effects.rows import Numbering
from archive.formats.effects.source_text import is_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.effects.replay.code_names import Allowed
    from archive.formats.effects.model import Literal, Source, Value


UNBOUNDED = ("mul", *OF_TENSORS)
"""Operations whose results are checked: products have many bits, and what is no tensor has any size."""
SMALL = 1 << 62
"""Constants up to here need no check."""


class FunctionNames:
    """Global names of the compiled functions, and the numbers of sources.

    Args:
        fixed: functions and values that the text calls by name.
        defaults: values of arguments that a call may leave out.
        allow: classes and functions that values may have.
    """

    def __init__(
        self, fixed: Mapping[str, object], defaults: Mapping[str, Literal], allow: Allowed = ()
    ) -> None:
        self.globals: dict[str, Any] = dict(fixed)
        self.defaults = defaults
        self.allow = allow
        self.numbering = Numbering()

    def constant(self, value: object) -> str:
        """A new name for a value that cannot stand in the text."""
        name = f"k{len(self.globals)}"
        self.globals[name] = value
        return name


class Expressions:
    """Lines of a function, as far as they read state and compute values.

    Args:
        names: of the functions compiled together.
    """

    def __init__(self, names: FunctionNames) -> None:
        self._names = names
        self._lines: list[str] = []
        self._late: list[str] = []
        self._late_count = 0
        self._bound: set[str] = set()

    def add(self, *lines: str) -> None:
        """Add lines to those before the first change."""
        self._lines += lines

    def take_lines(self) -> list[str]:
        """Hand over the lines before the first change; names that they bind stay known."""
        lines, self._lines = self._lines, []
        return lines

    def take_late(self) -> list[str]:
        """Hand over the lines that must stand right before the next change."""
        lines, self._late = self._late, []
        return lines

    def bind(self, expression: str, *, late: bool = False) -> str:
        """A name for the value of an expression: computed before the first change, or as late as possible."""
        if late:
            name = f"w{self._late_count}"
            self._late_count += 1
            self._late.append(f"{name} = {expression}")
            return name
        name = f"v{len(self._lines)}"
        self.add(f"{name} = {expression}")
        return name

    def value(self, value: Value) -> str:
        """A name for a value."""
        match value:
            case Constant(literal):
                return self._names.constant(literal)
            case At(source):
                return self.source(source)
            case New(number):
                return f"t{number}"
        count = self._late_count
        expression = self._expression(value)
        return self.bind(expression, late=self._late_count > count)

    def hooks(self, key: Value, code: Mapping[str | tuple[str, str], object]) -> str:
        """A name for a hook, or an expression for tuples of them."""
        if not isinstance(key, Made) or key.kind != "tuple":
            return self.hook(key, code)
        return f"({''.join(f'{self.hooks(one, code)}, ' for one in key.items)})"

    def hook(self, hook: Value, code: Mapping[str | tuple[str, str], object]) -> str:
        """A name for a hook.

        Args:
            hook: a valid one.
            code: the functions that hooks name, and code of hooks by name and digest.
        """
        if isinstance(hook, Constant):
            return self._names.constant(code[str(hook.value)])
        count = self._late_count
        expression = self._hook(hook, code)
        return self.bind(expression, late=self._late_count > count)

    def _hook(self, hook: Value, code: Mapping[str | tuple[str, str], object]) -> str:
        assert isinstance(hook, Made)  # noqa: S101 (checked)
        inner, *rest = hook.items
        if hook.kind == "function":
            digest, defaults, named, cells, _ = rest
            found = self._names.constant(code[_text(inner), _text(digest)])
            made = ", ".join(map(self.value, (defaults, named)))
            assert isinstance(cells, Made)  # noqa: S101 (checked)
            closure = "".join(f"{self._cell(one)}, " for one in cells.items)
            return f"made_function(state, {found}, {made}, ({closure}))"
        function = self.hook(inner, code)
        given = list(map(self.value, rest))
        if hook.kind == "method":
            return f"MethodType({function}, {given[0]})"
        return f"partial({function}, *{given[0]}, **{given[1]})"

    def _cell(self, cell: Value) -> str:
        """A cell of its own, or one of the model's."""
        if isinstance(cell, Made):
            return f"CellType({self.value(cell.items[0])})"
        assert isinstance(cell, At)  # noqa: S101 (checked)
        assert isinstance(cell.source, ClosureCell)  # noqa: S101 (checked)
        function, name = map(self._names.constant, (cell.source.function, cell.source.name))
        return f"state.cell({function}, {name})"

    def _expression(self, value: Value) -> str:  # noqa: PLR0911 (one a kind)
        """A value as an expression; only containers are spelled out."""
        if isinstance(value, Output):
            return f"out[{value.index}]"
        if not isinstance(value, Made):
            return self.value(value)
        items = [self._expression(item) for item in value.items]
        if value.kind == "inference":
            return self._once(f"i{self._names.numbering.value(value)}", f"inference({items[0]})")
        if value.kind in NAMED:
            return f"{value.kind}({items[0]})"
        if value.kind == "format":
            return f"{items[0]}.format({', '.join(items[1:])})"
        if value.kind == "list":
            return f"[{', '.join(items)}]"
        if value.kind in ("tuple", "size"):
            made = f"({''.join(f'{item}, ' for item in items)})"
            return made if value.kind == "tuple" else f"size({made})"
        return self._container(value, items[HEADS.get(value.kind, 0) :])

    def _container(self, made: Made, items: list[str]) -> str:
        """A dict, or a container of a kind that Python has no brackets for."""
        kind, constant = made.kind, self._names.constant
        if kind in PAIRED:
            pairs = zip(items[::2], items[1::2], strict=True)
            text = f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
            if kind == "defaultdict":
                return f"defaultdict({constant(factory(head(made), self._names.allow))}, {text})"
            return text if kind == "dict" else f"OrderedDict({text})"
        listed = f"({''.join(f'{item}, ' for item in items)})"
        if kind == "deque":
            return f"deque({listed}, {constant(head(made))})"
        if kind == "namedtuple":
            fields: Any = head(made, 1)
            return f"{constant(tuple_maker(str(head(made)), fields, self._names.allow))}({listed})"
        return f"{kind}({listed})"

    def snapshot(self, value: Value, changed: Iterable[Source]) -> str:
        """A name for a tensor to copy from, cloned if an earlier effect changes it.

        Args:
            value: the tensor.
            changed: sources of the tensors that earlier effects change in place.
        """
        count = self._late_count
        text = self.value(value)
        late = self._late_count > count
        tensors = list(changed)
        if not tensors:
            return text
        if isinstance(value, At):
            return self.bind(f"{text}.clone()", late=late)
        names = ", ".join(self.source(source) for source in tensors)
        return self.bind(f"cloned_if_changed({text}, ({names},))", late=self._late_count > count)

    def source(self, source: Source) -> str:
        """A name for the value at a source, which is read once; below a temporary it is read each time."""
        if isinstance(source, Temporary):
            return f"t{source.number}"
        if isinstance(root_of(source), Temporary):
            return self.bind(self._place(source), late=True)
        name = f"s{self._names.numbering.source(source)}"
        return name if name in self._bound else self._once(name, self._place(source))

    def _place(self, source: Source) -> str:  # noqa: PLR0911 (one a kind)
        """An expression that reads a source."""
        constant = self._names.constant
        match source:
            case Attribute(base, name):
                holder = self.source(base)
                return f"{holder}.{name}" if is_name(name) else f"getattr({holder}, {constant(name)})"
            case Item(base, key):
                return f"{self.source(base)}[{constant(key)}]"
            case GlobalName(module, name):
                return f"state.global_({constant(module)}, {constant(name)}, allowed)"
            case Length(base):
                return f"len({self.source(base)})"
            case ClosureCell(function, name):
                return f"state.cell({constant(function)}, {constant(name)}).cell_contents"
            case Local("self"):
                return "state.roots['self']"
            case Local(name) if name in self._names.defaults:
                return f"arguments.get({constant(name)}, {constant(self._names.defaults[name])})"
            case Local(name):
                return f"state.argument(arguments, {constant(name)})"
        raise StateError("no place that can be read")

    def compared(self, value: Value) -> str:
        """An expression for a guard's subject or value.

        A guard only compares, so that below a global name it may see code for which it has no permission.
        """
        if isinstance(value, At) and isinstance(root_of(value.source), GlobalName):
            return self._below_global(value.source)
        if isinstance(value, Computed):
            return self._computed(value)
        return self.value(value)

    def _computed(self, value: Computed) -> str:
        """A name for a computed number; equal ones are computed once."""
        operands = [self.compared(item) for item in value.items]
        if value.op not in OF_TENSORS:
            operands = [self._number(*pair) for pair in zip(value.items, operands, strict=True)]
        return self._once(f"c{self._names.numbering.value(value)}", COMPUTED[value.op].format(*operands))

    def _number(self, value: Value, text: str) -> str:
        """A name for an operand, checked unless it is a number of limited size by itself."""
        if isinstance(value, Computed) and value.op not in UNBOUNDED:
            return text
        if isinstance(value, Constant) and type(value.value) is int and abs(value.value) <= SMALL:
            return text
        return self._once(f"n{self._names.numbering.value(value)}", f"number({text})")

    def _once(self, name: str, expression: str) -> str:
        """Bind a name to the value of an expression, unless it has been bound."""
        if name not in self._bound:
            self._bound.add(name)
            self.add(f"{name} = {expression}")
        return name

    def _below_global(self, source: Source) -> str:
        constant = self._names.constant
        match source:
            case Attribute(base, name):
                return f"getattr({self._below_global(base)}, {constant(name)})"
            case Item(base, key):
                return f"{self._below_global(base)}[{constant(key)}]"
            case Length(base):
                return f"len({self._below_global(base)})"
            case GlobalName(module, name):
                return f"state.names({constant(module)})[{constant(name)}]"
        raise StateError("no place that can be read")


def _text(value: Value) -> str:
    assert isinstance(value, Constant)  # noqa: S101 (checked)
    return str(value.value)


def cloned_if_changed(value: Any, changed: tuple[object, ...]) -> Any:  # noqa: ANN401
    """A tensor, or a copy of it if it is one of those changed in place before it is copied from."""
    return value.clone() if any(value is one for one in changed) else value
