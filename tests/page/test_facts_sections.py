"""Modules, handles and tables of a page, compared with what the library says one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.base.source_files import is_no_models
from archive.page.shown import Shown
from tests.page.browser import data_of
from tests.page.test_facts import Pair, cut, facts_of, units
from tests.support.commands import called, told, well
from tests.support.corpus import ARCHIVES, FIXTURES
from tests.support.sampling import sampled
from tests.support.tampering import LOWERED, STACK, tampered

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


def test_modules_have_their_classes_elements_and_methods() -> None:
    facts = facts_of(STACK)
    modules = {row["path"]: row for row in rows(facts["modules"])}
    with archive.open(STACK) as opened:
        for path, row in modules.items():
            below = [
                tensor
                for name, tensor in opened.tensors.items()
                if f".{name}".startswith(f".{path}." if path else "")
            ]
            assert row["elements"] == sum(tensor.count for tensor in below), path
            assert row["bytes"] == sum(opened.records[tensor.record].stored_size for tensor in below)
    assert modules["blocks.0"]["class"] == "plain.Block"
    for row in modules.values():
        for method, record, position in row["methods"]:
            text = facts["sources"]["records"][record]["text"]
            assert cut(text, position, position + len(f"  def {method}(")) == f"  def {method}("
    assert [method for method, _, _ in modules["blocks.0"]["methods"]] == ["forward", "_inner"]


def elements(path: Path, **options: Any) -> dict[str, int | None]:  # noqa: ANN401
    modules = facts_of(path, **options)["modules"]
    return dict(zip(modules["path"], modules["elements"], strict=True))


def test_modules_have_their_tensors_whatever_these_are_called() -> None:
    plain = elements(EXPORTED / "shop.pt2")
    assert plain["goods.rows"] == 24
    named = {"": plain[""], **{f":{path}": count for path, count in plain.items() if path}}
    record = elements(FIXTURES / "executorch" / "shop.etrecord")
    assert {f"exported_program{path}": count for path, count in named.items()}.items() <= record.items()
    assert record["edge_dialect_exported_program/forward"] == 78  # two constants were lifted
    assert elements(EXPORTED / "legacy" / "shop.pt2") == plain
    wrapped, unwrapped = (elements(EXPORTED / f"choice{kind}.pt2") for kind in ("_strict", ""))
    assert wrapped[""] == unwrapped[""] == 96
    assert wrapped["other.rows"] == 36
    assert not [path for path in wrapped if "_export_root" in path]
    compiled = elements(FIXTURES / "compiled" / "several.pt2")
    assert compiled == {"tower": 40, "tower:layers": 40, "tower:layers.0": 20, "tower:layers.1": 20}


def test_nodes_and_modules_of_strict_exports_have_the_same_paths() -> None:
    for path in sorted(EXPORTED.glob("*_strict.pt2")):
        facts = facts_of(path)
        (table,) = (table for table in facts["tables"] if table["title"] == "Nodes")
        assert set(table["rows"][2]) <= set(facts["modules"]["path"]) | {""}


def test_each_program_is_a_tree_of_its_own() -> None:
    modules = rows(facts_of(EXPORTED / "several.pt2")["modules"])
    tops = [row["path"] for row in modules if row["parent"] == -1]
    assert tops == ["shop", "choice", "steps"]
    for row in modules:
        if row["parent"] >= 0:
            above = modules[row["parent"]]["path"]
            assert row["path"].startswith((f"{above}.", f"{above}:"))


def test_what_is_not_known_of_modules_is_blank() -> None:
    companion = FIXTURES / "companions" / "v2" / "exported_several.pt2.packed.ptdbg"
    modules = facts_of(companion)["modules"]
    assert {*modules["elements"], *modules["bytes"]} == {None}
    renamed = tampered(
        EXPORTED / "shop.pt2",
        {"data/weights/model_weights_config.json": renamed_weights(EXPORTED / "shop.pt2")},
    )
    modules = facts_of(renamed)["modules"]
    found = dict(zip(modules["path"], modules["elements"], strict=True))
    assert found[""] == 76
    assert found["goods"] is found["towers.0.1"] is None
    assert found["towers.0.0"] == 20


def renamed_weights(path: Path) -> bytes:
    """The table of a program's weights, one module in which is called otherwise."""
    with archive.open(path) as opened:
        table = bytes(opened.records["data/weights/model_weights_config.json"].view())
    assert b'"goods.' in table
    return table.replace(b'"goods.', b'"wares.')


def test_a_module_joined_with_its_companion_has_its_elements(tmp_path: Path) -> None:
    small, companion = tmp_path / "small.pt2", tmp_path / "small.ptdbg"
    archive.split(EXPORTED / "shop.pt2", small, companion)
    assert elements(small, companion=companion) == elements(EXPORTED / "shop.pt2")


def test_tensors_that_modules_share_are_in_each_and_once_above_them() -> None:
    path = EXPORTED / "decoder.pt2"
    with archive.open(path) as opened:
        shared = [names for names in opened.tensors.storages.values() if len(names) > 1]
        holders = {name.rpartition(".")[0] for names in shared for name in names}
        whole = sum(opened.tensors[names[0]].count for names in opened.tensors.storages.values())
    found = elements(path)
    named = [found[holder] for holder in holders if holder in found]
    assert len(named) > 1
    assert all(named)
    assert found[""] == whole


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
            own = [frame for frame in site.frames.frames if not is_no_models(frame.file)]
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
        assert [link[0] >= 0 for link in table["links"]] == linked
    (table,) = (one for one in facts_of(STACK)["tables"] if one["title"] == "Instructions")
    with archive.open(STACK) as opened:
        assert table["rows"][2] == [handle for handles in opened.methods.values() for handle in handles]
    record = FIXTURES / "executorch" / "shop.etrecord"
    (table,) = (one for one in facts_of(record)["tables"] if one["title"] == "Instructions")
    with archive.open(record) as opened:
        assert len(table["links"]) == sum(map(len, opened.instructions.values())) > 0


@pytest.mark.parametrize("name", ["framed", "methods", "mutated", "xnnpack"])
def test_a_program_of_executorch_has_what_inspect_says_and_its_instructions_lead_to_their_lines(
    name: str,
) -> None:
    path = FIXTURES / f"executorch/{name}.pte"
    facts = facts_of(path)
    tables = {table["title"]: [*zip(*table["rows"], strict=True)] for table in facts["tables"]}
    methods: dict[str, Any] = told("inspect", path)["executorch_methods"]  # type: ignore[assignment]
    assert tables["Methods"] == [
        (
            name,
            *(", ".join(one[side]) for side in ("inputs", "outputs")),
            one["instructions"],
            one["framed"],
            sum(one["planned_bytes"]),
        )
        for name, one in methods.items()
    ]
    calls = {(what, callee, method): count for callee, what, method, count in tables["Calls"]}
    assert calls == {
        (what, callee, name): count
        for name, one in methods.items()
        for what in ("operator", "backend")
        for callee, count in one[f"{what}s"].items()
    }
    links = next(table["links"] for table in facts["tables"] if table["title"] == "Instructions")
    assert len(links) == len(tables["Instructions"]) == sum(one["instructions"] for one in methods.values())
    for (method, number, operation, file, line), link in zip(tables["Instructions"], links, strict=True):
        asked = called("symbolicate", path, f"{method}/0:{number}")
        assert bool(file) is (asked.exit_code == 0)
        if file:
            assert asked.stdout.startswith(f"{operation}\n")
            assert f'File "{file}", line {line}, in' in asked.stdout
            assert cut_line(facts["sources"]["files"][link[0]]["text"], link[1]) in asked.stdout


def cut_line(text: str, start: int) -> str:
    """The line of a text that begins at a position."""
    return text.encode("utf-16-le")[2 * start :].decode("utf-16-le").split("\n")[0]


@pytest.mark.parametrize("name", ["several.pt2", "sources.pt2"])
def test_kernels_lead_to_the_line_that_calls_them_and_to_the_line_of_the_model(name: str) -> None:
    path = FIXTURES / "compiled" / name
    facts = facts_of(path)
    (table,) = (table for table in facts["tables"] if table["title"] == "Kernels")
    sources = facts["sources"]
    kernels = rows(dict(zip(table["columns"], table["rows"], strict=True)))
    assert len(kernels) == len(table["links"]) > 0
    for kernel, link in zip(kernels, table["links"], strict=True):
        file, start, number, position = link
        record = sources["records"][number]
        assert record["name"].endswith(kernel["C++ file"])
        line = record["text"][position:].partition("\n")[0]
        called = kernel["Kernel"].rpartition(":")[0].rpartition(":")[2]
        assert f"{called}(" in line
        assert record["text"][:position].count("\n") + 1 == kernel["C++ line"]
        shown = Pair(sources, record).shown(Pair(sources, record).row(position))
        if kernel["File"]:
            text = sources["files"][file]["text"]
            assert shown == (kernel["File"], kernel["Line"], cut(text, start, text.index("\n", start)))
        else:
            assert (file, shown) == (-1, None)
        end = position + len(line) + 1
        below = Pair(sources, record).shown(Pair(sources, record).row(end))
        assert below is None  # the next line is no call


def test_a_kernel_is_shown_with_a_line_of_the_model_only_if_all_calls_come_from_that() -> None:
    path, name = FIXTURES / "compiled" / "several.pt2", "cpp_fused_add_relu_2"
    kernels = "data/aotinductor/tower/kernel_information.json"
    with archive.open(path) as opened:
        table = json.loads(bytes(opened.records[kernels].view()))
    assert {trace for key in table if key.startswith(name) for trace in table[key]["stack_traces"]}
    for changed, expected in ((False, ("models/mixer.py", 38)), (True, None)):
        if changed:
            table[f"{name}:7"]["stack_traces"] = ['File "models/mixer.py", line 39, in forward\n    return x']
        sources = facts_of(tampered(path, {kernels: json.dumps(table).encode()}))["sources"]
        (record,) = (one for one in sources["records"] if "/tower/" in one["name"])
        pair = Pair(sources, record)
        shown = pair.shown(pair.row(record["text"].rindex(f'extern "C"  void  {name}(')))
        assert (shown and shown[:2]) == expected


def test_kernels_that_cannot_be_read_leave_the_other_sections() -> None:
    path = FIXTURES / "compiled" / "sources.pt2"
    facts = facts_of(tampered(path, {"data/aotinductor/model/kernel_information.json": b"{"}))
    assert [text for text in facts["left_out"] if text.startswith("Kernels: ")]
    assert "tables" not in facts
    assert facts["findings"]["from"]


def test_code_with_paths_in_it_is_shown_with_all_source_alone() -> None:
    path = FIXTURES / "compiled" / "sources.pt2"
    facts = facts_of(path, Shown.BASENAME)
    assert facts["sources"]["records"] == []
    assert [text for text in facts["left_out"] if text.startswith("C++ code: ")]
    assert "sources" not in facts_of(path, Shown.NONE)


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


def test_a_page_has_the_label_of_the_release(tmp_path: Path) -> None:
    small, companion = tmp_path / "small.ptl", tmp_path / "m.ptdbg"
    well("split", STACK, "-o", small, "-c", companion, "--label", "1.4.2")
    for words in ([small, "-c", companion], [companion]):
        facts = told("report", *words, "-o", tmp_path / "page.html", "--force")
        assert facts["label"] == "1.4.2"
        assert data_of((tmp_path / "page.html").read_bytes())["head"]["label"] == "1.4.2"
    assert told("report", STACK, "-o", tmp_path / "page.html", "--force")["label"] == ""
