"""Generated code → the graph of a method: each operator that it calls, at the place that a run gives it.

Calls of modules and functions are followed; nothing runs. Values are followed by name: one that two branches
assign comes from both. A place is found from the calls that lead to an operator, as for PyTorch's profiler:
so an operation of a run has the id of its node.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from archive.base.errors import ArchiveError, one_line
from archive.formats.record_kinds import code_record, module_of
from archive.reader.lookups.generated_code import GeneratedCode
from archive.reader.lookups.places import StockPlaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.app.model_explorer.graph import OperatorGraph
    from archive.reader.archive import Archive

MOST_CALLS = 60
"""Most calls inside one another."""
TENSORS = ("Tensor", "Optional[Tensor]")
OPERATORS, FUNCTIONS = "torch", "ops"
"""Begin the names of operators in generated code: ``torch.relu``, ``ops.quantized.linear``."""
LIBRARY = "aten"
ROOT = "__torch__"
"""Begins the names of functions in generated code."""


class HeldModule(NamedTuple):
    """A module, by the attributes that lead to it and its class."""

    path: tuple[str, ...]
    type_name: str


class CodeFunction(NamedTuple):
    """A function of generated code, and the record that it is in."""

    record: str
    node: ast.FunctionDef


Value: TypeAlias = frozenset[str] | HeldModule | CodeFunction
"""The nodes that a value comes from, a module, or a function."""
Env: TypeAlias = dict[str, Value]
NOTHING: Value = frozenset()


def add_code(graph: OperatorGraph, opened: Archive, method: str) -> None:
    """Add the operators of a method of the top module.

    Raises:
        ArchiveError: its code is nested too deep to be followed.
    """
    flow = _CodeFlow(graph, opened)
    top = HeldModule((), opened.qualified_top)
    function = flow.function(*flow.named(top.type_name, method))
    if function is None:
        return
    names = [each.arg for each in function.node.args.args[1:]]
    inputs: list[Value] = [frozenset([graph.add_input(name)]) for name in names]
    try:
        flow.called(function, [top, *inputs], ())
    except RecursionError as error:
        raise ArchiveError("generated code is nested too deep to be drawn", file=opened.file) from error


class _CodeFlow:
    """Follows calls from a method on."""

    def __init__(self, graph: OperatorGraph, opened: Archive) -> None:
        self._graph, self._opened = graph, opened
        self._code = GeneratedCode(opened.records, self._text)
        self._functions = cache(self._functions_of)
        self._place = cache(StockPlaces(opened).of_stack)

    def _text(self, record: str) -> bytes:
        return bytes(self._opened.records[record].view())

    def _functions_of(self, record: str) -> Mapping[tuple[str, str], ast.FunctionDef]:
        """The functions of a record by their class, "" without one, and name."""
        if self._code.record(record) is None:  # there is none, or it isn't Python's syntax
            return {}
        found = dict[tuple[str, str], ast.FunctionDef]()
        for part in ast.parse(self._text(record)).body:
            inside = part.body if isinstance(part, ast.ClassDef) else [part]
            kind = f"{module_of(record)}.{part.name}" if isinstance(part, ast.ClassDef) else ""
            found |= {(kind, each.name): each for each in inside if isinstance(each, ast.FunctionDef)}
        return found

    @staticmethod
    def named(type_name: str, method: str) -> tuple[str, str, str]:
        """The record, class and name of a method."""
        return code_record(type_name.rpartition(".")[0]), type_name, method

    def function(self, record: str, type_name: str, name: str) -> CodeFunction | None:
        """A function; None if the archive has none of this name."""
        node = self._functions(record).get((type_name, name))
        return None if node is None else CodeFunction(record, node)

    def called(self, function: CodeFunction, given: Sequence[Value], stack: tuple[str, ...]) -> Value:
        """Follow a call; what it returns.

        Args:
            given: its arguments by position.
            stack: the calls that lead to it, the outermost first.
        """
        self._graph.step()
        if len(stack) >= MOST_CALLS:
            raise ArchiveError(f"calls of more than {MOST_CALLS} functions inside one another")
        names = [each.arg for each in function.node.args.args]
        return _Body(self, self._graph, function, stack).run(dict(zip(names, given, strict=False)))

    def operator(self, op: str, stack: tuple[str, ...], given: Iterable[str]) -> Value:
        """Add an operator that is called."""
        place = self._place(stack[::-1], op)
        number = self._graph.add_operator(place, op, None)
        self._graph.connect(number, given)
        return frozenset([number])

    def attribute(self, holder: HeldModule, name: str) -> Value:
        """A module of a module, or a tensor."""
        kind = self._code.type_of(holder.type_name, (name,))
        path = (*holder.path, name)
        if kind in TENSORS:
            return frozenset([self._graph.add_weight(".".join(path))])
        record = self._code.record(code_record(kind.rpartition(".")[0]))
        return HeldModule(path, kind) if record is not None and kind in record.types else NOTHING


class _Body:
    """Follows the values of one call of a function."""

    def __init__(
        self, flow: _CodeFlow, graph: OperatorGraph, function: CodeFunction, stack: tuple[str, ...]
    ) -> None:
        self._flow, self._graph, self._function, self._stack = flow, graph, function, stack
        self._returned: Value = NOTHING

    def run(self, env: Env) -> Value:
        """Follow all statements."""
        self._follow(self._function.node.body, env)
        return self._returned

    def _follow(self, statements: Sequence[ast.stmt], env: Env) -> None:
        for statement in statements:
            if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                value = NOTHING if statement.value is None else self._value(statement.value, env)
                for target in targets:
                    _bind(target, value, env)
            elif isinstance(statement, ast.If | ast.For | ast.While):
                self._branch(statement, env)
            elif isinstance(statement, ast.Return):
                if statement.value is not None:
                    self._returned = _either(self._returned, self._value(statement.value, env))
            else:
                for part in ast.iter_child_nodes(statement):
                    if isinstance(part, ast.expr):
                        self._value(part, env)

    def _branch(self, statement: ast.If | ast.For | ast.While, env: Env) -> None:
        """Follow both ways; what either assigns may be meant after them."""
        asked = statement.iter if isinstance(statement, ast.For) else statement.test
        value = self._value(asked, env)
        if isinstance(statement, ast.For):
            _bind(statement.target, value, env)
        self._graph.step(2 * len(env))
        ways = [dict(env), dict(env)]
        self._follow(statement.body, ways[0])
        self._follow(statement.orelse, ways[1])
        for name in {**ways[0], **ways[1]}:
            env[name] = _either(ways[0].get(name, NOTHING), ways[1].get(name, NOTHING))

    def _value(self, node: ast.expr, env: Env) -> Value:
        """Follow an expression."""
        value = self._followed(node, env)
        self._graph.step(1 + len(value) if isinstance(value, frozenset) else 1)
        return value

    def _followed(self, node: ast.expr, env: Env) -> Value:
        if isinstance(node, ast.Name):
            return env.get(node.id, NOTHING)
        if isinstance(node, ast.Attribute):
            words = _words(node)
            if words[:1] == (ROOT,):
                return self._flow.function(code_record(".".join(words[:-1])), "", node.attr) or NOTHING
            holder = self._value(node.value, env)
            return self._flow.attribute(holder, node.attr) if isinstance(holder, HeldModule) else holder
        if isinstance(node, ast.Call):
            return self._call(node, env)
        parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
        return _joined(self._value(part, env) for part in parts)

    def _call(self, node: ast.Call, env: Env) -> Value:
        given = [self._value(part, env) for part in (*node.args, *(each.value for each in node.keywords))]
        stack = (*self._stack, f"{self._function.record}({node.lineno}): {self._function.node.name}")
        words = _words(node.func)
        if words == ("getattr",) and isinstance(given[0], HeldModule):
            name = node.args[1]
            return self._flow.attribute(given[0], str(getattr(name, "value", "")))
        if words[:1] == (OPERATORS,) and len(words) == 2:  # noqa: PLR2004 (torch.NAME)
            return self._flow.operator(f"{LIBRARY}::{one_line(words[1])}", stack, _nodes(given))
        if words[:1] == (FUNCTIONS,) and len(words) == 3:  # noqa: PLR2004 (ops.LIBRARY.NAME)
            return self._flow.operator(one_line("::".join(words[1:])), stack, _nodes(given))
        if isinstance(node.func, ast.Attribute) and words[:1] != (ROOT,):  # a method
            holder = self._value(node.func.value, env)
            given = [holder, *given]
            if isinstance(holder, HeldModule):
                method = self._flow.function(*self._flow.named(holder.type_name, node.func.attr))
                return _joined(given) if method is None else self._flow.called(method, given, stack)
            return _joined(given)
        called = self._value(node.func, env)
        return self._flow.called(called, given, stack) if isinstance(called, CodeFunction) else _joined(given)


def _bind(target: ast.expr, value: Value, env: Env) -> None:
    if isinstance(target, ast.Name):
        env[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            _bind(part, value, env)


def _words(node: ast.expr) -> tuple[str, ...]:
    """The parts of a dotted name; () of other expressions."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        before = _words(node.value)
        return (*before, node.attr) if before else ()
    return ()


def _nodes(values: Iterable[Value]) -> Iterable[str]:
    """The nodes that values come from, in order."""
    for value in values:
        if isinstance(value, frozenset):
            yield from sorted(value)


def _joined(values: Iterable[Value]) -> Value:
    return frozenset(_nodes(values))


def _either(one: Value, other: Value) -> Value:
    """A value that is one or the other."""
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one | other
    return one if one == other or not other else other if not one else NOTHING
