"""The record of a program without its nodes' metadata, and with it again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, LimitError
from archive.base.json_text import is_exact, read_json
from archive.formats.exported.program import graph_of, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.base.limits import Allowance


def left_of(data: memoryview, allowance: Allowance) -> bytes | None:
    """A program's record without metadata; None if it is no program, or ``json.dumps`` did not write it.

    Args:
        data: the record.
        allowance: the memory that it may cost.

    Raises:
        LimitError: its values would take more memory than allowed.
    """
    try:
        return without_metadata(read_json(data, allowance), data)
    except LimitError:
        raise
    except ArchiveError:  # `verify` tells
        return None


def without_metadata(tree: object, data: memoryview) -> bytes | None:
    """The same of a record whose value is known.

    Args:
        tree: the value, the same afterwards.
        data: the record.

    Raises:
        ArchiveError: the value is no program.
        LimitError: graphs are nested too deeply.
    """
    if not is_exact(tree, data):
        return None
    found = _nodes(tree)
    return _rewritten(tree, found, [{}] * len(found))


def filled(data: memoryview, metadata: Iterable[Mapping[str, str]], allowance: Allowance) -> bytes:
    """A program's record with the metadata of its nodes.

    Args:
        data: the record, with any metadata.
        metadata: of each node, in the order of the file.
        allowance: the memory that it may cost.

    Raises:
        ArchiveError: the record is no program, or has another number of nodes.
        LimitError: its values would take more memory than allowed.
    """
    return with_metadata(read_json(data, allowance), list(metadata))


def with_metadata(tree: object, metadata: Sequence[Mapping[str, str]]) -> bytes:
    """The same of a record's value, which is the same afterwards."""
    return _rewritten(tree, _nodes(tree), metadata)


def _nodes(tree: object) -> list[dict[str, Any]]:
    return [node for _, node, *_ in nodes(graph_of(tree))]


def _rewritten(tree: object, found: list[dict[str, Any]], metadata: Sequence[Mapping[str, str]]) -> bytes:
    before = [node.get("metadata") for node in found]
    have = sum(isinstance(one, dict) for one in before)
    if not len(found) == len(metadata) == have:
        expected = f"{len(metadata)} nodes with metadata"
        raise ArchiveError(place="graph_module.graph", expected=expected, found=f"{have} of {len(found)}")
    try:
        for node, one in zip(found, metadata, strict=True):
            node["metadata"] = one
        return json.dumps(tree).encode()
    finally:
        for node, was in zip(found, before, strict=True):
            node["metadata"] = was
