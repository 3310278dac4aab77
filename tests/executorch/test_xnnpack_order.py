"""XNNPACK's notes have the node of their kind and order, or none."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from archive import profile_etdump
from archive.formats.executorch.xnnpack import KINDS, XnnpackNode
from archive.reader.runtime.xnnpack_order import WORDS, handles_of_notes
from tests.support.commands import called
from tests.support.etdumps import dump
from tests.support.executorch import program_file
from tests.support.exported import record

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES = st.lists(st.sampled_from(sorted(WORDS)), max_size=12).map(
    lambda kinds: [XnnpackNode(kind, number) for number, kind in enumerate(kinds, 1)]
)


def noted(nodes: Sequence[XnnpackNode]) -> list[str]:
    """What XNNPACK notes of some nodes."""
    seen, notes = Counter[str](), list[str]()
    for node in nodes:
        word = WORDS[node.kind]
        seen[word] += 1
        notes.append(f"{word} (NC, F32) #{seen[word]}")
    return notes


def counted_as(node: XnnpackNode) -> str:
    """What kinds that are counted together have in common."""
    return WORDS[node.kind].replace("Fully Connected", "Convolution")


def test_kinds_are_those_of_the_schema() -> None:
    assert WORDS.keys() < {*KINDS}


@given(NODES)
def test_each_note_has_its_node(nodes: list[XnnpackNode]) -> None:
    found = handles_of_notes(noted(nodes), nodes)
    assert [*found.items()] == [(note, node.handle) for note, node in zip(noted(nodes), nodes, strict=True)]


@given(NODES, st.data())
def test_a_kind_that_was_merged_has_no_node_and_others_keep_theirs(
    nodes: list[XnnpackNode], data: st.DataObject
) -> None:
    left = [node for node in nodes if data.draw(st.booleans())]
    counts = Counter(map(counted_as, nodes)), Counter(map(counted_as, left))
    expected = {
        note: node.handle
        for note, node in zip(noted(left), left, strict=True)
        if counts[0][counted_as(node)] == counts[1][counted_as(node)]
    }
    assert handles_of_notes(noted(left), nodes) == expected


@given(NODES, st.randoms())
def test_in_another_order_nothing_is_matched(nodes: list[XnnpackNode], chance: object) -> None:
    """Unless the kinds are in the same order: then nothing has changed."""
    other = [*nodes]
    chance.shuffle(other)  # type: ignore[attr-defined]  # hypothesis has no name for it
    found = handles_of_notes(noted(other), nodes)
    is_same = [WORDS[node.kind] for node in other] == [WORDS[node.kind] for node in nodes]
    assert bool(found) == (is_same and bool(nodes))


def test_notes_that_cannot_be_told_apart_have_no_node() -> None:
    nodes = [XnnpackNode("Add", 1), XnnpackNode("Add", 2)]
    assert handles_of_notes(["Add (ND) #1", "Add (ND) #2"], nodes) == {"Add (ND) #1": 1, "Add (ND) #2": 2}
    assert handles_of_notes(["Add (ND)", "Add (ND)"], nodes) == {}


def test_a_convolution_may_run_as_a_product_and_not_the_other_way() -> None:
    nodes = [XnnpackNode("Conv2d", 1), XnnpackNode("DepthwiseConv2d", 2), XnnpackNode("Conv2d", 3)]
    notes = ["Convolution (NHWC, F32) IGEMM #1", "Convolution (NHWC, F32) DWConv #1"]
    notes.append("Fully Connected (NC, F32) GEMM #1")
    assert [*handles_of_notes(notes, nodes).values()] == [1, 2, 3]
    assert handles_of_notes([notes[0], notes[2], notes[1]], nodes) == {}
    assert handles_of_notes(notes[:1], [XnnpackNode("FullyConnected", 1)]) == {}


def test_copies_beside_concatenations_have_no_node() -> None:
    nodes = [XnnpackNode("Concatenate2", 1), XnnpackNode("Copy", 2), XnnpackNode("Sin", 3)]
    assert handles_of_notes(["Copy (NC, X32) #1", "Sine (NC) #1"], nodes) == {"Sine (NC) #1": 3}


def test_what_xnnpack_added_has_no_node() -> None:
    nodes = [XnnpackNode("StaticTranspose", None), XnnpackNode("Conv2d", 4)]
    assert handles_of_notes(noted(nodes), nodes) == {"Convolution (NC, F32) #1": 4}


def test_a_profile_places_notes_at_the_lines_of_their_nodes() -> None:
    files = dump("quantised"), record("quantised")
    without, profile = profile_etdump(*files), profile_etdump(*files, program=program_file("quantised"))
    assert (without.inferred, profile.inferred) == (0, 14)
    lines = {row["name"].partition(":")[2]: row["calls"] for row in profile.facts()["line"]}
    assert lines == {"15": 12, "28": 4, "29": 6, "29, 30": 2, "30": 4}
    assert sum(row["self_ns"] for row in profile.facts()["line"]) == without.total_ns
    command = called("profile", files[0], "-c", files[1], "--program", program_file("quantised"), "--json")
    assert '"inferred": 14' in command.stdout
    assert "inferred: 14 notes of XNNPACK" in command.stderr
