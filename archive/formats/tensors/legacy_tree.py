"""The tensors of PyTorch 1.0 to 1.2: ``model.json``, with values by number in ``attributes.pkl``.

    Model     = {"mainModule": Module, "tensors": [Tensor]}
    Module    = {"name", "parameters": [Parameter], "attributes": [Attribute], "submodules": [Module]}
    Parameter = {"name", "tensorId": NUMBER, "isBuffer"}
    Attribute = {"name", "type", "id": NUMBER}
    Tensor    = {"dims": [NUMBER], "strides": [NUMBER], "offset": NUMBER, "dataType": NAME,
                 "data": {"key": RECORD}, "requiresGrad"}

Numbers are texts, and empty lists are left out: both are how protobuf writes JSON. Tensors that no module
holds are constants of the code, which calls tensor number 3 ``CONSTANTS.c3``. Source:
``torch.proto`` and ``export.cpp`` in ``torch/csrc/jit`` of PyTorch 1.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError
from archive.base.json_text import read_json
from archive.formats.tensors.tensor import Tensor, check_dimensions
from archive.pickles.values import Global, Inert

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


DTYPES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BOOL": "bool",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
"""The dtype for caffe2's name of it, as PyTorch wrote it."""
BY_NUMBER = Global("torch.jit._pickle", "build_tensor_from_id")


def legacy_tensors(data: memoryview, attributes: object) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model, with their names.

    Args:
        attributes: the value of ``attributes.pkl``, or None.
    """
    model = read_json(data)
    values = attributes if isinstance(attributes, tuple | list) else ()
    try:
        table = [_tensor(tensor) for tensor in model.get("tensors", ())]
        names = list(_names_and_numbers(model["mainModule"], values))
        held = {number for _, number in names}
        yield from ((name, table[number]) for name, number in names)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise ArchiveError(expected="a tree of modules and tensors", found=f"no {error}") from None
    yield from ((f"CONSTANTS.c{at}", tensor) for at, tensor in enumerate(table) if at not in held)


def _names_and_numbers(root: dict[str, Any], values: Sequence[object]) -> Iterator[tuple[str, int]]:
    """The names of the tensors that modules hold, and their numbers."""
    stack = [("", root)]
    while stack:
        path, module = stack.pop()
        for parameter in module.get("parameters", ()):
            yield f"{path}{parameter['name']}", int(parameter["tensorId"])
        for attribute in module.get("attributes", ()):
            value = values[int(attribute["id"])]
            if isinstance(value, Inert) and value.what == BY_NUMBER:
                yield f"{path}{attribute['name']}", int(str(value.arguments[0]))
        below = [(f"{path}{inner['name']}.", inner) for inner in module.get("submodules", ())]
        stack += reversed(below)


def _tensor(row: dict[str, Any]) -> Tensor:
    shape, strides = (tuple(map(int, row.get(key, ()))) for key in ("dims", "strides"))
    check_dimensions(len(shape))
    dtype = DTYPES.get(row["dataType"], "unknown")
    return Tensor(dtype, shape, strides, int(row["offset"]), row["data"]["key"], row.get("requiresGrad"))
