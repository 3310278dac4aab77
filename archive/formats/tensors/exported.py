"""The tables of tensors of exported programs: ``data/weights/NAME_weights_config.json`` and the like.

    Table   = {"config": {TENSOR: Payload}}
    Payload = {"path_name": FILE, "is_param", "use_pickle", "tensor_meta": Meta | null}
    Meta    = {"dtype": NUMBER, "sizes": [Size], "strides": [Size], "storage_offset": Size, "requires_grad"}
    Size    = {"as_int": NUMBER}

``data/constants/NAME_constants_config.json`` is the same for constants. ``FILE`` is in the table's own
folder. A payload with ``use_pickle`` is an object that ``torch.save`` wrote, and isn't listed as a tensor
here.
Source: ``PayloadMeta`` and ``TensorMeta`` of ``torch/_export/serde/schema.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError
from archive.base.json_text import read_json
from archive.formats.schema.json import DictOf, JsonClass, Nullable, checked
from archive.formats.tensors.dtypes import SCALARS
from archive.formats.tensors.tensor import Tensor, check_dimensions

if TYPE_CHECKING:
    from collections.abc import Iterator


WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
CONFIGS = {WEIGHTS: "_weights_config.json", CONSTANTS: "_constants_config.json"}
"""The folders of tensors, and the ending of the name of a program's table there."""
TABLE = re.compile(
    rf"({'|'.join(map(re.escape, CONFIGS))})(.+)(?:{'|'.join(map(re.escape, CONFIGS.values()))})"
)
"""The name of a record that holds a table: its folder, and its program."""
TENSOR_TABLE = JsonClass(
    {"config": DictOf(JsonClass({"path_name": "str"}, {"tensor_meta": Nullable(DictOf("any"))}))},
    docs={"config": "a row for each tensor, by name"},
)


def read_table(data: memoryview) -> dict[str, Any]:
    """A table. Its rows are objects, each with a text ``path_name`` and an object or null ``tensor_meta``."""
    table: dict[str, Any] = checked(read_json(data), TENSOR_TABLE)
    return table


def exported_tensors(record: str, data: memoryview) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a table, with their names."""
    folder = record.rpartition("/")[0]
    for name, payload in read_table(data)["config"].items():
        try:
            if not payload["use_pickle"]:
                yield name, _tensor(f"{folder}/{payload['path_name']}", payload["tensor_meta"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ArchiveError(place=f"config.{name}", expected="a tensor", found=f"no {error}") from None


def _tensor(record: str, meta: dict[str, Any]) -> Tensor:
    shape, strides = (tuple(size["as_int"] for size in meta[key]) for key in ("sizes", "strides"))
    offset = meta["storage_offset"]["as_int"]
    if len(shape) != len(strides) or {*map(type, (*shape, *strides, offset))} - {int}:  # true isn't a number
        raise TypeError("sizes")
    check_dimensions(len(shape))
    return Tensor(
        SCALARS.get(meta["dtype"], "unknown"), shape, strides, offset, record, meta["requires_grad"]
    )
