"""A backend's runtime that gives its inputs back, and a type of inputs."""

from typing import Any, Dict, List, NamedTuple  # noqa: UP035 (TorchScript's own names)

import torch


class Pair(NamedTuple):
    a: torch.Tensor
    b: int


class Echo:
    def __init__(self) -> None:
        self.last_handle: int = -1

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: Dict[str, Any]) -> Dict[str, Any]:  # noqa: ANN401, ARG002, UP006
        return method_compile_spec

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:  # noqa: ANN401, ARG002, UP006
        return inputs
