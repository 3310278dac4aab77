"""Programs of random graphs and metadata are split and joined to the byte."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base.errors import NothingToDoError
from archive.companion.layout import CompanionProfile
from archive.container.container import new_member
from archive.formats.exported.modules import Instance, Key, build_modules
from archive.formats.exported.node_metadata import NodeFunction, build_function, build_functions
from archive.formats.exported.origins import NodeOrigin, build_origins
from archive.formats.exported.traces import FrameMark, Trace, TraceFrame, build_trace
from tests.support.exported import nodes
from tests.support.sampling import Suite, examples
from tests.support.strategies import patient
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Callable

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
MODULES = listed(st.builds(Instance, KEYS, PATHS, ODD), 1).map(build_modules)
FUNCTIONS = st.builds(NodeFunction, NAME | ODD, ODD)
PASSES = st.sampled_from(["", "Interpreter_PropagateUnbackedSymInts", "create", "replace"])
ORIGINS = st.recursive(
    st.just(()),
    lambda inner: listed(st.builds(NodeOrigin, NAME, ODD, IDS, PASSES, PASSES, inner)),
    max_leaves=6,
).map(build_origins)
KINDS = {
    "stack_trace": TRACES,
    "nn_module_stack": MODULES,
    "torch_fn": FUNCTIONS.map(build_function),
    "source_fn_stack": listed(FUNCTIONS, 1).map(build_functions),
    "from_node": ORIGINS,
    "custom": st.dictionaries(ODD, COUNT, max_size=2).map(json.dumps),
}
USUAL = st.fixed_dictionaries(KINDS)
METADATA = USUAL | st.fixed_dictionaries(
    {}, optional={**{key: own | ODD for key, own in KINDS.items()}, "ö": ODD}
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
        metadata = draw(st.sampled_from(known) if known and again else METADATA)
        node = {"target": draw(ODD), "inputs": inputs, "outputs": [], "metadata": metadata}
        found.append({**node, "name": name})
    return {"inputs": [], "outputs": [], "nodes": found}


PROGRAMS = st.dictionaries(st.sampled_from(["model", "other", "ä"]), graphs(), min_size=1, max_size=2).map(
    lambda found: {name: {"graph_module": {"graph": graph}} for name, graph in found.items()}
)
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

    @given(programs=PROGRAMS, profile=st.sampled_from(CompanionProfile))
    @settings(patient, max_examples=examples(80))
    def check(programs: dict[str, Tree], profile: CompanionProfile) -> None:
        small, aside = io.BytesIO(), io.BytesIO()
        if not any(node["metadata"] for node in nodes(programs)):
            with pytest.raises(NothingToDoError):
                archive.split(saved(programs), small, aside)
            return
        archive.split(saved(programs), small, aside, drop=["modules"], profile=profile)
        columns = check_halves(programs, small.getvalue(), aside.getvalue())
        text = json.dumps(programs, ensure_ascii=False)
        reached.update(what for what, there in REACHED.items() if there(columns))
        reached.update(odd for odd in ("0,1", "e(f", "g]h", "ß_7", "ä") if odd in text)

    check()
    everything = {*REACHED, "0,1", "e(f", "g]h", "ß_7", "ä"}
    assert reached == everything if Suite.whole else reached <= everything
