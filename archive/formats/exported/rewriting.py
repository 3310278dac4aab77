"""The record of a program without its nodes' metadata, and with it again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError
from archive.formats.exported.json_text import is_exact, read_json
from archive.formats.exported.program import graph_of, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.base.limits import Allowance


def left_of(data: memoryview, allowance: Allowance) -> bytes | None:
    """A program's record without metadata; None where it is no program, or ``json.dumps`` did not write it.

    Args:
        data: the record.
        allowance: the memory that it may cost.

    Raises:
        LimitError: its values would take more memory than allowed.
    """
    try:
        tree = read_json(data, allowance)
        if not is_exact(tree, data):
            return None
        for _, node, *_ in nodes(graph_of(tree)):
            node["metadata"] = {}
    except LimitError:
        raise
    except ArchiveError:  # `verify` tells
        return None
    return json.dumps(tree).encode()


def filled(data: memoryview, metadata: Iterable[Mapping[str, str]], allowance: Allowance) -> bytes:
    """A program's record with the metadata of its nodes.

    Args:
        data: the record without.
        metadata: of each node, in the order of the file.
        allowance: the memory that it may cost.

    Raises:
        ArchiveError: the record is no program, or has another number of nodes.
        LimitError: its values would take more memory than allowed.
    """
    tree = read_json(data, allowance)
    texts = list(metadata)
    found = [node for _, node, *_ in nodes(graph_of(tree))]
    if len(found) != len(texts):
        raise ArchiveError(place="graph_module.graph", expected=f"{len(texts)} nodes", found=str(len(found)))
    for node, one in zip(found, texts, strict=True):
        node["metadata"] = one
    return json.dumps(tree).encode()
