"""A complete backend: chains of element-wise operators, like ``torch.relu(torch.neg(x))``, of float32."""

from typing import Any

import torch

from archive.backend import Backend, LoweringError, compile_error, folded


def preprocess(original, method_compile_spec, generate_debug_handles):
    """The state: for each method the names of operators with their debug handles, in order."""
    state = {}
    for method in method_compile_spec:
        graph = folded(original.graphs[method])
        handles, last, tokens = generate_debug_handles(graph), graph.body.parameters, []
        for operation in graph.body.operations:
            if operation.kind not in ("aten::neg", "aten::relu") or operation.inputs != last:
                raise LoweringError(compile_error(operation))
            tokens.append(f"{operation.kind}<debug_handle>{handles[operation]}")
            last = operation.outputs
        if not tokens or graph.body.results != last:
            raise LoweringError(f"method {method} does not return the end of a chain")
        state[method] = ",".join(tokens)
    return state


class Chain:
    """The runtime, in TorchScript's language: part of lowered modules, which stock PyTorch runs."""

    def __init__(self) -> None:
        self.last_handle: int = -1  # errors are shown at its source

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:
        assert torch.jit.isinstance(processed, dict[str, str]), "expected a text for each method"
        compiled: dict[str, Any] = {}
        for method in method_compile_spec.keys():  # noqa: SIM118 (TorchScript knows no other way)
            assert method in processed, "no such method: " + method
            for token in processed[method].split(","):
                words = token.split("<debug_handle>")
                assert len(words) == 2 and words[1].isdigit(), "no operator with its handle: " + token
                assert words[0] == "aten::neg" or words[0] == "aten::relu", "unknown: " + words[0]
            compiled[method] = processed[method].split(",")
        return compiled

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:
        assert torch.jit.isinstance(handle, list[str]), "expected what compile has made"
        x = inputs[0]
        assert isinstance(x, torch.Tensor), "expected a tensor"
        for token in handle:
            name, number = token.split("<debug_handle>")
            self.last_handle = int(number)
            x = self.operate(name, x)
        self.last_handle = -1
        return [x]

    def operate(self, kind: str, x: torch.Tensor) -> torch.Tensor:
        if x.dtype != torch.float32:
            return self.fail("a chain takes float32")
        if kind == "aten::neg":
            return torch.neg(x)
        return torch.relu(x)

    def fail(self, message: str) -> torch.Tensor:
        raise AssertionError(message)


CHAIN = Backend("chain", preprocess, Chain)
