"""A backend with a kernel of its own: ``relu(x * factor)`` as one operator, with times for profiles."""

from typing import Any

import torch

from archive.backend import LoweringError, compile_error, folded, register_backend


@torch.library.custom_op("fused::mul_relu", mutates_args=())
def mul_relu(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The kernel; one in C++ has the same schema: ``mul_relu(Tensor x, float factor) -> Tensor``."""
    return torch.relu(x * factor)


def preprocess(original, method_compile_spec, generate_debug_handles):
    """The state: the factors of each method with the handles of their products, ``2.5<debug_handle>7``."""
    state = {}
    for method in method_compile_spec:
        graph = folded(original.graphs[method])
        handles, tokens, last = generate_debug_handles(graph), [], graph.body.parameters
        constants = {one.outputs[0]: one.value for one in graph.body.operations if not one.inputs}
        steps = [one for one in graph.body.operations if one.inputs]
        for product, relu in zip(steps[::2], [*steps[1::2], None], strict=False):
            factor = constants.get(product.inputs[-1])
            if product.kind != "aten::mul" or product.inputs[:1] != last or not isinstance(factor, float):
                raise LoweringError(compile_error(product))
            if relu is None or relu.kind != "aten::relu" or relu.inputs != product.outputs:
                raise LoweringError(compile_error(relu or product))
            tokens.append(f"{factor!r}<debug_handle>{handles[product]}")
            last = relu.outputs
        if not tokens or graph.body.results != last:
            raise LoweringError(f"method {method} does not return the end of a chain")
        state[method] = ",".join(tokens)
    return state


class Fused:
    """The runtime, in TorchScript's language."""

    def __init__(self) -> None:
        self.last_handle: int = -1  # errors are shown at its source
        self.profiling: bool = False  # set from outside, while a profile is recorded
        self.operations: list[tuple[int, int, int, str]] = []  # start and end in ns, handle, operator

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:
        assert torch.jit.isinstance(processed, dict[str, str]), "expected a text for each method"
        compiled: dict[str, Any] = {}
        for method in method_compile_spec.keys():  # noqa: SIM118 (TorchScript knows no other way)
            steps: list[tuple[float, int]] = []
            for token in processed[method].split(","):
                words = token.split("<debug_handle>")
                assert len(words) == 2 and words[1].isdigit(), "no factor with its handle: " + token
                steps.append((float(words[0]), int(words[1])))
            compiled[method] = steps
        return compiled

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        assert torch.jit.isinstance(handle, list[tuple[float, int]]), "expected what compile has made"
        x = inputs[0]
        assert isinstance(x, torch.Tensor), "expected a tensor"
        for factor, number in handle:
            self.last_handle = number
            start = torch.ops.prim.TimePoint()
            x = self.operate(x, factor)
            if self.profiling:
                self.operations.append((start, torch.ops.prim.TimePoint(), number, "aten::mul"))
        self.last_handle = -1
        return [x]

    def operate(self, x: torch.Tensor, factor: float) -> torch.Tensor:
        if x.dtype != torch.float32:
            return self.fail("expected float32")
        return torch.ops.fused.mul_relu(x, factor)

    def fail(self, message: str) -> torch.Tensor:
        raise AssertionError(message)


register_backend("fused", preprocess=preprocess, runtime=Fused)
