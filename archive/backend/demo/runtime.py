"""The runtime of the demo backend, in TorchScript's language: its methods become part of lowered modules.

``compile`` calls no other method, because the lite interpreter looks up such a method before it is defined.
"""

from typing import Any, Dict, List, Tuple

import torch


class CompilerDemo:
    """Compiles and executes the texts of :mod:`archive.backend.demo.backend`."""

    def __init__(self) -> None:
        self.last_handle: int = -1
        self.profiling: bool = False
        self.operations: List[Tuple[int, int, int, str]] = []

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: Dict[str, Any]) -> Dict[str, Any]:
        assert torch.jit.isinstance(processed, Dict[str, str]), "expected a state of a text for each method"
        compiled: Dict[str, Any] = {}
        for method in method_compile_spec.keys():
            assert method in processed, "method {}: expected a text, found none".format(method)
            names: List[str] = []
            handles: List[int] = []
            for token in processed[method].split(","):
                name, handle = token, "-1"
                if "<debug_handle>" in token:
                    name = token[: token.find("<debug_handle>")]
                    handle = token[len(name) + 14 :]
                known = name == "aten::add" or name == "aten::sub"
                if name.startswith("prim::Constant#"):
                    number = name[15:].replace("e-", "").replace("e+", "").replace(".", "").replace("-", "")
                    known = number.isdigit()
                elif name.startswith("prim::Load#"):
                    known = name[11:].isdigit() and len(name) < 20
                handled = handle == "-1" or (handle.isdigit() and len(handle) < 19)
                assert known and handled, "method {}, token {}: expected a token of {}, found {}".format(
                    method, len(names), "backend_with_compiler_demo", token
                )
                names.append(name)
                handles.append(int(handle))
            compiled[method] = (names, handles)
        return compiled

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:
        assert torch.jit.isinstance(handle, Tuple[List[str], List[int]]), "expected what compile has made"
        names, handles = handle
        values: List[torch.Tensor] = []
        for given in inputs:
            assert isinstance(given, torch.Tensor), "expected tensors as inputs"
            values.append(given)
        stack: List[torch.Tensor] = []
        if not "".join(names).count("prim::Load#"):
            operators = names.count("aten::add") + names.count("aten::sub")
            assert operators == 1, "no operand is named"
            stack.extend(values)
        for place in range(len(names)):
            name = names[place]
            self.last_handle = handles[place]
            if name.startswith("prim::Constant#"):
                stack.append(torch.tensor(float(name[15:]), dtype=torch.float32))
            elif name.startswith("prim::Load#"):
                if int(name[11:]) >= len(values):
                    return [self.fail("there is no such value: " + name)]
                stack.append(values[int(name[11:])])
            else:
                start = torch.ops.prim.TimePoint()
                values.append(self.operate(name, stack))
                stack.append(values[-1])
                if self.profiling:
                    self.operations.append((start, torch.ops.prim.TimePoint(), self.last_handle, name))
        assert len(stack) > 0, "nothing is computed"
        self.last_handle = -1
        return [stack[-1]]

    def operate(self, kind: str, stack: List[torch.Tensor]) -> torch.Tensor:
        if len(stack) < 3:
            return self.fail("{} has not enough operands".format(kind))
        alpha = float(stack.pop())
        h = stack.pop()
        x = stack.pop()
        if x.dim() > 0 and h.dim() > 0 and x.size() != h.size():
            return self.fail(
                "Expected x.sizes() == h.sizes() to be true, but got false.  (Could this error message be "
                "improved?  If so, please report an enhancement request to PyTorch.)"
            )
        if x.dtype != torch.float32 or h.dtype != torch.float32:
            return self.fail("Only float tensors are compatible for add and sub.")
        if kind == "aten::sub":
            return torch.sub(x, h, alpha=alpha)
        return torch.add(x, h, alpha=alpha)

    def fail(self, message: str) -> torch.Tensor:
        raise AssertionError(message)
