"""Graphs of archives for Model Explorer: by its own package, and in which every id of a run is found."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.app.model_explorer import graph as graphs
from archive.app.model_explorer.drawing import graphs_of
from archive.app.model_explorer.graph import OperatorGraph, namespace
from archive.base.errors import ArchiveError
from archive.debuginfo.profiles.places import node_id
from tests.support.commands import well
from tests.support.corpus import ARCHIVES, FIXTURES, ORACLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STACK = ORACLES / "plain_stack.pt"
PROGRAMS = sorted((FIXTURES / "exported").glob("*.pt2"))
EXTENSION = "archive.app.model_explorer"


def drawn(source: Path) -> list[OperatorGraph]:
    with archive.open(source) as opened:
        return graphs_of(opened)


def edges(graph: OperatorGraph) -> set[tuple[str, str]]:
    return {(source, node.id) for node in graph.nodes.values() for source in node.sources}


def test_a_scripted_model_is_drawn_by_its_code() -> None:
    (graph,) = drawn(STACK)
    block = "blocks.0 aten::add models/plain.py:28"
    linear = "blocks.0.fc aten::linear models/plain.py:25"
    node = graph.nodes[linear]
    assert (graph.name, node.label, node.path) == ("forward", "linear", ("blocks", "0", "fc"))
    assert node.attributes["source"] == "return self.act(self.fc(x))"
    assert [*node.sources] == ["input x", "weight blocks.0.fc.weight", "weight blocks.0.fc.bias"]
    assert {source for source, target in edges(graph) if target == block} == {
        "input x",
        "blocks.0.act aten::relu models/plain.py:25",
        "blocks.0.act aten::relu_ models/plain.py:25",  # of the branch that is not taken
    }
    assert dict(graph.groups())["blocks/0/fc"] == "Linear"


def test_a_lite_archive_is_drawn_by_its_handles() -> None:
    (graph,) = drawn(ORACLES / "plain_stack.ptl")
    assert [*graph.nodes] == ["1445", "1446", "1447", "1462", "1463", "1464", "1475"]
    assert edges(graph) == {
        *(("1445", "1446"), ("1446", "1447"), ("1447", "1462"), ("1462", "1463")),
        *(("1463", "1464"), ("1447", "1464"), ("1464", "1475")),
    }
    assert graph.nodes["1464"].attributes["handle"] == "1464"
    assert graph.nodes["1464"].attributes["line"] == "models/plain.py:28"


def test_a_lowered_archive_has_the_operators_inside_of_its_backend() -> None:
    (graph,) = drawn(ORACLES / "lowered_ok.ptl")
    with archive.open(ORACLES / "lowered_ok.ptl") as opened:
        held = {handle for some in opened.methods.values() for handle in some}
        inner = {str(handle) for handle in opened.handles if handle not in held}
    assert graph.nodes["1296"].path == ("AA0",)
    assert "1296" in inner


@pytest.mark.parametrize("file", [*ARCHIVES, *PROGRAMS], ids=lambda file: f"{file.parent.name}/{file.name}")
def test_edges_lead_from_nodes_before(file: Path) -> None:
    try:
        found = drawn(file)
    except ArchiveError as error:
        assert "no program, and no method" in str(error)  # noqa: PT017 (few have none)
        return
    for graph in found:
        order = {name: at for at, name in enumerate(graph.nodes)}
        assert all(order[source] < order[target] for source, target in edges(graph))
        assert all(name == node.id for name, node in graph.nodes.items())


@pytest.mark.parametrize("file", [FIXTURES / "exported/choice.pt2", STACK], ids=lambda file: file.name)
def test_the_bytes_of_each_tensor_are_at_a_node(file: Path) -> None:
    words = ("sizes", file, "--by", "weights", "--format", "model-explorer")
    taken = {name for graph in drawn(file) for name in graph.nodes if name.startswith("weight ")}
    assert json.loads(well(*words))["results"].keys() == taken != set()


def test_a_node_of_a_program_has_its_name_and_line() -> None:
    (graph,) = drawn(FIXTURES / "exported/choice.pt2")
    node = graph.nodes["cond.false_graph_0/sub"]
    assert node.path == ("cond.false_graph_0",)
    assert node.attributes["line"] == "models/branches.py:33"
    assert graph.nodes["sum_1"].sources == {"input x": None}


def test_a_slash_in_a_name_is_no_level() -> None:
    assert namespace(("a/b", "c")) == "a%2Fb/c"


def with_code(tmp_path: Path, change: Callable[[str], str]) -> Path:
    """The model with other code."""
    path = tmp_path / "changed.pt"
    with zipfile.ZipFile(STACK) as source, zipfile.ZipFile(path, "w") as target:
        for info in source.infolist():
            data = source.read(info)
            if info.filename.endswith("plain.py"):
                data = change(data.decode()).encode()
            target.writestr(info.filename, data)
    return path


def test_calls_that_double_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_STEPS", 2000)
    doubling = "".join(
        f"  def m{at}(self, x: Tensor) -> Tensor:\n"
        f"    a = (self).m{at + 1}(x, )\n    return (self).m{at + 1}(a, )\n"
        for at in range(30)
    )

    def change(code: str) -> str:
        head, forward, _ = code.partition("  def forward(self: __torch__.plain.Stack,")
        assert forward
        return head + doubling.replace(" m0(", " forward(", 1)

    with pytest.raises(ArchiveError, match="2,000 steps"):
        drawn(with_code(tmp_path, change))


def test_a_method_that_calls_itself_is_refused(tmp_path: Path) -> None:
    def change(code: str) -> str:
        return code.replace("return (head).forward(x0, )", "return (self).forward(x0, )")

    with pytest.raises(ArchiveError, match="60 functions inside one another"):
        drawn(with_code(tmp_path, change))


def test_bytecode_that_is_not_as_declared_is_refused(tmp_path: Path) -> None:
    path, source = tmp_path / "changed.ptl", ORACLES / "plain_stack.ptl"
    refused = 0
    with zipfile.ZipFile(source) as whole:
        records = {info.filename: whole.read(info) for info in whole.infolist()}
    name = next(each for each in records if each.endswith("/bytecode.pkl"))
    data = records[name]
    for at in range(0, len(data), 7):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with zipfile.ZipFile(path, "w") as target:
            for each, record in {**records, name: changed}.items():
                target.writestr(each, record)
        try:
            drawn(path)
        except ArchiveError:
            refused += 1
    assert refused > 10


# --- with Model Explorer


def test_model_explorer_opens_archives_by_the_extension() -> None:
    manager = pytest.importorskip("model_explorer.extension_manager").ExtensionManager([EXTENSION])
    manager.load_extensions()
    ours = [each for each in manager.extensions if each.metadata.id == "debug_archive"]
    assert [each.metadata.fileExts for each in ours] == [["pt", "ptl", "pt2"]]
    for file in (STACK, ORACLES / "plain_stack.ptl", ORACLES / "lowered_ok.ptl", *PROGRAMS):
        asked = {"cmdId": "convert", "modelPath": str(file), "settings": {}, "deleteAfterConversion": False}
        made = json.loads(json.dumps(manager.run_cmd({"extensionId": "debug_archive", **asked})))
        assert [each["id"] for each in made["graphs"]] == [graph.name for graph in drawn(file)]
        for converted, graph in zip(made["graphs"], drawn(file), strict=True):
            nodes = {node["id"]: node for node in converted["nodes"]}
            assert nodes.keys() == graph.nodes.keys()
            taken = {
                (edge["sourceNodeId"], name) for name, node in nodes.items() for edge in node["incomingEdges"]
            }
            assert taken == edges(graph)
            assert set(converted["groupNodeAttributes"]) == {path for path, _ in graph.groups()}


# --- with PyTorch


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with one model in each form, and an input of it."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    folder = tmp_path_factory.mktemp("forms")

    class Net(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            x = torch.relu(self.bn(self.conv(x))).flatten(2).transpose(1, 2)
            for layer in self.layers:
                x = self.norm(torch.nn.functional.gelu(layer(x))) + x
            y = torch.nn.functional.max_pool1d(x, 2)
            return torch.softmax(y.max(1)[0], -1).sum() + torch.cat([y, y], 1).mean()

    class Choosing(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            if x.sum() > 0:  # noqa: SIM108 (branches of the code)
                y = torch.sin(x)
            else:
                y = torch.cos(x)
            for _ in range(3):
                y = torch.tanh(y)
            first, second = torch.chunk(torch.exp(y), 2)
            return torch.log(first + 2) * second

    net, x = Net().eval(), torch.rand(1, 3, 6, 6)
    scripted = torch.jit.script(net)
    traced, frozen = torch.jit.trace(net, x), torch.jit.freeze(scripted)
    for name, module in {"scripted": scripted, "frozen": frozen, "traced": traced}.items():
        module.save(folder / f"{name}.pt")
    torch.export.save(torch.export.export(net, (x,)), folder / "exported.pt2")
    choosing = torch.jit.script(Choosing())
    choosing.save(folder / "choosing.pt")
    for name, module in {"scripted": scripted, "traced": traced, "choosing": choosing}.items():
        module._c._save_for_mobile(str(folder / f"{name}.ptl"), {}, True, False)  # noqa: FBT003 (names are not taken)
    return folder, x


def test_each_operation_of_a_run_has_a_node(saved: tuple[Path, Any]) -> None:
    folder, x = saved
    for file in sorted(folder.iterdir()):
        with archive.run(file, x[0, 0] if file.stem == "choosing" else x, keep=False) as run:
            nodes = {name for graph in drawn(file) for name in graph.nodes}
            ids = {node_id(each.place, each.op, each.key) for each in run.operations}
        assert len(ids) > 6, file
        assert ids <= nodes, file


def test_instructions_have_the_edges_of_their_code(saved: tuple[Path, Any]) -> None:
    def called(name: str) -> set[tuple[str, str]]:
        (graph,) = drawn(saved[0] / name)
        names = {node.id: "/".join((*node.path, node.label)) for node in graph.nodes.values() if node.place}
        return {(names[one], names[other]) for one, other in edges(graph) if {one, other} <= names.keys()}

    branches = {("sin", "tanh"), ("cos", "tanh"), ("tanh", "exp"), ("sin", "exp"), ("cos", "exp")}
    edges_of = {name: called(f"choosing.{name}") for name in ("pt", "ptl")}
    assert edges_of["pt"] == edges_of["ptl"] - {("gt", "Bool")} >= branches  # code has it as Python's
    assert {("exp", "chunk"), ("chunk", "add"), ("chunk", "mul"), ("log", "mul")} <= edges_of["ptl"]
    assert called("traced.ptl") >= {("conv/_convolution", "bn/batch_norm"), ("layers/0/linear", "gelu")}
