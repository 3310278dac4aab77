"""The TorchScript source of lowered modules.

The texts are those that PyTorch's own lowering generates (``torch/csrc/jit/backends/backend_detail.cpp``), to
the blank, because errors show them. They differ where PyTorch's would be wrong: keyword-only arguments,
defaults, and a tuple without elements.

Sources are made large, so that PyTorch compiles them in time and memory that follow from their size. For each
variable that only one branch of an ``if`` defines, PyTorch's compiler copies the whole source, in case an
error must show the place: 3.4 GB for a lowered model of eight attention layers. It doesn't if the source has
512 KiB or more (``reportSourceLocation`` in ``torch/csrc/jit/frontend/ir_emitter.cpp``). So a comment is
appended to the code of such models; compressed, it takes half a KiB.
"""

from __future__ import annotations

import math
import re
from itertools import count
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.lower.handles import innermost
from archive.backend.pytorch import shown
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.graph.graphs import Operation, Schema

# --- padding

LARGE = 1 << 19
"""Size from which PyTorch does not copy a source, in bytes."""
MOST_COPIED = 1 << 24
"""Bytes of copies that PyTorch may make: some 10 ms."""
ASSIGNMENT = re.compile(rb"^( *)[\w, ]+(?: : [^=\n]+)? = ", re.MULTILINE)
APART = b"\n" * 5
"""Empty lines before the comment: errors show three lines after the one that failed."""


def padding(source: bytes, body: int) -> bytes:
    """What to append to a source; nothing if PyTorch compiles it quickly.

    Args:
        body: how many blanks stand before a method's statement outside of branches.
    """
    if len(source) >= LARGE:
        return b""
    in_branches = sum(len(indentation) > body for indentation in ASSIGNMENT.findall(source))
    if in_branches * len(source) <= MOST_COPIED:
        return b""
    return APART + b"#" * (LARGE - len(source) - len(APART))


# --- methods

MARGIN = " " * 12
ESCAPED_LETTERS = "\\'"
UNAVAILABLE = "Backend is not available."
UNAVAILABLE_WARNING = (
    "Backend [{}] is not available. Execution of this Module is still possible by saving and loading on a "
    "device where the backend is available."
)
CHANGES_STATE = (
    "This changes the state of the module; of an eager one, lower(..., effects=True, example_inputs=...) "
    "captures the change."
)
STATE_PARAMETER = "state: Tuple[Dict[str, Any], Any, bool]"


def block(lines: Sequence[str]) -> str:
    """Lines as in PyTorch's raw strings: after an empty first line, each with a margin."""
    return "\n" + "".join(f"{MARGIN}{line}\n" for line in lines) + MARGIN


def method(name: str, schema: Schema, statements: Sequence[str]) -> str:
    """A method of the lowered module that runs statements."""
    return block([f"def {name}(self{parameters(schema)}):", *(f"    {line}" for line in statements)])


def with_comment(method: str, comment: str) -> str:
    """A method with a comment after it, and with another one between if PyTorch needs that."""
    return method + padding((method + comment).encode(), len(MARGIN) + 4).decode() + comment


CHECK_PREFIX = "__check_"
"""Start of the names of methods that check the arguments of the method whose name follows."""


def forwarding(method: str, schema: Schema, held: str = "__loweredModule__", *, checked: bool = False) -> str:
    """A method that calls the method of the same name of a module that the wrapper, or another, holds.

    Args:
        held: the attribute that holds it.
        checked: whether it has the lowered module check the arguments first.
    """
    passed = ", ".join(
        f"{argument.name}={argument.name}" if argument.kwarg_only else argument.name
        for argument in arguments(schema)
    )
    check = [f"    self.{held}.{CHECK_PREFIX}{method}({passed})"] if checked else []
    return block(
        [
            f"def {method}(self{parameters(schema)}):",
            *check,
            f"    return self.{held}.{method}({passed})",
        ]
    )


def executing(method: str, schema: Schema) -> str:
    """A method of the lowered module that has the backend execute it, and checks the types of the results.

    It is PyTorch's text, unless the method returns None. PyTorch's compiler takes None for no result, and
    the lite interpreter shows none of the calls that lead to a block without results (see
    :mod:`archive.backend.lower.links`): there, the backend's list is the result of the block.
    """
    inputs = "".join(f"{argument.name}, " for argument in arguments(schema))
    types, is_tuple = results(schema)
    names = [f"_{number}" for number in range(len(types))]
    targets = " ".join(f"{name}," for name in names)
    executed = f'self.__execute(self.__handles["{method}"], typed_inputs)'
    if types == ["NoneType"] and not is_tuple:
        return block(
            [
                f"def {method}(self{parameters(schema)}):",
                f"    typed_inputs: List[Any] = [{inputs}]",
                "    if self.__is_available() :",
                f"      _results = {executed}",
                "    else:",
                f'      raise Exception("{UNAVAILABLE}")',
                "    _0, = _results",
                "    assert isinstance(_0, NoneType)",
                "    return _0",
            ]
        )
    returned = f"{names[0]}," if is_tuple and len(names) == 1 else ", ".join(names)
    return block(
        [
            f"def {method}(self{parameters(schema)}):",
            f"    typed_inputs: List[Any] = [{inputs}]",
            "    if self.__is_available() :",
            f"      {targets} = {executed}" if names else f"      {executed}",
            *(f"      assert isinstance({name}, {kind})" for name, kind in zip(names, types, strict=True)),
            f"      return {returned or '()'}",
            "    else:",
            f'      raise Exception("{UNAVAILABLE}")',
        ]
    )


def parameters(schema: Schema) -> str:
    """The parameters of a method after ``self``, with types and defaults."""
    parts, starred = [], False
    for argument in arguments(schema):
        if argument.kwarg_only and not starred:
            parts.append("*")
            starred = True
        default = f" = {literal(argument.default_value)}" if argument.has_default_value() else ""
        parts.append(f"{argument.name}: {argument.type.annotation_str}{default}")
    return "".join(f", {part}" for part in parts)


def arguments(schema: Schema) -> list[Any]:
    """The arguments of a method after ``self``."""
    return list(schema.arguments)[1:]


def with_unique_names(schema: Schema) -> Schema:
    """A schema whose arguments have names of their own.

    PyTorch calls several arguments of a traced ``forward(self, *args)`` by one name: ``input``, ``input``.
    """
    names = [argument.name for argument in schema.arguments]
    if len(set(names)) == len(names):
        return schema
    made: list[str] = []
    for name in names:
        free = (f"{name}_{number}" for number in count(1))
        made.append(
            name if name not in made else next(other for other in free if other not in (*names, *made))
        )
    renamed = [
        torch._C.Argument(name, argument.type, None, None, False, None)
        for name, argument in zip(made, schema.arguments, strict=True)
    ]
    return torch._C.FunctionSchema(schema.name, schema.overload_name, renamed, schema.returns, False, False)


def results(schema: Schema) -> tuple[list[str], bool]:
    """The types that a method returns, one for each element of a tuple; and whether it returns a tuple."""
    (result,) = schema.returns
    if result.type.kind() != "TupleType":
        return [result.type.annotation_str], False
    return [kind.annotation_str for kind in result.type.elements()], True


def literal(value: object) -> str:
    """A constant as TorchScript source."""
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, str):
        # Octal escapes are the only numeric ones that TorchScript reads.
        letters = (
            letter
            if letter.isprintable() and letter not in ESCAPED_LETTERS
            else "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogatepass"))
            for letter in value
        )
        return f"'{''.join(letters)}'"
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, list | tuple):
        items = [literal(item) for item in value]
        return f"[{', '.join(items)}]" if isinstance(value, list) else tuple_literal(items)
    raise LoweringError(f"no literal for a constant of type {type(value).__name__}")


def tuple_literal(items: Sequence[str]) -> str:
    """A tuple of expressions; a single item is followed by a comma."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


GET_STATE = block(
    [
        "def __getstate__(self):",
        "    # The third parameter indicates whether __setstate__ must create",
        "    # the backend instance. It's hardcoded to True since the only",
        "    # case it can be false is when __setstate__ is called from",
        "    # outside the module (at module creation time), because",
        "    # __create_backed has been called already (also directly).",
        "    return self.__method_compile_spec, self.__processed_module, True",
    ]
)
SET_STATE = block(
    [
        f"def __setstate__(self, {STATE_PARAMETER}):",
        "    self.__method_compile_spec = state[0]",
        "    self.__processed_module = state[1]",
        "    # state[2] indicates whether to create the backend instance.",
        "    if state[2]:",
        "        self.__create_backend()",
        "        self.__create_backend_debug_info()",
        "    if self.__is_available() :",
        "        self.__handles = self.__compile(self.__processed_module, self.__method_compile_spec)",
        "    else:",
        f'        raise Exception("{UNAVAILABLE}")',
    ]
)


def compile_error(operation: Operation, reason: str = "") -> str:
    """PyTorch's message about an operation that a backend does not support, with its range in the source.

    Args:
        reason: why not: ``at most 64 outputs``. It stands between PyTorch's words and the source.

    If the range is in PyTorch's own source, as that of ``nn.Linear`` is, the calls on the way there stand
    before it, from the innermost line that is not PyTorch's on.

    Preprocessing raises a :class:`~archive.backend.LoweringError` with this message, or with those of
    several operations, each on a new line.
    """
    is_read = operation.kind == "prim::Constant" and operation.path is not None
    kind = "prim::GetAttr" if is_read else operation.kind
    why = f": {reason.removesuffix('.')}" if reason else ""
    said = f"The node of {kind} is not supported in this compiler{why}. Source code: {_shown(operation)}"
    is_state = kind == "prim::SetAttr" and operation.path is not None
    return f"{said.rstrip()}\n{CHANGES_STATE}" if is_state else said


def _shown(operation: Operation) -> str:
    """The source of an operation as PyTorch shows it, after that of the calls from the model to PyTorch's."""
    ranges = [*(call.range for call in operation.stack), operation.range]
    texts = [*map(shown, ranges[:-1]), operation.shown]
    first = innermost(None if span is None else bytes(span.source.filename or b"") for span in ranges)
    return "".join(texts[first:])
