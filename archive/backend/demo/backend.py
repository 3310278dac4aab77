"""The demo backend ``backend_with_compiler_demo``: sums and differences of float32 tensors.

Preprocessing turns a method into one text of tokens, joined by commas::

    prim::Load#0,prim::Constant#1<debug_handle>0,aten::add<debug_handle>1

=========================  =================================================================================
``prim::Load#i``           pushes value ``i``: the inputs come first, then the results in their order
``prim::Constant#number``  pushes a number
``aten::add``              takes ``self``, ``other`` and ``alpha`` from the stack, and pushes the result
``aten::sub``              the same
=========================  =================================================================================

A token's debug handle follows ``<debug_handle>``; a token without one has the handle -1. The value on top of
the stack at the end is the method's result. The texts of PyTorch's own demo backend load no values. They run
if they have a single operator: the stack then starts with the inputs. With more operators, PyTorch's texts do
not say which values each one takes, and are refused.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from archive.backend.demo.runtime import CompilerDemo
from archive.backend.lower.codegen import compile_error
from archive.backend.registry import Backend, Link
from archive.base.errors import LoweringError
from archive.formats.lowered import HANDLE_MARK

if TYPE_CHECKING:
    from archive.backend.graph.graphs import Graph, Operation
    from archive.backend.registry import GenerateDebugHandles, Original

SUPPORTED_OPERATORS = ("aten::add", "aten::sub")
MIN_FLOAT, MAX_FLOAT = sys.float_info.min, sys.float_info.max
"""The range of numbers whose digits TorchScript can read."""


def preprocess(
    original: Original,
    method_compile_spec: dict[str, Any],
    generate_debug_handles: GenerateDebugHandles,
) -> dict[str, str]:
    """The text of each method."""
    return {
        method: blob(original.graphs[method], generate_debug_handles(original.graphs[method]))
        for method in method_compile_spec
    }


def blob(graph: Graph, handles: dict[Operation, int]) -> str:
    """A graph as text."""
    places = {value: place for place, value in enumerate(graph.body.parameters)}
    constants: dict[int, Operation] = {}
    tokens: list[str] = []

    def push(value: int) -> None:
        if value in places:
            tokens.append(f"prim::Load#{places[value]}")
            return
        constant = constants[value]
        number = constant.value
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise LoweringError(compile_error(constant))
        if number and not MIN_FLOAT <= abs(number) <= MAX_FLOAT:  # the runtime reads no others
            raise LoweringError(compile_error(constant))
        tokens.append(f"prim::Constant#{constant.value!r}{HANDLE_MARK}{handles[constant]}")

    for operation in graph.body.operations:
        if operation.kind == "prim::Constant":
            constants[operation.outputs[0]] = operation
            continue
        if operation.kind not in SUPPORTED_OPERATORS or not operation.schema:
            raise LoweringError(compile_error(operation))
        if any(graph.types[value] != "Tensor" for value in operation.inputs if value in places):
            raise LoweringError(compile_error(operation))
        for value in operation.inputs:
            push(value)
        tokens.append(f"{operation.kind}{HANDLE_MARK}{handles[operation]}")
        places[operation.outputs[0]] = len(places)
    (result,) = graph.body.results
    if not tokens or places.get(result) != len(places) - 1:
        push(result)
    return ",".join(tokens)


COMPILER_DEMO = Backend("backend_with_compiler_demo", preprocess, CompilerDemo, Link.INLINE)
