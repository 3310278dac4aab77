"""Metadata of nodes: each kind is built again to the same text, is made canonical, and survives a split."""

from __future__ import annotations

import io
import json
import re
import traceback
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base.errors import NothingToDoError
from archive.companion.layout import CompanionLayout
from archive.container.write import new_member
from archive.formats.exported.canonical import IdNumbering
from archive.formats.exported.modules import Instance, Key, build_modules, parse_modules
from archive.formats.exported.node_metadata import (
    FUNCTION,
    FUNCTIONS,
    MODULES,
    ORIGINS,
    STACK_TRACE,
    NodeFunction,
    build_function,
    build_functions,
    parse_function,
    parse_functions,
)
from archive.formats.exported.origins import NodeOrigin, build_origins, parse_origins
from archive.formats.exported.traces import FrameMark, Trace, TraceFrame, build_trace, parse_trace
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.exported import EXPORTED, METADATA, PROGRAMS, nodes, texts
from tests.support.sampling import Suite, examples, sampled
from tests.support.strategies import patient
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "stack_trace": (parse_trace, build_trace),
    "nn_module_stack": (parse_modules, build_modules),
    "torch_fn": (parse_function, build_function),
    "source_fn_stack": (parse_functions, build_functions),
    "from_node": (parse_origins, build_origins),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_of_the_fixtures_comes_back(kind: str) -> None:
    parse, build = KINDS[kind]
    found = texts(kind)
    assert len(found) > 50
    for text in found:
        parsed = parse(text)
        assert parsed is not None, text
        assert build(parsed) == text


def test_no_other_kind_is_in_the_fixtures() -> None:
    assert [kind for kind in METADATA if kind not in KINDS and texts(kind)] == ["custom"]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_text_is_kept_or_refused(kind: str, data: st.DataObject) -> None:
    parse, build = KINDS[kind]
    known = data.draw(st.sampled_from(texts(kind)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(known))] * 2)))
    text = (
        known[:start]
        + data.draw(st.text(max_size=5) | st.sampled_from(["\n", ";", ",", '"', "[", "@1"]))
        + known[end:]
    )
    parsed = parse(text)
    assert parsed is None or build(parsed) == text


def test_a_trace_of_strict_export() -> None:
    text = (
        '  File "models/branches.py", line 51, in forward\n'
        "    i, x = while_loop(more, step, (start, x))\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    )
    code = "i, x = while_loop(more, step, (start, x))"
    frame = TraceFrame("models/branches.py", 51, "forward", code, FrameMark(7, 0, 34, 0))
    assert parse_trace(text) == Trace((frame,), indented=True, ended=True)


def test_a_trace_of_non_strict_export_without_a_line() -> None:
    text = 'File "a.py", line 3, in f\n    x + 1\n  File "<string>", line 1, in <lambda>'
    frames = (TraceFrame("a.py", 3, "f", "x + 1", None), TraceFrame("<string>", 1, "<lambda>", None, None))
    assert parse_trace(text) == Trace(frames, indented=False, ended=False)


@pytest.mark.parametrize("file", ["<stdin>", "<console>", "<python-input-0>", "<ipython-input-3-0f5bcbcf>"])
def test_code_that_a_person_typed_is_the_models(file: str) -> None:
    inner = "/env/lib/python3.11/site-packages/torch/nn/functional.py"
    frames = [
        TraceFrame(name, 3, "f", None, None)
        for name in ("a.py", file, inner, "<eval_with_key>.11", "<string>")
    ]
    assert Trace(tuple(frames), indented=True, ended=True).of_model.file == file


def test_what_this_python_prints_is_a_trace() -> None:
    def divided(value: int) -> float:
        return (value
                + 1) / (value - 1)  # fmt: skip

    with pytest.raises(ZeroDivisionError) as caught:
        divided(1)
    text = "".join(traceback.format_tb(caught.value.__traceback__))
    parsed = parse_trace(text)
    assert parsed is not None
    assert build_trace(parsed) == text
    assert [frame.function for frame in parsed.frames][-1] == "divided"


def test_keys_of_module_instances() -> None:
    text = "L__self__,,shop.Shop;L__self__goods.rows@1,goods.rows,nn.Embedding;140@2,a,b[c,d]"
    assert parse_modules(text) == (
        Instance(Key(None, None, None), "", "shop.Shop"),
        Instance(Key(None, None, 1), "goods.rows", "nn.Embedding"),
        Instance(Key(None, 140, 2), "a", "b[c,d]"),
    )


@pytest.mark.parametrize("text", ["", "a,b", "a,b,c,d", "a,b,c;", "a,[b,c"])
def test_what_is_no_module_stack(text: str) -> None:
    assert parse_modules(text) is None


def test_an_origin_of_an_origin() -> None:
    inner = NodeOrigin("linear", "aten.linear.default", 7, "ExportedProgram.module()", "create", ())
    text = build_origins(
        (NodeOrigin("linear", "aten.linear.default", 8, "Interpreter", "create+replace", (inner,)),)
    )
    assert parse_origins(text) == (
        NodeOrigin("linear", "aten.linear.default", 8, "Interpreter", "create+replace", (inner,)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        '[{"name": "a"}]',
        "[" * 100_000,
        '[{"name": "a", "target": "b", "graph_id": true, "pass_name": "c", "action": "d", "from_node": []}]',
    ],
)
def test_what_is_no_origin(text: str) -> None:
    assert parse_origins(text) is None


# --- ``convert --canonical``: two exports of one model become the same bytes


def canonical(path: Path) -> bytes:
    out = io.BytesIO()
    archive.canonicalise(path, out)
    return out.getvalue()


def records(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name.partition("/")[2]: opened.read(name) for name in opened.namelist()}


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_only_ids_in_metadata_differ(path: Path) -> None:
    before, after = records(path.read_bytes()), records(canonical(path))
    assert list(before) == list(after)
    changed = {name for name in before if before[name] != after[name]}
    for name in changed - {".data/serialization_id"}:
        assert name.startswith("models/")
        assert without_metadata(before[name]) == without_metadata(after[name])
        for old, new in zip(nodes(json.loads(before[name])), nodes(json.loads(after[name])), strict=True):
            assert old["metadata"].keys() == new["metadata"].keys()
            for key, text in old["metadata"].items():
                assert DIGITS.sub("", text) == DIGITS.sub("", new["metadata"][key])


DIGITS = re.compile(r"(?<=0x)[0-9a-f]+|\d+")


def without_metadata(data: bytes) -> object:
    tree = json.loads(data)
    for node in nodes(tree):
        del node["metadata"]
    return tree


@pytest.mark.parametrize("path", PROGRAMS[::4], ids=lambda path: path.stem)
def test_what_is_canonical_stays(path: Path, tmp_path: Path) -> None:
    once = canonical(path)
    (tmp_path / "other.pt2").write_bytes(once)
    assert canonical(tmp_path / "other.pt2") == once


@pytest.mark.parametrize("strict", [False, True])
def test_two_exports_of_one_model_are_the_same_bytes_and_run_equal(tmp_path: Path, strict: bool) -> None:  # noqa: FBT001
    torch = pytest.importorskip("torch")

    module: Any = torch.nn.Module

    class Model(module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            return torch.cond(x.sum() > 0, lambda x: self.linear(x).sin(), lambda x: x.cos(), (x,))

    x = torch.ones(2, 3)
    for name in ("a", "b"):
        torch.manual_seed(0)
        torch.export.save(torch.export.export(Model(), (x,), strict=strict), tmp_path / f"{name}.pt2")
    a, b = tmp_path / "a.pt2", tmp_path / "b.pt2"
    assert a.read_bytes() != b.read_bytes()
    assert canonical(a) == canonical(b)
    expected = torch.export.load(a).module()(x)
    assert torch.equal(torch.export.load(io.BytesIO(canonical(a))).module()(x), expected)


def test_each_kind_of_id_is_numbered_by_itself() -> None:
    numbering = IdNumbering()
    first = numbering.numbered(
        {
            STACK_TRACE: 'File "<eval_with_key>.327", line 5, in forward\n  File "a.py", line 327, in f',
            MODULES: "140145928258128,,a.Top;140145928250000@1,one,a.One",
            FUNCTION: "f_1;<function f at 0x7f0001>",
            FUNCTIONS: "f,<function f at 0x7f0001>;g,<function g at 0x7f0002>",
            ORIGINS: '[{"name": "x", "target": "<function f at 0x7f0003>", "graph_id": 9, "pass_name": "", '
            '"action": "create", "from_node": []}]',
            "custom": "at 0x7f0001>",
        }
    )
    assert first == {
        STACK_TRACE: 'File "<eval_with_key>.0", line 5, in forward\n  File "a.py", line 327, in f',
        MODULES: "0,,a.Top;1@1,one,a.One",
        FUNCTION: "f_1;<function f at 0x0>",
        FUNCTIONS: "f,<function f at 0x0>;g,<function g at 0x1>",
        ORIGINS: '[{"name": "x", "target": "<function f at 0x2>", "graph_id": 0, "pass_name": "", '
        '"action": "create", "from_node": []}]',
        "custom": "at 0x7f0001>",
    }
    second = numbering.numbered({MODULES: "140145928250000,one,a.One"})
    assert second == {MODULES: "1,one,a.One"}
    assert numbering.counts == {"graphs": 1, "modules": 2, "addresses": 3, "pieces of generated code": 1}


@pytest.mark.parametrize("key", [MODULES, ORIGINS])
def test_the_ids_of_fixtures_are_small(key: str) -> None:
    numbering = IdNumbering()
    found = [numbering.numbered({key: text})[key] for text in texts(key)]
    assert not [text for text in found if re.search(r"0x7f|\b\d{13,}\b", text)]


def test_one_of_two_forms_is_asked_for(tmp_path: Path) -> None:
    done = run("convert", EXPORTED / "shop.pt2", "-o", tmp_path / "out.pt2")
    assert done.returncode == 2
    assert b"give --layout LAYOUT, or --canonical" in done.stderr


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("oracles/plain_stack.ptl", "a lite archive"),
        ("compiled/sources.pt2", "an AOTInductor package (.pt2)"),
    ],
)
def test_other_archives_are_refused(name: str, what: str, tmp_path: Path) -> None:
    path = FIXTURES / name
    done = run("convert", path, "-o", tmp_path / "out.ptl", "--canonical")
    assert done.returncode == 2
    assert done.stderr.decode() == f"debug-archive: {path}: expected an exported program, found {what}\n"
    assert not (tmp_path / "out.ptl").exists()


# --- Programs of random graphs and metadata are split and joined to the byte


Tree = dict[str, Any]
ODD = st.text(max_size=6) | st.sampled_from(
    ["a,b", "c;d", "e(f", "g]h", "[i,j]", "k\0l", "ä\ud800", "\\/", "x.y"]
)
COUNT = st.integers(0, 3)
NAME = st.sampled_from(["linear", "linear_1", "add", "add_01", "mul_12", "_3", "ß_7"])
IDS = st.integers(0, (1 << 63) - 1) | st.integers(140_000, 140_003)


def listed(values: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=least, max_size=3).map(tuple)


MARKS = st.builds(FrameMark, COUNT, COUNT, st.integers(1, 3), COUNT)
OUTER = TraceFrame("a.py", 7, "forward", "x = self.block(x)", None)
FRAMES = listed(st.builds(TraceFrame, ODD, COUNT, ODD, st.none() | ODD, st.none() | MARKS), 1)
FRAMES = FRAMES.map(lambda inner: (OUTER, *inner)) | FRAMES
TRACES = st.builds(Trace, FRAMES, st.booleans(), st.booleans()).map(build_trace)
KEYS = st.builds(Key, st.none() | ODD, st.none(), st.none() | COUNT) | st.builds(
    Key, st.none(), IDS, st.none() | COUNT
)
PATHS = st.sampled_from(["", "a", "a.b", "a.b.0", "a.d", "layers.0,1", "k(", "u]v"]) | ODD
RANDOM_MODULES = listed(st.builds(Instance, KEYS, PATHS, ODD), 1).map(build_modules)
RANDOM_FUNCTIONS = st.builds(NodeFunction, NAME | ODD, ODD)
PASSES = st.sampled_from(["", "Interpreter_PropagateUnbackedSymInts", "create", "replace"])
RANDOM_ORIGINS = st.recursive(
    st.just(()),
    lambda inner: listed(st.builds(NodeOrigin, NAME, ODD, IDS, PASSES, PASSES, inner)),
    max_leaves=6,
).map(build_origins)
RANDOM_KINDS = {
    "stack_trace": TRACES,
    "nn_module_stack": RANDOM_MODULES,
    "torch_fn": RANDOM_FUNCTIONS.map(build_function),
    "source_fn_stack": listed(RANDOM_FUNCTIONS, 1).map(build_functions),
    "from_node": RANDOM_ORIGINS,
    "custom": st.dictionaries(ODD, COUNT, max_size=2).map(json.dumps),
}
USUAL = st.fixed_dictionaries(RANDOM_KINDS)
RANDOM_METADATA = USUAL | st.fixed_dictionaries(
    {}, optional={**{key: own | ODD for key, own in RANDOM_KINDS.items()}, "ö": ODD}
)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 0) -> Tree:
    """A graph whose nodes may hold graphs."""
    found: list[Tree] = []
    for name in draw(st.lists(NAME, max_size=3, unique=True)):
        held = draw(st.lists(ODD, max_size=2, unique=True)) if depth < 3 and draw(st.booleans()) else []
        inputs: list[Tree] = [{"name": "x", "arg": {"as_tensor": {"name": draw(NAME)}}, "kind": 1}]
        inputs += [{"arg": {"as_graph": {"name": one, "graph": draw(graphs(depth + 1))}}} for one in held]
        known = [node["metadata"] for node in found]
        again: bool = draw(st.booleans())
        metadata = draw(st.sampled_from(known) if known and again else RANDOM_METADATA)
        node = {"target": draw(ODD), "inputs": inputs, "outputs": [], "metadata": metadata}
        found.append({**node, "name": name})
    return {"inputs": [], "outputs": [], "nodes": found}


RANDOM_PROGRAMS = st.dictionaries(
    st.sampled_from(["model", "other", "ä"]), graphs(), min_size=1, max_size=2
).map(lambda found: {name: {"graph_module": {"graph": graph}} for name, graph in found.items()})
"""The JSON of the programs of an archive, by their names."""


def saved(programs: dict[str, Tree]) -> bytes:
    records = [
        new_member(f"models/{name}.json", json.dumps(tree).encode()) for name, tree in programs.items()
    ]
    return written(new_member("archive_format", b"pt2"), *records)


def check_halves(programs: dict[str, Tree], small: bytes, aside: bytes) -> dict[str, list[int]]:
    """Check what is left and what is joined; the columns of the companion."""
    back = io.BytesIO()
    archive.join(small, aside, back)
    with archive.open(small) as left, archive.open(back.getvalue()) as again, archive.open(aside) as alone:
        for name, tree in programs.items():
            record = f"models/{name}.json"
            found = list(nodes(json.loads(bytes(left.records[record].view()))))
            assert all(node["metadata"] == {} for node in found)
            assert [node["name"] for node in found] == [node["name"] for node in nodes(tree)]
            assert bytes(again.records[record].view()) == json.dumps(tree).encode()
        assert alone.companion is not None
        return {name: values.tolist() for name, values in alone.companion.contents.columns.items()}


REACHED: dict[str, Callable[[dict[str, list[int]]], bool]] = {
    "several programs": lambda columns: len(columns["program.name"]) > 1,
    "graphs inside of graphs inside of graphs": lambda columns: max(columns["scope.parent"], default=-1) >= 0,
    "texts that are kept": lambda columns: bool(columns["kept.site"]),
    "several origins of a node": lambda columns: any(
        at >= 0 and columns["origin.next"][at] >= 0 for at in columns["site.origin"]
    ),
    "an origin of several nodes": lambda columns: any(
        columns["site.origin"].count(at) > 1 for at in range(len(columns["origin.base"]))
    ),
    "origins of origins": lambda columns: max(columns["origin.inner"], default=-1) >= 0,
    "marks": lambda columns: max(columns["line.blank"], default=-1) >= 0,
    "calls with a common outer call": lambda columns: (
        len(set(columns["call.outer"]) - {-1}) < len([at for at in columns["call.outer"] if at >= 0])
    ),
    "modules inside of modules": lambda columns: max(columns["inside.outer"], default=-1) >= 0,
    "paths that do not go on from the one before": lambda columns: 1 in columns["instance.whole"],
    "calls that are numbered": lambda columns: max(columns["inside.call"], default=-1) >= 0,
}
"""What the columns of programs can have, and how it is seen there."""


def test_programs_of_random_graphs_are_joined_to_the_byte() -> None:
    reached: set[str] = set()

    @given(programs=RANDOM_PROGRAMS, layout=st.sampled_from(CompanionLayout))
    @settings(patient, max_examples=examples(50))
    def check(programs: dict[str, Tree], layout: CompanionLayout) -> None:
        small, aside = io.BytesIO(), io.BytesIO()
        if not any(node["metadata"] for node in nodes(programs)):
            with pytest.raises(NothingToDoError):
                archive.split(saved(programs), small, aside)
            return
        archive.split(saved(programs), small, aside, drop=["modules"], layout=layout)
        columns = check_halves(programs, small.getvalue(), aside.getvalue())
        text = json.dumps(programs, ensure_ascii=False)
        reached.update(what for what, there in REACHED.items() if there(columns))
        reached.update(odd for odd in ("0,1", "e(f", "g]h", "ß_7", "ä") if odd in text)

    check()
    everything = {*REACHED, "0,1", "e(f", "g]h", "ß_7", "ä"}
    assert reached == everything if Suite.whole else reached <= everything
