"""A backend for exported programs: it plays a tape of PyTorch's operators, and PyTorch runs all others."""

from time import perf_counter_ns

import torch
from torch.fx.node import map_arg

from archive.backend import LoweringError, OperationError, register_backend

NAMES = "linear addmm matmul bmm mul.Tensor mul.Scalar add.Tensor gelu relu silu tanh softmax.int layer_norm"
OPERATORS = {f"aten.{name}" if "." in name else f"aten.{name}.default" for name in NAMES.split()}


def supports(node):
    """Whether a node of the program may be lowered."""
    return operator_of(node) in OPERATORS


def operator_of(node):
    """The name of a node's operator; in ExecuTorch's programs it is inside of one of theirs."""
    is_pytorchs = isinstance(node.target, type(torch.ops.aten.add.Tensor))
    return str(node.target if is_pytorchs else getattr(node.target, "_op", node.target))


def preprocess(original, _options, _generate_debug_handles):
    """The tape: operators with the places of what they take and make, and their debug handles."""
    program = original.program
    if program is None:
        raise LoweringError("the backend tape lowers exported programs")
    held = {**program.state_dict, **program.constants}
    place = {node.name: number for number, node in enumerate(program.graph.nodes)}
    tape = {"steps": [], "inputs": [], "tensors": {}, "results": []}
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            tape["inputs"].append(place[spec.arg.name])
        else:
            tape["tensors"][place[spec.arg.name]] = held[spec.target].detach()
    for node in program.graph.nodes:
        if node.op == "call_function":
            args, kwargs = map_arg((node.args, node.kwargs), lambda each: {"place": place[each.name]})
            call = operator_of(node), plain(args), plain(kwargs)
            step = (*call, place[node.name], node.meta["debug_handle"])
            tape["steps"].append(step)
    tape["results"] = [place[spec.arg.name] for spec in program.graph_signature.output_specs]
    return tape


def plain(value, values=None):
    """Arguments as lists and dicts of Python; with ``values``, those at the places in them."""
    if isinstance(value, dict):
        if values is not None and value.keys() == {"place"}:
            return values[value["place"]]
        return {key: plain(item, values) for key, item in value.items()}
    return [plain(item, values) for item in value] if isinstance(value, list | tuple) else value


class Tape:
    """The runtime, in Python: programs need no TorchScript."""

    def __init__(self):
        self.last_handle = -1
        self.profiling, self.operations, self.values = False, [], None

    def is_available(self):
        return True

    def compile(self, processed, method_compile_spec):
        assert isinstance(processed, dict) and processed.keys() == {"steps", "inputs", "tensors", "results"}
        assert all(len(step) == 5 and step[0] in OPERATORS for step in processed["steps"]), "unknown operator"
        return dict.fromkeys(method_compile_spec, processed)

    def execute(self, handle, inputs):
        values = {**handle["tensors"], **dict(zip(handle["inputs"], inputs, strict=True))}
        for name, args, kwargs, out, number in handle["steps"]:
            _, packet, overload = name.split(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload)
            given, start = (plain(args, values), plain(kwargs, values)), perf_counter_ns()
            try:
                values[out] = operator(*given[0], **given[1])
            except RuntimeError as error:
                raise OperationError(str(error), number) from error
            if self.profiling:
                self.operations.append((start, perf_counter_ns(), number, f"aten::{packet}"))
            if self.values is not None:
                self.values.note(number, f"aten::{packet}", given, values[out])
        return [values[place] for place in handle["results"]]


register_backend("tape", preprocess=preprocess, runtime=Tape, supports=supports)
