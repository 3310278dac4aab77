"""The index of a Hugging Face model that is in several files, *shards*.

``model.safetensors.index.json``, or ``pytorch_model.bin.index.json`` for files by ``torch.save``, in the
folder of the shards::

    {"metadata": {"total_size": 28966928384, …},
     "weight_map": {"lm_head.weight": "model-00006-of-00006.safetensors", …}}

``weight_map`` has the shard of each tensor. Loaders load all tensors of all shards named there, and no
other files.

Source: ``save_pretrained`` in ``transformers/modeling_utils.py`` of transformers, and
``split_torch_state_dict_into_shards`` of huggingface_hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.base.json_text import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.formats.tensor_files.described import Value

MOST_SHARDS = 4096
INDEX_BYTES = 1 << 28
"""Most bytes of an index."""
WEIGHT_MAP = "weight_map"
NOT_IN_NAMES = {*"/\\:\0", *map(chr, range(0xD800, 0xE000))}
"""Characters that lead to other folders, and lone surrogates, which no file's name has."""


class Index(NamedTuple):
    """An index of shards.

    Attributes:
        shards: names of files, each with its tensors, in the order in which the index names them first.
        metadata: of the index.
    """

    shards: Mapping[str, tuple[str, ...]]
    metadata: Mapping[str, Value]


def read_index(data: memoryview) -> Index:
    """Read an index."""
    if len(data) > INDEX_BYTES:
        raise ArchiveError(expected=f"an index of at most {INDEX_BYTES:,} bytes", found=f"{len(data):,}")
    with memory.part():
        value = read_json(data)
    weights = value.get(WEIGHT_MAP) if isinstance(value, dict) else None
    if not isinstance(weights, dict) or not weights:
        raise ArchiveError(
            place=WEIGHT_MAP, expected="an object with the file of each tensor", found=shown(weights)
        )
    shards: dict[str, list[str]] = {}
    for tensor, file in weights.items():
        if not isinstance(file, str) or file in {"", ".", ".."} or set(file) & NOT_IN_NAMES:
            place = f"{WEIGHT_MAP}, tensor {shown(tensor)}"
            raise ArchiveError(place=place, expected="a file in the folder of the index", found=shown(file))
        shards.setdefault(file, []).append(tensor)
    if len(shards) > MOST_SHARDS:
        raise ArchiveError(expected=f"at most {MOST_SHARDS:,} shards", found=f"{len(shards):,}")
    metadata = value.get("metadata")
    metadata = {
        key: item
        for key, item in (metadata if isinstance(metadata, dict) else {}).items()
        if isinstance(item, str | int | float)
    }
    return Index({file: tuple(names) for file, names in shards.items()}, metadata)
