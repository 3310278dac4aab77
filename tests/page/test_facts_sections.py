"""Modules, handles and tables of a page, compared with what the library says one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.formats.exported.traces import OWN_FILES
from archive.page.shown import Shown
from tests.page.test_facts import cut, facts_of, units
from tests.support.commands import called, told
from tests.support.corpus import ARCHIVES, FIXTURES
from tests.support.sampling import sampled
from tests.support.tampering import LOWERED, STACK

if TYPE_CHECKING:
    from pathlib import Path

EXPORTED = FIXTURES / "exported"


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# --- handles


@pytest.mark.parametrize("path", sampled([path for path in ARCHIVES if path.suffix == ".ptl"], 12), ids=str)
def test_the_frames_of_a_handle_are_those_of_its_symbolication(path: Path) -> None:
    facts = facts_of(path)
    with archive.open(path) as opened:
        handles = rows(facts["handles"]) if "handles" in facts else []
        assert [row["handle"] for row in handles] == list(opened.handles)
        for row in handles:
            told = opened.symbolicate(row["handle"])
            assert row["operator"] == ("" if told.entries[0].op is None else str(told.entries[0].op))
            assert len(row["frames"]) == len(told.frames)
            for (record, position, text), frame in zip(row["frames"], told.frames, strict=True):
                span = frame.range
                if span is None or span.source.is_null:
                    assert text == f"in {frame.function.decode()}"
                    continue
                assert text.endswith(f"line {span.line}, in {frame.function.decode()}")
                if record >= 0:
                    name = facts["sources"]["records"][record]["name"]
                    code = facts["sources"]["records"][record]["text"]
                    assert 0 <= position <= len(code)
                    found = opened.locate(name, len(code[:position].encode()))
                    assert found is not None
                    assert (found.text, found.line) == (span.text, span.line)


def test_the_path_of_a_handle_is_that_of_its_module() -> None:
    handles = {row["handle"]: row for row in rows(facts_of(STACK)["handles"])}
    assert handles[1452]["path"] == "blocks.1"
    assert handles[1452]["operator"] == "prim::GetAttr"


def test_handles_are_there_without_source_but_lead_nowhere() -> None:
    handles = facts_of(STACK, Shown.NONE)["handles"]
    frames = [frame for stack in handles["frames"] for frame in stack]
    assert {tuple(frame[:2]) for frame in frames} == {(-1, -1)}
    assert not [file for file in handles["file"] if "/" in file]
    assert handles["line"] == facts_of(STACK)["handles"]["line"]


# --- modules


def test_modules_have_their_classes_parameters_and_methods() -> None:
    facts = facts_of(STACK)
    modules = {row["path"]: row for row in rows(facts["modules"])}
    with archive.open(STACK) as opened:
        for path, row in modules.items():
            below = [
                tensor
                for name, tensor in opened.tensors.items()
                if f".{name}".startswith(f".{path}." if path else "")
            ]
            assert row["parameters"] == sum(tensor.count for tensor in below), path
            assert row["bytes"] == sum(opened.records[tensor.record].stored_size for tensor in below)
    assert modules["blocks.0"]["class"] == "plain.Block"
    for row in modules.values():
        for method, record, position in row["methods"]:
            text = facts["sources"]["records"][record]["text"]
            assert cut(text, position, position + len(f"  def {method}(")) == f"  def {method}("
    assert [method for method, _, _ in modules["blocks.0"]["methods"]] == ["forward", "_inner"]


def test_each_module_stands_behind_what_it_is_in() -> None:
    for path in (STACK, EXPORTED / "decoder.pt2", LOWERED):
        modules = rows(facts_of(path)["modules"])
        for number, row in enumerate(modules):
            assert row["parent"] < number
            if row["parent"] >= 0:
                assert modules[row["parent"]]["path"] == row["path"].rpartition(".")[0]
        assert sum(row["parent"] == -1 for row in modules) == 1


def test_effects_are_counted() -> None:
    modules = facts_of(FIXTURES / "effects" / "counting.pt")["modules"]
    with archive.open(FIXTURES / "effects" / "counting.pt") as opened:
        assert opened.effects is not None
        assert modules["effects"][0] == sum(len(method.effects) for method in opened.effects.methods) > 0


# --- tables


@pytest.mark.parametrize("path", sampled(sorted(EXPORTED.glob("*.pt2")), 8), ids=str)
def test_nodes_lead_to_the_line_of_their_innermost_own_frame(path: Path) -> None:
    facts = facts_of(path)
    (table,) = (table for table in facts["tables"] if table["title"] == "Nodes")
    nodes = rows(dict(zip(table["columns"], table["rows"], strict=True)))
    with archive.open(path) as opened:
        sites = [site for program in opened.programs.values() for site in program.sites.values()]
        assert len(nodes) == len(sites) == len(table["links"])
        for node, site, link in zip(nodes, sites, table["links"], strict=True):
            assert node["Target"] == site.target
            if site.frames is None:
                assert link is None
                continue
            own = [frame for frame in site.frames.frames if not OWN_FILES.match(frame.file)]
            frame = (own or site.frames.frames)[-1]
            assert (node["File"], node["Line"]) == (frame.file, frame.line)
            if frame.code is not None and "\n" not in frame.code:
                file = facts["sources"]["files"][link[0]]
                assert file["name"] == frame.file
                assert cut(file["text"], link[1], link[1] + units(frame.code)) == frame.code


def test_kernels_and_instructions_have_tables() -> None:
    kernels = facts_of(FIXTURES / "compiled" / "several.pt2")["tables"]
    with archive.open(FIXTURES / "compiled" / "several.pt2") as opened:
        (table,) = (table for table in kernels if table["title"] == "Kernels")
        assert table["rows"][0] == list(opened.kernels)
        linked = [bool(kernel.stack_traces) for kernel in opened.kernels.values()]
        assert list(map(bool, table["links"])) == linked
    (table,) = (one for one in facts_of(STACK)["tables"] if one["title"] == "Instructions")
    with archive.open(STACK) as opened:
        assert table["rows"][2] == [handle for handles in opened.methods.values() for handle in handles]
    record = FIXTURES / "executorch" / "shop.etrecord"
    (table,) = (one for one in facts_of(record)["tables"] if one["title"] == "Instructions")
    with archive.open(record) as opened:
        assert len(table["links"]) == sum(map(len, opened.instructions.values())) > 0


def test_links_without_source_lead_nowhere() -> None:
    for path in (STACK, EXPORTED / "decoder.pt2"):
        facts = facts_of(path, Shown.NONE)
        assert "sources" not in facts
        assert [link for table in facts["tables"] for link in table["links"] if link] == []


# --- inspect --source


def test_positions_in_bytes_are_what_the_library_says() -> None:
    path = FIXTURES / "releases" / "torch-2.13.0" / "unicode.ptl"
    facts = told("inspect", path, "--source")
    assert facts["file"] == str(path)
    files, records = facts["files"], facts["records"]
    assert isinstance(files, list)
    assert isinstance(records, list)
    with archive.open(path) as opened:
        for record in records:
            found = opened.ranges(record["record"])
            assert record["offset"] == [row.offset for row in found]
            assert record["tag"] == [row.tag for row in found]
            for number, row in enumerate(found):
                if row.range.source.is_null:
                    assert record["file"][number] == -1
                    continue
                file = files[record["file"][number]]
                text = file["text"].encode()[record["start"][number] : record["end"][number]]
                assert (text, record["line"][number]) == (row.range.text, row.range.line)
                assert file["name"] == str(row.range.source.filename)
    assert records


def test_positions_are_printed_as_json_alone() -> None:
    assert called("inspect", STACK, "--source").exit_code == 2
    assert called("inspect", STACK, "--source", "--json", "--effects").exit_code == 2
