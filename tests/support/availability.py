"""Backends whose availability changes while a test runs: gradients stand for the device that they need.

TorchScript must be able to ask for it, here and in a process that loads the archive.
"""

from typing import Any, Dict, List  # noqa: UP035 (TorchScript's own names)

import torch


class Needy:
    """A runtime that is available where gradients are recorded; it gives its first input back."""

    def __init__(self) -> None:
        self.last_handle: int = -1

    def is_available(self) -> bool:
        enabled: bool = torch.is_grad_enabled()
        return enabled

    def compile(self, processed: Any, method_compile_spec: Dict[str, Any]) -> Dict[str, Any]:  # noqa: ANN401, ARG002, UP006
        return method_compile_spec

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:  # noqa: ANN401, ARG002, UP006
        return inputs[:1]
