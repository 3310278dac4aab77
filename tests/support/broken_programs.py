"""Exported programs with one thing wrong: what ``verify`` must say, and what PyTorch 2.13 says."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import archive
from archive.container.container import member_from, new_member
from archive.container.serialization_id import RECORD_NAME
from tests.support.exported import EXPORTED
from tests.support.zips import written

if TYPE_CHECKING:
    from pathlib import Path

MODEL, WEIGHTS, CONSTANTS = (
    "models/model.json",
    "data/weights/model_weights_config.json",
    "data/constants/model_constants_config.json",
)
INPUTS = "data/sample_inputs/model.pt"
STEP = re.compile(r"\[(\d+)\]|(?:^|\.)(\"[^\"]*\"|[^.\[\"]+)")
GONE = object()
"""In the place of a value: there is none."""
GRAPH, SIGNATURE = "graph_module.graph", "graph_module.signature"
CALL = "graph_module.module_call_graph[0].signature"
BRANCH = f"{GRAPH}.nodes[2].inputs[1].arg.as_graph"
"""The first branch of the ``cond`` in ``choice.pt2``."""


class Broken(NamedTuple):
    """A change of a fixture.

    Attributes:
        what: it is, for the test's name.
        path: of the value that is changed, in the record.
        value: the new one.
        message: what PyTorch says.
        place: where ``verify`` finds the fault; "" for the path itself.
        fixture: that is changed.
        record: with the value.
    """

    what: str
    path: str
    value: Any
    message: str
    place: str = ""
    fixture: str = "shop"
    record: str = MODEL

    def made(self) -> bytes:
        """The broken archive."""
        return rewritten(EXPORTED / f"{self.fixture}.pt2", {self.record: self.change})

    def change(self, data: bytes) -> bytes:
        """The record with the value."""
        return json.dumps(put(json.loads(data), steps(self.path), self.value)).encode()


def steps(path: str) -> list[str | int]:
    """The keys and numbers of a path; a key with dots stands in quotes."""
    return [int(number) if number else key.strip('"') for number, key in STEP.findall(path)]


def put(tree: Any, way: list[str | int], value: object) -> Any:  # noqa: ANN401 (any JSON)
    """A tree with another value at the end of a path."""
    if not way:
        return value
    new: Any = list(tree) if isinstance(tree, list) else dict(tree)
    if value is GONE and len(way) == 1:
        del new[way[0]]
    else:
        key: Any = way[0]
        new[key] = put(tree[key] if len(way) > 1 else None, way[1:], value)
    return new


def rewritten(path: Path, changes: dict[str, Any], root: str = "m") -> bytes:
    """An archive with changed records, as PyTorch would write it; None takes a record out."""
    with archive.open(path) as source:
        members = []
        for name, record in source.container.records.items():
            change = changes.get(name, member_from(record))
            if name == RECORD_NAME or change is None:
                continue
            if callable(change):
                change = new_member(name, change(bytes(record.view())), compress=False)
            members.append(change)
        return written(*members, root=root)


BROKEN = [
    # the schema
    Broken("no field", f"{GRAPH}.nodes[3].outputs", GONE, "missing 1 required positional argument: 'outputs'", f"{GRAPH}.nodes[3]"),
    Broken("not an object", f"{GRAPH}.nodes[3]", 7, "argument of type 'int' is not iterable"),
    Broken("not a list", f"{GRAPH}.nodes", None, "'NoneType' object is not iterable"),
    Broken("a list for a text", f"{GRAPH}.nodes[3].target", ["x"], "tuple index out of range"),
    Broken("an object for a list", f"{GRAPH}.inputs", {}, "tuple index out of range"),
    Broken("two tags", f"{GRAPH}.inputs[0]", {"as_int": 1, "as_none": True}, "expected dict with 1 key, got 2"),
    Broken("a tag that is none", f"{GRAPH}.inputs[0]", {"as_tenser": 1}, "KeyError: 'as_tenser'"),
    Broken("a union that is none", f"{GRAPH}.inputs[0]", 5, "expected dict, got int"),
    Broken("no number", f"{GRAPH}.nodes[3].inputs[4].arg.as_float", "low", "could not convert string to float"),
    # version, ranges, verifiers
    Broken("version", "schema_version.major", 9, "does not match our current schema version"),
    Broken("range", "range_constraints.s77", {"min_val": 5, "max_val": 4}, "Invalid ranges [5:4]", fixture="sized"),
    Broken("symbol", "range_constraints.ux", {"min_val": 0, "max_val": 4}, "invalid literal for int() with base 10: 'x'"),
    Broken("verifier", "verifiers[0]", "EDGE", "KeyError: 'EDGE'"),
    Broken("noted", "graph_module.metadata.custom", "{", "Expecting property name"),
    # graphs
    Broken("input twice", f"{GRAPH}.inputs[1].as_tensor.name", "p_goods_rows_weight", "Node p_goods_rows_weight has already been deserialized before."),
    Broken("input of a kind that is none", f"{GRAPH}.inputs[1]", {"as_ints": [1]}, "Invalid input type", f"{GRAPH}.inputs[1].as_ints"),
    Broken("value twice", f"{GRAPH}.nodes[5].outputs[0].as_tensor.name", "linear", "Node linear has already been deserialized before."),
    Broken("value in no table", f"{GRAPH}.tensor_values.relu", GONE, "KeyError: 'relu'", f"{GRAPH}.nodes[5].outputs[0].as_tensor.name"),
    Broken("value that is none", f"{GRAPH}.nodes[5].inputs[0].arg.as_tensor.name", "liner", "KeyError: 'liner'"),
    Broken("value used before", f"{GRAPH}.nodes[5].inputs[0].arg.as_tensor.name", "mean", "KeyError: 'mean'"),
    Broken("value of a list", f"{GRAPH}.nodes[22].inputs[0].arg.as_tensors[1].name", "nothing", "KeyError: 'nothing'"),
    Broken("value of the graph around", f"{BRANCH}.graph.nodes[0].inputs[0].arg.as_tensor.name", "cond", "KeyError: 'cond'", fixture="choice"),
    Broken("number that is none", f"{GRAPH}.nodes[2].inputs[0].arg.as_sym_int.as_name", "size", "KeyError: 'size'", fixture="sized"),
    Broken("output of the graph", f"{GRAPH}.outputs[1].as_tensor.name", "nothing", "KeyError: 'nothing'"),
    Broken("output of a kind that is none", f"{GRAPH}.outputs[1]", {"as_string": "x"}, "Unable to deserialize output node", f"{GRAPH}.outputs[1].as_string"),
    Broken("one output", f"{GRAPH}.is_single_tensor_return", True, "expected single output for single_tensor_return", f"{GRAPH}.outputs"),
    Broken("operator", f"{GRAPH}.nodes[5].target", "relu", "Unsupported target type"),
    Broken("type of elements", f"{GRAPH}.nodes[5].inputs[0].arg", {"as_scalar_type": 99}, "KeyError: 99", f"{GRAPH}.nodes[5].inputs[0].arg.as_scalar_type"),
    Broken("device", f"{GRAPH}.nodes[5].inputs[0].arg", {"as_device": {"type": "gpu"}}, "Expected one of cpu, cuda", f"{GRAPH}.nodes[5].inputs[0].arg.as_device.type"),
    Broken("argument", f"{GRAPH}.nodes[5].inputs[0].arg", {"as_ints": 5}, "Unhandled argument", f"{GRAPH}.nodes[5].inputs[0].arg.as_ints"),
    Broken("object", f"{GRAPH}.nodes[5].inputs[0].arg", {"as_custom_obj": {"name": "x", "class_fqn": "y"}}, "KeyError: 'x'", f"{GRAPH}.nodes[5].inputs[0].arg.as_custom_obj.name"),
    Broken("name of a graph", f"{BRANCH}.name", "a.b", "module name can", fixture="choice"),
    Broken("number of a node", f"{GRAPH}.nodes[1].outputs[0]", {"as_sym_int": {"as_int": 2}}, "Field as_name is not set.", fixture="sized"),
    # tables of values
    Broken("elements", f"{GRAPH}.tensor_values.relu.dtype", 99, "KeyError: 99"),
    Broken("sizes", f"{GRAPH}.tensor_values.relu.sizes[0].as_int", -4, "Trying to create tensor with negative dimension"),
    Broken("size", f"{GRAPH}.tensor_values.relu.sizes[0].as_int", True, "expected int, got bool"),
    Broken("strides", f"{GRAPH}.tensor_values.relu.strides", [], "must match dimensionality of strides"),
    Broken("gradients", f"{GRAPH}.tensor_values.first.requires_grad", True, "can require gradients"),
    Broken("example", f"{GRAPH}.sym_int_values.sym_size_int_1.as_expr.hint", {"as_bool": True}, "expected hint type 'as_int', got 'as_bool'", fixture="sized"),
    Broken("example outside", "range_constraints.s77.min_val", 5, "4 not in VR[5, int_oo]", f"{GRAPH}.tensor_values.x.sizes[0].as_expr.hint.as_int", "sized"),
    # metadata
    Broken("modules", f"{GRAPH}.nodes[5].metadata.nn_module_stack", "a,b", "expected metadata_split to return 3 parts, got 2"),
    Broken("functions", f"{GRAPH}.nodes[5].metadata.source_fn_stack", "a,b,c", "too many values to unpack"),
    Broken("custom", f"{GRAPH}.nodes[5].metadata.custom", "{]", "JSONDecodeError"),
    Broken("origins", f"{GRAPH}.nodes[5].metadata.from_node", "{}", "expected list, got dict"),
    Broken("origin", f"{GRAPH}.nodes[5].metadata.from_node", "[1]", "Expected a dict, got "),
    # the signature
    Broken("specs", f"{SIGNATURE}.input_specs[9]", GONE, "Number of graph inputs (10) does not match", f"{SIGNATURE}.input_specs"),
    Broken("name of an input", f"{SIGNATURE}.input_specs[9].user_input.arg.as_tensor.name", "third", "Input spec name third does not match node name second", f"{SIGNATURE}.input_specs[9].user_input.arg"),
    Broken("weight that is none", f"{SIGNATURE}.input_specs[0].parameter.parameter_name", "goods", "Parameter goods is not in the state dict."),
    Broken("weight that is no parameter", 'config."goods.rows.weight".is_param', False, "is not an instance of torch.nn.Parameter", f"{SIGNATURE}.input_specs[0].parameter.parameter_name", record=WEIGHTS),
    Broken("buffer that is none", f"{SIGNATURE}.input_specs[7].buffer.buffer_name", "scales", "Buffer scales is not in the state dict."),
    Broken("buffer that is not saved", f"{SIGNATURE}.input_specs[7].buffer.persistent", False, "is in the state dict, it should not be."),
    Broken("buffer that may be saved", f"{SIGNATURE}.input_specs[7].buffer.persistent", None, "Failed to specify persistent flag"),
    Broken("constant that is none", f"{SIGNATURE}.input_specs[7]", {"tensor_constant": {"arg": {"name": "b_scale"}, "tensor_constant_name": "c"}}, "Constant tensor c is not in the constants dictionary.", f"{SIGNATURE}.input_specs[7].tensor_constant.tensor_constant_name"),
    Broken("specs of outputs", f"{SIGNATURE}.output_specs[1]", GONE, "Number of output nodes 2 is different", f"{SIGNATURE}.output_specs"),
    Broken("name of an output", f"{SIGNATURE}.output_specs[1].user_output.arg.as_tensor.name", "sum_1", "is not in the correct order or is not found", f"{SIGNATURE}.output_specs[1].user_output.arg"),
    Broken("changed buffer", f"{SIGNATURE}.output_specs[0]", {"buffer_mutation": {"arg": {"name": "sum_1"}, "buffer_name": "b"}}, "Buffer output sum_1 does not point to a buffer that exists.", f"{SIGNATURE}.output_specs[0].buffer_mutation.buffer_name"),
    Broken("changed out of order", f"{SIGNATURE}.output_specs[1]", {"buffer_mutation": {"arg": {"name": "mean"}, "buffer_name": "scale"}}, "Mutation node sum_1 is neither a buffer nor a user input", f"{GRAPH}.outputs[0]"),
    # calls of modules
    Broken("input of a call", f"{CALL}.inputs", [{"as_tensor": {"name": "nothing"}}], "Input nothing does not exist in the graph.", f"{CALL}.inputs[0]"),
    Broken("tree of inputs", f"{CALL}.in_spec", "[2, {}]", "Unknown protocol 2"),
    Broken("tree of outputs", f"{CALL}.out_spec", '[1, {"type": null}]', "KeyError: 'context'"),
    # weights
    Broken("record of a weight", "config.scale.path_name", "weight_99", "PytorchStreamReader failed locating file data/weights/weight_99", record=WEIGHTS),
    Broken("weight's sizes", "config.scale.tensor_meta", None, "tensor_meta cannot be None", record=WEIGHTS),
    Broken("weight's elements", "config.scale.tensor_meta.dtype", 0, "KeyError: 0", record=WEIGHTS),
    Broken("weight's width", "config.k.tensor_meta.dtype", 8, "is not a multiple of element size 8", "config.k.tensor_meta", "odd", WEIGHTS),
    Broken("weight's end", "config.scale.tensor_meta.sizes[0].as_int", 400, "are out of bounds for storage of size", "config.scale.tensor_meta", record=WEIGHTS),
    Broken("weight's offset", "config.scale.tensor_meta.storage_offset.as_int", 4, "are out of bounds for storage of size", "config.scale.tensor_meta", record=WEIGHTS),
    Broken("weight's strides", "config.scale.tensor_meta.strides", [], "mismatch in length of strides and shape", record=WEIGHTS),
    Broken("weight's expression", "config.scale.tensor_meta.sizes[0]", {"as_expr": {"expr_str": "4"}}, "Only as_int is supported, got as_expr", "config.scale.tensor_meta.sizes", record=WEIGHTS),
    Broken("weight's gradients", "config.scale.tensor_meta", {"dtype": 4, "sizes": [{"as_int": 1}], "requires_grad": True, "device": {"type": "cpu"}, "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}, "can require gradients", "config.scale.tensor_meta.requires_grad", record=WEIGHTS),
    Broken("pickled weight", "config.scale.use_pickle", True, "invalid load key", record=WEIGHTS),
    Broken("constant of a kind that is none", "config.c", {"path_name": "weight_0", "is_param": False, "use_pickle": True, "tensor_meta": None}, "Unsupported constant type: weight_0", "config.c.path_name", record=CONSTANTS),
]  # fmt: skip
"""A program for each check."""
TAKEN = [
    Broken("node's name", f"{GRAPH}.nodes[5].name", "rectified", ""),
    Broken("release", "torch_version", 2.13, ""),
    Broken("layout", f"{GRAPH}.tensor_values.relu.layout", 99, ""),
    Broken("guards", "guards_code", None, ""),
    Broken("expression", f"{GRAPH}.sym_int_values.sym_size_int_1.as_expr.expr_str", "max(4, 4)", "", fixture="sized"),
]  # fmt: skip
"""Programs that are not as PyTorch writes them, and that it takes."""
