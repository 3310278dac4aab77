"""Makes ``fixtures/zoo``: ONNX models, and the tensors in them as the package onnx reads them.

    python -m tools.make_zoo FOLDER

It needs onnx 1.23 (23 MB), which no test does. ``weights.onnx`` has elements of all types, in all fields that
may hold them, and tensors in attributes, nested graphs, functions and sparse initializers; ``outside.onnx``
is the same with large tensors in ``outside.bin``. ``NAME.json`` has dtype, shape and elements (little-endian,
in hex) of each tensor by its path: see :mod:`archive.formats.tensor_files.onnx`.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMPY = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "float16",
    "int32",
    "uint32",
    "float32",
    "int64",
    "uint64",
)
WIDE = ("float64", "complex64", "complex128")
DTYPES = {"float8_e8m0": "float8_e8m0fnu", "float4_e2m1": "float4_e2m1fn"}
"""What the package calls otherwise."""
NIBBLES = {"int4": 2, "uint4": 2, "float4_e2m1fn": 2, "int2": 4, "uint2": 4}
"""Elements of a byte."""


def model(onnx: Any) -> Any:  # noqa: ANN401 (a package that need not be there)
    """A model with tensors everywhere."""
    helper, arrays, kinds = onnx.helper, onnx.numpy_helper, onnx.TensorProto
    numbers = np.arange(-3, 9)
    raw = [arrays.from_array(numbers.reshape(3, 4).astype(name), f"raw.{name}") for name in (*NUMPY, *WIDE)]
    typed = [
        helper.make_tensor(
            f"typed.{name}", helper.np_dtype_to_tensor_dtype(np.dtype(name)), [12], numbers.astype(name)
        )
        for name in (*NUMPY, *WIDE)
    ]
    small = [
        helper.make_tensor(f"typed.{name}", getattr(kinds, name), [3], [0, 1, 1])
        for name in ("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "FLOAT4E2M1")
    ]
    texts = [helper.make_tensor("texts", kinds.STRING, [2], [b"ab", b""])]
    empty = [
        helper.make_tensor("empty", kinds.FLOAT, [0, 3], []),
        helper.make_tensor("scalar", kinds.INT64, [], [-5]),
    ]
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("sparse", kinds.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("", kinds.INT64, [2], [1, 5]),
        [9],
    )
    constant = helper.make_node("Constant", [], ["c"], value=arrays.from_array(np.ones(3, "i8"), "inside"))
    branch = helper.make_graph([constant], "branch", [], [], [arrays.from_array(np.ones(2, "f4"), "w")])
    nodes = [
        helper.make_node("If", ["x"], ["y"], name="choice", then_branch=branch, else_branch=branch),
        helper.make_node("Constant", [], ["unnamed"], value=arrays.from_array(np.eye(2))),
        helper.make_node("Constant", [], ["thin"], sparse_value=sparse),
    ]
    graph = helper.make_graph(
        nodes, "g", [], [], [*raw, *typed, *small, *texts, *empty], sparse_initializer=[sparse]
    )
    function = helper.make_function("own", "twice", [], ["c"], [constant], [helper.make_opsetid("", 23)])
    made = helper.make_model(graph, producer_name="net", producer_version="1", functions=[function])
    made.ir_version = 13
    helper.set_model_props(made, {"trained": "yes"})
    return made


def tensors_of(onnx: Any, graph: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 (the package's)
    """The tensors of a graph or function with their paths."""
    for initializer in getattr(graph, "initializer", ()):
        yield f"{path}{initializer.name}", initializer
    for sparse in getattr(graph, "sparse_initializer", ()):
        yield f"{path}{sparse.values.name}", sparse.values
        yield f"{path}{sparse.values.name}.indices", sparse.indices
    for node in graph.node:
        for attribute in node.attribute:
            name = f"{path}{node.name or node.output[0]}.{attribute.name}"
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield name, attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from tensors_of(onnx, attribute.g, f"{name}.")
            elif attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                yield name, attribute.sparse_tensor.values
                yield f"{name}.indices", attribute.sparse_tensor.indices


def answer(onnx: Any, tensor: Any) -> dict[str, object]:  # noqa: ANN401 (the package's)
    """What the package says of a tensor."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return {"dtype": "string", "shape": list(tensor.dims), "hex": None}
    array = onnx.numpy_helper.to_array(tensor)
    dtype = DTYPES.get(array.dtype.name.removesuffix("fn"), array.dtype.name)
    if dtype in NIBBLES:
        per_byte = NIBBLES[dtype]
        codes = array.reshape(-1).view(np.uint8) & ((1 << 8 // per_byte) - 1)
        codes = np.concatenate([codes, np.zeros(-len(codes) % per_byte, np.uint8)]).reshape(-1, per_byte)
        data = np.bitwise_or.reduce(codes << np.arange(0, 8, 8 // per_byte, dtype=np.uint8), axis=1).tobytes()
    else:
        data = array.tobytes()
    return {"dtype": dtype, "shape": list(array.shape), "hex": data.hex()}


def main() -> None:
    """Make them."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    onnx = import_module("onnx")
    onnx.save(model(onnx), folder / "weights.onnx")
    onnx.save(
        model(onnx),
        folder / "outside.onnx",
        save_as_external_data=True,
        location="outside.bin",
        size_threshold=40,
    )
    for name in ("weights", "outside"):
        loaded = onnx.load(folder / f"{name}.onnx")
        found = dict(tensors_of(onnx, loaded.graph, ""))
        for function in loaded.functions:
            found |= tensors_of(onnx, function, f"{function.domain}.{function.name}.")
        answers = {path: answer(onnx, tensor) for path, tensor in found.items()}
        (folder / f"{name}.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
