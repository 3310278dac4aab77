"""The methods of a runtime in which operations fail: one copy of their statements for each debug handle.

TorchScript keeps one range of source for a node, and the calls on the way to it; but it loses calls on the
way to a node in a block without results. So the node's own range must be the model's. Each line of a copy
ends with its debug handle, which saving turns into the model's range::

    def __operate(self, kind: str, x: Tensor) -> Tensor:
        if self.__last_handle < 18:
            if self.__last_handle == 17:
                return torch.neg(x)  # debug handle 17
        else:
            if self.__last_handle == 18:
                return torch.neg(x)  # debug handle 18
        return torch.neg(x)

The last copy is for handles that nobody gave out, as in an archive that was changed. The conditions halve the
handles each time, so that the right copy of a thousand is found in ten steps.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from archive.backend.lower.carried import HANDLE_COMMENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FAIL_METHOD, OPERATE_METHOD = "fail", "operate"
"""The runtime's methods that report a failed operation, and that run one."""
FAILING_OPERATOR = "aten::_functional_assert_scalar"
"""The operator by which ``fail`` fails: the lite interpreter shows no source for what code raises."""
COPIED = (f"__{FAIL_METHOD}", f"__{OPERATE_METHOD}")
KIND = "kind"
"""The parameter of ``operate`` that is the operation's kind."""
INDENTATION = " " * 4


def by_handle(method: ast.FunctionDef, kinds: Mapping[int, str]) -> str:
    """The source of ``fail`` or ``operate``, with a copy of its statements for each debug handle.

    Args:
        method: the runtime's own method; its name and those that it uses are the lowered module's.
        kinds: the kind of each operation by its debug handle, in the order of the handles.
    """
    head, *own = _lines(method)
    if method.name == f"__{OPERATE_METHOD}":  # constants are read, not run
        kinds = {handle: kind for handle, kind in kinds.items() if kind != "prim::Constant"}
    takes_kind = _takes_kind(method)
    copies = []
    for handle, kind in kinds.items():
        condition = f"if self.__last_handle == {handle}" + (f" and {KIND} == {kind!r}" if takes_kind else "")
        lines = _copy(method, kind if takes_kind else None)
        copies.append((handle, [f"{condition}:", *(f"{line}{HANDLE_COMMENT}{handle}" for line in lines)]))
    return "\n".join([head, *_chosen(copies), *own, ""])


def _lines(method: ast.FunctionDef) -> list[str]:
    """The lines of a method: its head is one, and so is each simple statement."""
    return ast.unparse(method).split("\n")


def _copy(method: ast.FunctionDef, kind: str | None) -> list[str]:
    """The lines of a copy, with the blanks of a method's statements; ``kind`` if the method takes it."""
    if method.name == f"__{FAIL_METHOD}":
        (message,) = (argument.arg for argument in method.args.args[1:])
        return [f"{INDENTATION}return {_failing(message)}"]
    return _lines(_Copying(kind).visit(copy.deepcopy(method)))[1:]


def _takes_kind(method: ast.FunctionDef) -> bool:
    """Whether a method has the parameter ``kind``, and never gives it another value."""
    names = [node for node in ast.walk(method) if isinstance(node, ast.Name) and node.id == KIND]
    return any(argument.arg == KIND for argument in method.args.args) and all(
        isinstance(name.ctx, ast.Load) for name in names
    )


def _chosen(copies: Sequence[tuple[int, list[str]]]) -> list[str]:
    """The statements that choose the copy of the handle that runs."""
    if len(copies) > 1:
        middle = len(copies) // 2
        chosen = [
            f"if self.__last_handle < {copies[middle][0]}:",
            *_chosen(copies[:middle]),
            "else:",
            *_chosen(copies[middle:]),
        ]
    else:
        chosen = [line for _, lines in copies for line in lines]
    return [f"{INDENTATION}{line}" for line in chosen]


def _failing(message: str) -> str:
    """The expression that fails with a message, an expression."""
    return f"torch.ops.{FAILING_OPERATOR.replace('::', '.')}(0, {message}, torch.empty([0]))"


class _Copying(ast.NodeTransformer):
    """Makes a copy: ``fail`` fails where it is called, and comparisons of a known kind have their value.

    TorchScript compiles no branch that never runs.
    """

    def __init__(self, kind: str | None) -> None:
        self.kind = kind

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call of ``fail``."""
        self.generic_visit(node)
        if ast.unparse(node.func) != f"self.__{FAIL_METHOD}":
            return node
        (message,) = (*node.args, *(keyword.value for keyword in node.keywords))
        return ast.parse(_failing(ast.unparse(message)), mode="eval").body

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Replace ``kind == "aten::add"``."""
        match node:
            case ast.Compare(ast.Name(id="kind"), [ast.Eq()], [ast.Constant(value=str(kind))]) if self.kind:
                return ast.Constant(kind == self.kind)
        return self.generic_visit(node)
