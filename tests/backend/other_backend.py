"""A backend as other distributions have them: matrix products, sums, products and relu, on a tape.

What it keeps is ``(text, tensors)``, with one line a method in the text::

    forward;aten::matmul<debug_handle>1002 v0 t0;aten::relu<debug_handle>1003 v1

An operand is a value ``v`` (the inputs come first, then the results in their order), a tensor ``t``, or a
number ``n``. The last result is that of the method. With the link ``ahead of time`` the text is the blob.

Two smaller runtimes: :class:`Needy` is available only where gradients are recorded, which stand for the
device that it needs; TorchScript must be able to ask for it, here and in a process that loads the archive.
:class:`Echo` gives its inputs back.
"""

# ruff: noqa: ANN401, ARG002, PT018, UP006, UP032, UP035 (the runtime is in TorchScript's language)

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Tuple

import torch

from archive.backend import Ahead, Link, LoweringError, Original, compile_error

if TYPE_CHECKING:
    from archive.backend.graph.graphs import Operation


OPERATORS = {"aten::matmul": 2, "aten::add": 2, "aten::mul": 2, "aten::relu": 1}
"""The operators, and how many of their inputs are operands; one more is ``alpha``, which must be 1."""


class Tape:
    """Compiles and executes tapes.

    Attributes:
        last_handle: of the operation that runs, or has failed; -1 when none does.
        profiling: whether operations are to be recorded.
        operations: those recorded: start and end in ns, debug handle, operator's name.
    """

    def __init__(self) -> None:
        self.last_handle: int = -1
        self.profiling: bool = False
        self.operations: List[Tuple[int, int, int, str]] = []

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: Dict[str, Any]) -> Dict[str, Any]:
        assert torch.jit.isinstance(processed, Tuple[str, List[torch.Tensor]]), "expected a text and tensors"
        text, tensors = processed
        compiled: Dict[str, Any] = {}
        for line in text.split("\n"):
            steps = line.split(";")
            for step in steps[1:]:
                words = step.split(" ")
                parts = words[0].split("<debug_handle>")
                assert len(parts) == 2 and parts[1].isdigit() and len(parts[1]) < 19, "no step: " + step
                for word in words[1:]:
                    assert word[:1] == "n" or word[1:].isdigit(), "no operand: " + word
            compiled[steps[0]] = (steps[1:], tensors)
        for method in method_compile_spec:
            assert method in compiled, "expected a tape of method {}".format(method)
        return compiled

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:
        assert torch.jit.isinstance(handle, Tuple[List[str], List[torch.Tensor]]), "expected a tape"
        steps, tensors = handle
        values: List[torch.Tensor] = []
        for given in inputs:
            assert isinstance(given, torch.Tensor), "expected tensors as inputs"
            values.append(given)
        for step in steps:
            words = step.split(" ")
            name, number = words[0].split("<debug_handle>")
            self.last_handle = int(number)
            operands: List[torch.Tensor] = []
            for word in words[1:]:
                if word[0] == "n":
                    operands.append(torch.tensor(float(word[1:])))
                else:
                    operands.append((values if word[0] == "v" else tensors)[int(word[1:])])
            start = torch.ops.prim.TimePoint()
            values.append(self.operate(name, operands))
            if self.profiling:
                self.operations.append((start, torch.ops.prim.TimePoint(), self.last_handle, name))
        self.last_handle = -1
        return [values[-1]]

    def operate(self, kind: str, operands: List[torch.Tensor]) -> torch.Tensor:
        if kind == "aten::matmul":
            return torch.matmul(operands[0], operands[1])
        if kind == "aten::add":
            return torch.add(operands[0], operands[1])
        if kind == "aten::mul":
            return torch.mul(operands[0], operands[1])
        assert kind == "aten::relu", "no operator: " + kind
        return torch.relu(operands[0])


def preprocess(original: Original, method_compile_spec: dict[str, Any], generate_debug_handles: Any) -> Any:
    """The tapes of all methods."""
    made = preprocess_ahead(original, method_compile_spec, generate_debug_handles)
    return made.blob, made.tensors


def preprocess_ahead(
    original: Original, method_compile_spec: dict[str, Any], generate_debug_handles: Any
) -> Ahead:
    """The same for the link ``ahead of time``."""
    tensors: list[torch.Tensor] = []
    handles: dict[Operation, int] = {}
    lines = []
    for method in method_compile_spec:
        graph = original.graphs[method]
        handles |= generate_debug_handles(graph)
        words = {value: f"v{place}" for place, value in enumerate(graph.body.parameters)}
        count, steps = len(words), [method]
        for operation in graph.body.operations:
            if isinstance(operation.value, torch.Tensor):
                words[operation.outputs[0]] = f"t{len(tensors)}"
                tensors.append(operation.value)
            elif isinstance(operation.value, float | int):
                words[operation.outputs[0]] = f"n{operation.value!r}"
            else:
                taken = [words.get(value, "") for value in operation.inputs]
                operands = OPERATORS.get(operation.kind, -1)
                if operands < 0 or "" in taken or taken[operands:] not in ([], ["n1"]):
                    raise LoweringError(compile_error(operation))
                head = f"{operation.kind}<debug_handle>{handles[operation]}"
                steps.append(" ".join([head, *taken[:operands]]))
                words[operation.outputs[0]] = f"v{count}"
                count += 1
        lines.append(";".join(steps))
    return Ahead(original.graphs, handles, "\n".join(lines), tensors)


PREPROCESS = {Link.INLINE: preprocess, Link.AHEAD_OF_TIME: preprocess_ahead}


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight)


class Model(torch.nn.Module):
    """Two layers, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Layer()
        self.second = Layer()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) * 0.5 + y


class Unsupported(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return torch.sigmoid(y)


class Needy:
    """A runtime that is available where gradients are recorded; it gives its first input back."""

    def __init__(self) -> None:
        self.last_handle: int = -1

    def is_available(self) -> bool:
        enabled: bool = torch.is_grad_enabled()
        return enabled

    def compile(self, processed: Any, method_compile_spec: Dict[str, Any]) -> Dict[str, Any]:
        return method_compile_spec

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:
        return inputs[:1]


class Pair(NamedTuple):
    a: torch.Tensor
    b: int


class Echo:
    def __init__(self) -> None:
        self.last_handle: int = -1

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: Dict[str, Any]) -> Dict[str, Any]:
        return method_compile_spec

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:
        return inputs
