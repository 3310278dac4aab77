"""Writes a graph as TorchScript: one statement a line, so that each operation has a debug handle of its own.

Values are named ``r0``, ``r1`` …: no name may begin with ``in`` or ``is``, which TorchScript's lexer would
take for operators. A value that a loop carries has one name, which is assigned before the loop and at the end
of its body. Constant tensors are items of a list, an attribute of the module.

Operators are called through ``torch.ops``, with keyword-only arguments by name. Operators on numbers, texts,
lists and dicts are, too, so that TorchScript chooses the overload that it chose in the model. Operations that
``torch.ops`` does not have are written as in Python. What many statements call has a short name: PyTorch
asks Python four times for each ``torch.ops.aten.add``, which would take a third of the time for compiling.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch

from archive.backend.graph.aliasing import Sharing, changes
from archive.backend.graph.attributes import ENTER, EXIT, OBJECT_TYPE, OWN_TYPE, READ, WRITE, is_object
from archive.backend.graph.graphs import UNPACKING, elements
from archive.backend.lower.codegen import literal, tuple_literal
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.backend.graph.graphs import Block, Graph, Operation

# --- constants

PLACEHOLDERS = {
    "Tensor": "torch.empty([0])",
    "bool": "False",
    "int": "0",
    "float": "0.",
    "complex": "0j",
    "number": "0",
    "str": '""',
    "NoneType": "None",
    "Device": 'torch.device("cpu")',
}


def annotated(kind: str, text: str) -> str:
    """An expression with its type written down."""
    if OWN_TYPE in kind.replace(OBJECT_TYPE, ""):
        raise LoweringError(f"a value of type {kind}")
    return f"torch.jit.annotate({kind}, {text})"


def constant(value: object, kind: str, tensor: Callable[[torch.Tensor], str]) -> str:
    """The expression for a constant of a type; ``tensor`` gives those for tensors."""
    if value is not None and kind.startswith("Optional["):
        (kind,) = elements(kind)
    if isinstance(value, list | dict) or (isinstance(value, tuple) and "[" in kind):
        text = _items(value, kind, tensor)
        return annotated(kind, text) if not value or "[" in kind[5:] else text
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value) if isinstance(value, complex) else literal(value)


def _items(
    value: list[object] | tuple[object, ...] | dict[object, object],
    kind: str,
    tensor: Callable[[torch.Tensor], str],
) -> str:
    """A list, tuple or dict; see :func:`constant` for the arguments."""
    if "[" not in kind:
        raise LoweringError(f"a constant of type {kind}")
    kinds = elements(kind)
    if isinstance(value, dict):
        key, held = kinds
        pairs = [f"{constant(k, key, tensor)}: {constant(v, held, tensor)}" for k, v in value.items()]
        return f"{{{', '.join(pairs)}}}"
    kinds = kinds * len(value) if isinstance(value, list) else kinds
    items = [constant(item, item_kind, tensor) for item, item_kind in zip(value, kinds, strict=True)]
    return f"[{', '.join(items)}]" if isinstance(value, list) else tuple_literal(items)


def placeholder(kind: str) -> str:
    """Some value of a type, for values that TorchScript passes on but never reads, as after early returns."""
    if kind.startswith(("List[", "Dict[")):
        return annotated(kind, "[]" if kind[0] == "L" else "{}")
    if kind.startswith("Optional["):
        return annotated(kind, "None")
    if kind.startswith("Tuple["):
        return tuple_literal([placeholder(item) for item in elements(kind)])
    if kind not in PLACEHOLDERS:
        raise LoweringError(f"a value of type {kind}")
    return PLACEHOLDERS[kind]


# --- statements

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
EXPRESSION_TEMPLATES = {
    "prim::TupleIndex": "{0}[{1}]",
    "prim::shape": "{0}.shape",
    "prim::type": "{0}.type",
    "prim::unchecked_cast": "torch.jit._unwrap_optional({0})",
}
"""Expressions for operators that ``torch.ops`` lacks, or has with another result type."""
EXPRESSION_WRITERS: dict[str, Callable[[list[str], str], str]] = {
    "prim::DictConstruct": lambda words, kind: _dict(kind, words),
    "prim::ListConstruct": lambda words, kind: _collected(kind, f"[{', '.join(words)}]"),
    "prim::TupleConstruct": lambda words, _: tuple_literal(words),
    "prim::tolist": lambda words, kind: annotated(kind, f"{words[0]}.tolist()"),
    "aten::format": lambda words, _: f"{words[0]}.format({', '.join(words[1:])})",
    "aten::percentFormat": lambda words, _: f"{words[0]} % ({', '.join(words[1:])})",
}
"""Expressions for operators that take any number of values, or whose result type must be written down."""
DICT_OF_PAIRS = tuple(f"aten::dict.{kind}((" for kind in ("str", "int", "bool", "float", "complex", "Tensor"))
"""Beginnings of the schemas of operators that make a dict of a list of pairs."""


def statement(operation: Operation, words: list[str], outputs: list[str], kind: str) -> str:
    """The statement that runs an operation, by expressions for its inputs and names of its outputs.

    ``kind`` is the type of the first output; "" if there is none.
    """
    if operation.kind == "prim::RaiseException":
        # PyTorch shows the class: itself if it is Python's own, else Exception.
        name = words[1].strip("'").removeprefix("builtins.") if len(words) > 1 else ""
        raised = getattr(builtins, name, None)
        is_own = isinstance(raised, type) and issubclass(raised, Exception)
        return f"raise {name if is_own else 'Exception'}({words[0]})"
    if operation.kind == "prim::Print":
        return f"print({', '.join(words)})"
    if operation.kind in UNPACKING:
        return f"{' '.join(f'{name},' for name in outputs)} = {words[0]}" if outputs else "pass"
    if operation.kind in EXPRESSION_TEMPLATES:
        made = EXPRESSION_TEMPLATES[operation.kind].format(*words)
    elif operation.schema.startswith(DICT_OF_PAIRS):
        # PyTorch's operator for a dict of a list of pairs fails in the lite interpreter.
        pair = f"{outputs[0]}_pair"
        made = _collected(kind, f"{{{pair}[0]: {pair}[1] for {pair} in {words[0]}}}")
    elif operation.kind in EXPRESSION_WRITERS:
        made = EXPRESSION_WRITERS[operation.kind](words, kind)
    else:
        made = _call(operation, words)
    return f"{', '.join(outputs)} = {made}" if outputs else made


def _collected(kind: str, text: str) -> str:
    """A list or dict with its type, or without if it holds objects of a class: its items show the type."""
    return text if "__torch__" in kind and len(text) > len("[]") else annotated(kind, text)


def _dict(kind: str, words: list[str]) -> str:
    pairs = (f"{key}: {value}" for key, value in zip(words[::2], words[1::2], strict=True))
    return _collected(kind, f"{{{', '.join(pairs)}}}")


def _call(operation: Operation, words: list[str]) -> str:
    """A call of an operator through ``torch.ops``."""
    space, _, name = operation.kind.partition("::")
    if not operation.schema or not IDENTIFIER.fullmatch(space) or not IDENTIFIER.fullmatch(name):
        raise LoweringError(operation.kind)
    prefixes = _argument_prefixes(operation.schema)
    if len(prefixes) != len(words) or not hasattr(getattr(torch.ops, space), name):
        raise LoweringError(operation.kind)
    given = [prefix + word for prefix, word in zip(prefixes, words, strict=True)]
    return f"torch.ops.{space}.{name}({', '.join(given)})"


@cache
def _argument_prefixes(schema: str) -> tuple[str, ...]:
    """What stands before each argument of an operator: ``alpha=`` before one that is only given by name."""
    return tuple(
        f"{argument.name}=" if argument.kwarg_only else ""
        for argument in torch._C.parse_schema(schema).arguments
    )


# --- emitting

CONSTANTS_ATTRIBUTE = "self.__constants"
UNBOUNDED_TRIPS = 2**63 - 1
"""The trip count that TorchScript gives to the loop of a ``while``."""


@dataclass(slots=True, eq=False)
class Emitted:
    """The body of a method.

    Attributes:
        operations: for each line the operation that it runs; None if it runs none.
    """

    constants: list[torch.Tensor]
    lines: list[str] = field(default_factory=list)
    operations: list[Operation | None] = field(default_factory=list)
    unsupported: list[Operation] = field(default_factory=list)


def emitted(
    graph: Graph, parameters: list[str], constants: list[torch.Tensor], held: Mapping[str, str]
) -> Emitted:
    """The body of a method that runs a graph.

    Args:
        constants: the constant tensors of the methods before; those of this one are added.
        held: expressions for the state and the objects that the lowered module holds, by their paths.
    """
    emitter = _Emitter(graph, parameters, constants, held)
    emitter.block(graph.body, 0)
    (result,) = [emitter.word(value) for value in graph.body.results]
    emitter.line(f"return {result}", None, 0)
    _shorten(emitter.out, parameters)
    return emitter.out


CALL = re.compile(r"( *(?:[\w., ]+ = )?)(torch\.(?:ops\.\w+|jit)\.\w+)(?=\()")
"""The beginning of a statement that calls a function of PyTorch: what stands before it, and its name."""


MANY = 16
"""Statements that call a function, from which on it has a short name."""


def _shorten(body: Emitted, parameters: list[str]) -> None:
    """Give the functions that many statements call short names, by statements at the beginning."""
    calls = [CALL.match(line) if "torch." in line else None for line in body.lines]
    counts = Counter(call[2] for call in calls if call is not None)
    prefix = "call_"
    while any(name.startswith(prefix) for name in parameters):
        prefix += "_"
    short = {
        name: prefix + name.removeprefix("torch.").removeprefix("ops.").replace(".", "_")
        for name, count in counts.items()
        if count >= MANY
    }
    for number, call in enumerate(calls):
        if call is not None and call[2] in short:
            body.lines[number] = call[1] + short[call[2]] + body.lines[number][call.end() :]
    body.lines[:0] = [f"{name} = {function}" for function, name in short.items()]
    body.operations[:0] = [None] * len(short)


class _Move(NamedTuple):
    """An assignment of a value to a name, of a type, that another value may have had before."""

    name: str
    kind: str
    value: int


class _Emitter:
    """Writes the blocks of one graph."""

    def __init__(
        self, graph: Graph, parameters: list[str], constants: list[torch.Tensor], held: Mapping[str, str]
    ) -> None:
        self.out = Emitted(constants)
        self._held = held
        self._types = graph.types
        self._words = dict(zip(graph.body.parameters, parameters, strict=True))
        self._letter = "r"
        while any(re.match(rf"{self._letter}\d", name) for name in parameters):
            self._letter += "r"
        self._fixed = Sharing(graph).fixed
        operations = list(graph.operations())
        self._known = {
            operation.outputs[0]: operation.value
            for operation in operations
            if operation.kind == "prim::Constant"
        }
        self._used = {value for operation in operations for value in operation.inputs}

    def line(self, text: str, operation: Operation | None, depth: int) -> None:
        """Add a statement, indented for the blocks around it."""
        self.out.lines.append("    " * depth + text)
        self.out.operations.append(operation)

    def word(self, value: int) -> str:
        """The expression for a value: its name, or a literal."""
        return self._words.get(value, self._name(value))

    def _name(self, value: int) -> str:
        return f"{self._letter}{value}"

    def block(self, block: Block, depth: int) -> None:
        """Add the statements of a block."""
        for operation in block.operations:
            try:
                depth -= operation.kind == EXIT and not operation.outputs
                write = WRITERS.get(operation.kind, _Emitter._statement)
                write(self, operation, depth)
                depth += operation.kind == ENTER
            except LoweringError:
                self.out.unsupported.append(operation)

    def _statement(self, operation: Operation, depth: int) -> None:
        if self._fixed.intersection(changes(operation)):
            raise LoweringError("changes a constant")
        words = [self.word(value) for value in operation.inputs]
        outputs = [self._name(value) for value in operation.outputs]
        kind = self._types[operation.outputs[0]] if outputs else ""
        self.line(statement(operation, words, outputs, kind), operation, depth)

    def _uninitialized(self, operation: Operation, _: int) -> None:
        (output,) = operation.outputs
        self._words[output] = placeholder(self._types[output])

    def _constant(self, operation: Operation, depth: int) -> None:
        """Give a tensor its name; any other constant is written where it is used."""
        (output,) = operation.outputs
        kind = self._types[output]
        if is_object(operation, kind):
            self._words[output] = self._held_at(operation)
            return
        text = constant(operation.value, kind, self._tensor)
        if operation.value is None and kind.startswith("Optional[") and "__torch__" not in kind:
            text = annotated(kind, text)  # TorchScript gives a bare None a type of its own
        if CONSTANTS_ATTRIBUTE in text:
            self.line(f"{self._name(output)} = {text}", None, depth)
        else:
            self._words[output] = text

    def _read(self, operation: Operation, depth: int) -> None:
        """Read an attribute that is state: here, for it may be written below."""
        self.line(f"{self._name(operation.outputs[0])} = {self._held_at(operation)}", operation, depth)

    def _write(self, operation: Operation, depth: int) -> None:
        self.line(f"{self._held_at(operation)} = {self.word(operation.inputs[0])}", operation, depth)

    def _held_at(self, operation: Operation) -> str:
        """The expression for an attribute that is state, or a C++ object."""
        if operation.path is None or operation.path not in self._held:
            raise LoweringError(operation.kind)
        return self._held[operation.path]

    def _tensor(self, value: torch.Tensor) -> str:
        """The expression for a constant tensor, which is added to the list unless it is there."""
        constants = self.out.constants
        place = next((place for place, constant in enumerate(constants) if constant is value), len(constants))
        if place == len(constants):
            constants.append(value)
        return f"{CONSTANTS_ATTRIBUTE}[{place}]"

    def _enter(self, operation: Operation, depth: int) -> None:
        """Begin a block without gradients. TorchScript leaves it when an operation fails, too."""
        if operation.inputs:
            raise LoweringError("a context other than no_grad")
        self.line("with torch.no_grad():", operation, depth)
        self.line("pass", None, depth + 1)

    def _exit(self, operation: Operation, _: int) -> None:
        if operation.outputs:
            raise LoweringError("a context other than no_grad")

    def _if(self, operation: Operation, depth: int) -> None:
        condition = self.word(operation.inputs[0])
        for block, head in zip(operation.blocks, (f"if {condition}:", "else:"), strict=True):
            self.line(head, operation, depth)
            self._body(block, self._moves(operation.outputs, block.results), operation, depth + 1)

    def _loop(self, operation: Operation, depth: int) -> None:
        (body,) = operation.blocks
        count, *carried = body.parameters
        times, going, *given = operation.inputs
        for move in self._moves(carried, given):
            self._assign(move, operation, depth)
        moves = self._moves(carried, body.results[1:])
        if self._always(going) and self._always(body.results[0]):
            self.line(f"for {self._name(count)} in range({self.word(times)}):", operation, depth)
            self._body(body, moves, operation, depth + 1)
        else:
            self._while(operation, moves, depth)
        self._words |= {
            output: self._name(value) for output, value in zip(operation.outputs, carried, strict=True)
        }

    def _while(self, operation: Operation, moves: list[_Move], depth: int) -> None:
        """Add a loop that may end early. It has a counter only if something uses that."""
        (body,) = operation.blocks
        name, (times, going, *_) = self._name(body.parameters[0]), operation.inputs
        bounded = self._known.get(times) != UNBOUNDED_TRIPS
        counted = bounded or body.parameters[0] in self._used
        self.line(f"{name}_go = {self.word(going)}", None, depth)
        if counted:
            self.line(f"{name} = 0", None, depth)
        end = f" and {name} < {self.word(times)}" if bounded else ""
        self.line(f"while {name}_go{end}:", operation, depth)
        self._body(body, [_Move(f"{name}_go", "bool", body.results[0]), *moves], operation, depth + 1)
        if counted:
            self.line(f"{name} = {name} + 1", None, depth + 1)

    def _always(self, value: int) -> bool:
        """Whether a condition is the constant True."""
        return self._known.get(value) is True

    def _body(self, block: Block, moves: list[_Move], operation: Operation, depth: int) -> None:
        """Add a block, then assign all its results as if at once: a loop may swap what it carries."""
        before = len(self.out.lines)
        self.block(block, depth)
        moves = [move for move in moves if move.name != self.word(move.value)]
        overwritten = {move.name for move in moves}
        for value in dict.fromkeys(move.value for move in moves):
            word = self.word(value)
            if word in overwritten:
                self.line(f"{word}_was = {word}", None, depth)
                self._words[value] = f"{word}_was"
        for move in moves:
            self._assign(move, operation, depth)
        if len(self.out.lines) == before:
            self.line("pass", None, depth)

    def _moves(self, targets: list[int], values: list[int]) -> list[_Move]:
        return [
            _Move(self._name(target), self._types[target], value)
            for target, value in zip(targets, values, strict=True)
        ]

    def _assign(self, move: _Move, operation: Operation, depth: int) -> None:
        word = self.word(move.value)
        if move.kind != self._types[move.value]:
            try:
                word = annotated(move.kind, word)
            except LoweringError:
                self.out.unsupported.append(operation)
        self.line(f"{move.name} = {word}", None, depth)


WRITERS: dict[str, Callable[[_Emitter, Operation, int], None]] = {
    ENTER: _Emitter._enter,
    EXIT: _Emitter._exit,
    READ: _Emitter._read,
    WRITE: _Emitter._write,
    "prim::Constant": _Emitter._constant,
    "prim::If": _Emitter._if,
    "prim::Loop": _Emitter._loop,
    "prim::Uninitialized": _Emitter._uninitialized,
}
"""Methods that write the operations that are not exactly one statement."""
