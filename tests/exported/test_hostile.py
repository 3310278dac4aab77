"""Companions of exported programs by a hostile writer: shared rows whose texts multiply, deep origins."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import archive
from archive.base.errors import ArchiveError, LimitError
from archive.companion.layout import CompanionProfile
from archive.container.container import new_member
from tests.support.hostile_companions import hostile
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.normalform.columns import Columns

LONG = "b" * 100_000


def node(name: str, metadata: dict[str, str], inputs: list[Any] | None = None) -> dict[str, Any]:
    return {"target": "t", "inputs": inputs or [], "outputs": [], "metadata": metadata, "name": name}


def program(folder: Path, *nodes: dict[str, Any]) -> Path:
    text = json.dumps({"graph_module": {"graph": {"nodes": list(nodes)}}})
    path = folder / "made.pt2"
    path.write_bytes(
        written(new_member("archive_format", b"pt2"), new_member("models/model.json", text.encode()))
    )
    return path


def metadata(folder: Path, texts: dict[str, str], change: Callable[[Columns], object]) -> dict[str, str]:
    """The metadata of the only node, by a companion whose columns are changed."""
    aside = folder / "made.ptdbg"
    aside.write_bytes(hostile(program(folder, node("a", texts)), CompanionProfile.MAPPED, change))
    with archive.open(aside) as opened:
        return dict(opened.programs["model"].sites["a"].metadata)


def origin(number: int, text: str) -> dict[str, Any]:
    keys = {"name": f"a_{number}", "target": "t", "graph_id": number, "pass_name": text, "action": "create"}
    return {**keys, "from_node": []}


def test_paths_of_modules_that_grow_with_each_instance_are_refused_before_they_are_made(
    tmp_path: Path,
) -> None:
    paths = [".".join(["x"] * count) for count in range(1, 100)]
    stack = ";".join(f"L__self__{path},{path},C" for path in [*paths, LONG])

    def change(columns: Columns) -> None:
        instances = columns["inside.instance"]
        columns["inside.instance"] = np.full_like(instances, instances[-1])
        columns["instance.whole"] = np.zeros_like(columns["instance.whole"])

    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="memory"):
            metadata(tmp_path, {"nn_module_stack": stack}, change)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_all_texts_of_origins_count(tmp_path: Path) -> None:
    text = json.dumps([origin(number, LONG if not number else "p") for number in range(1000)])

    def change(columns: Columns) -> None:
        made_by = columns["origin.pass"]
        columns["origin.pass"] = np.full_like(made_by, made_by[-1])

    with pytest.raises(LimitError, match="memory"):
        metadata(tmp_path, {"from_node": text}, change)


def test_origins_are_not_deeper_than_those_that_are_packed(tmp_path: Path) -> None:
    text = json.dumps([origin(number, "p") for number in range(1500)])

    def change(columns: Columns) -> None:
        rows = len(columns["origin.next"])
        columns["origin.next"], columns["origin.inner"] = np.full(rows, -1), np.arange(rows) - 1

    with pytest.raises(ArchiveError, match=r"origin\.inner"):
        metadata(tmp_path, {"from_node": text}, change)


def test_a_node_without_a_name_stays_in_its_graph(tmp_path: Path) -> None:
    graph = {"name": "g", "graph": {"nodes": [node("", {"k": "v"}), node("c", {"k": "w"})]}}
    path = program(tmp_path, node("h", {}, [{"name": "", "arg": {"as_graph": graph}}]))
    archive.split(path, tmp_path / "small.pt2", tmp_path / "made.ptdbg")
    with archive.open(tmp_path / "made.ptdbg") as opened:
        assert list(opened.programs["model"].sites) == ["h", "h.g/", "h.g/c"]


def test_an_error_in_a_node_names_the_file_and_the_record(tmp_path: Path) -> None:
    path = program(tmp_path, node("a", {}), node("a", {}))
    with archive.open(path) as opened, pytest.raises(ArchiveError) as refused:
        list(opened.programs["model"].sites)
    assert str(refused.value).startswith(f"{path}: models/model.json, graph_module.graph.nodes[1]: ")
