"""A backend for exported programs: it plays a tape of PyTorch's operators, and PyTorch runs all others."""

from time import perf_counter_ns

import torch

from archive.backend import LoweringError, compile_error, folded, register_backend

NAMES = "linear addmm matmul bmm mul add gelu relu silu tanh softmax layer_norm"
OPERATORS = {f"aten::{name}" for name in NAMES.split()}


def supports(node):
    """Whether a node may be lowered, of ExecuTorch's programs too: not with lists of sizes that vary."""
    is_known = getattr(getattr(node.target, "_schema", None), "name", "") in OPERATORS
    listed = [one for each in node.args if isinstance(each, list) for one in each]
    return is_known and not any(isinstance(one, torch.fx.Node) for one in listed)


def preprocess(original, _options, generate_debug_handles):
    """The tape: operators with the places of what they take and make, and their debug handles."""
    if original.program is None:
        raise LoweringError("the backend tape lowers exported programs")
    graph = folded(original.graphs["forward"])
    handles, body = generate_debug_handles(graph), graph.body
    tape = {"inputs": body.parameters, "results": body.results, "constants": {}, "steps": []}
    for operation in body.operations:
        if operation.kind == "prim::Constant":
            tape["constants"][operation.outputs[0]] = operation.value
        elif operation.kind in OPERATORS:
            name, place = operation.schema.partition("(")[0], operation.outputs[0]
            tape["steps"].append((name, operation.inputs, place, handles[operation]))
        elif operation.kind == "prim::TupleConstruct":  # of several results
            tape["results"] = operation.inputs
        else:
            raise LoweringError(compile_error(operation))
    return tape


class Tape:
    """The runtime, in Python: programs need no TorchScript."""

    def __init__(self):
        self.last_handle = -1
        self.profiling, self.operations, self.values = False, [], None

    def is_available(self):
        return True

    def compile(self, processed, method_compile_spec):
        assert isinstance(processed, dict) and processed.keys() == {"steps", "inputs", "constants", "results"}
        assert all(step[0].partition(".")[0] in OPERATORS for step in processed["steps"]), "unknown operator"
        return dict.fromkeys(method_compile_spec, processed)

    def execute(self, handle, inputs):
        values = {**handle["constants"], **dict(zip(handle["inputs"], inputs, strict=True))}
        for name, places, made, number in handle["steps"]:
            kind, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, kind.removeprefix("aten::")), overload or "default")
            names = (argument.name for argument in operator._schema.arguments)  # noqa: SLF001 (there is no other way)
            given = dict(zip(names, map(values.__getitem__, places), strict=True))
            self.last_handle, start = number, perf_counter_ns()  # whatever is raised here has its line
            values[made] = operator(**given)
            if self.profiling:
                self.operations.append((start, perf_counter_ns(), number, kind))
            if self.values is not None:
                self.values.note(number, kind, given, values[made])
        self.last_handle = -1
        return [values[place] for place in handle["results"]]


register_backend("tape", preprocess=preprocess, runtime=Tape, supports=supports)
