"""The tables of an exported program's tensors, compared in what they say besides the tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.json_text import read_json
from archive.compare.values import Values
from archive.formats.tensors.exported import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.compare.changes import Change
    from archive.reader.archive import Archive

TENSOR = ("dtype", "sizes", "strides", "storage_offset", "requires_grad")
"""What a table says of tensors, and is compared with them."""


def table_changes(old: Archive, new: Archive, record: str, tensors: Mapping[str, str]) -> Iterator[Change]:
    """What two tables of tensors say besides the tensors.

    Args:
        old: the old archive.
        new: the new one.
        record: the table's name.
        tensors: the new archive's names of tensors by the old one's.
    """
    program = TABLE.fullmatch(record)
    part = "" if program is None or program[2] == "model" else f"{program[2]}:"
    names = {now: was for was, now in tensors.items()}
    was, now = (read_json(one.records[record].view(), one.allowance) for one in (old, new))
    left = {name: _payload(one) for name, one in was["config"].items() if _is_told(one, part + name, tensors)}
    right = {
        names.get(part + name, part + name).removeprefix(part): _payload(one)
        for name, one in now["config"].items()
        if _is_told(one, part + name, names)
    }
    values = Values("table of tensors", is_tensor=lambda _: False, ordered=False)
    yield from values.changes({**was, "config": left}, {**now, "config": right}, record)


def _is_told(payload: Mapping[str, Any], name: str, known: Mapping[str, str]) -> bool:
    """Whether a row of a table is compared: it is of no tensor, or of one that both archives have."""
    return bool(payload.get("use_pickle")) or name in known


def _payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What is not compared as a tensor."""
    if payload.get("use_pickle"):
        return dict(payload)
    meta = {key: one for key, one in (payload.get("tensor_meta") or {}).items() if key not in TENSOR}
    return {**{key: one for key, one in payload.items() if key != "path_name"}, "tensor_meta": meta}
