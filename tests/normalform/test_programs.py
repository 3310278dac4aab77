"""The metadata of any programs becomes columns and comes back, text by text."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base import memory
from archive.base.columns import table_of
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.companion.modelling import COUNTED, modelled, restored
from archive.formats.exported.origins import KEYS
from archive.formats.exported.program import Program
from archive.formats.exported.sites import NodeSite, Scope
from archive.normalform.check import check
from archive.normalform.columns import BY_NAME, MOST_MARKED
from archive.normalform.metadata import Metadata
from archive.normalform.pool import Pool
from archive.normalform.programs import ProgramPacker
from archive.reader.collect import collect
from tests.support.exported import EXPORTED, METADATA, texts
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.strings import StringTable
    from archive.normalform.columns import Columns

FIRST = 112
"""Number of the first column of exported programs."""
NAMES = st.sampled_from(["linear", "linear_1", "linear_2", "add_01", "_3", "x_", "mul_99999999999", "ä_7"])


def metadata() -> st.SearchStrategy[dict[str, str]]:
    """Texts of PyTorch's own, and any others."""
    odd = st.text(max_size=8) | st.sampled_from(["[]", "", "a;b", "a,b", 'File "a", line 1, in f'])
    pairs = [st.tuples(st.just(key), st.sampled_from(texts(key) or [""]) | odd) for key in METADATA]
    return st.dictionaries(st.text(max_size=3), st.text(max_size=8), max_size=1).flatmap(
        lambda others: st.lists(st.one_of(pairs), max_size=6).map(lambda own: {**dict(own), **others})
    )


@st.composite
def programs(draw: st.DrawFn) -> list[Program]:
    """Programs of nested graphs."""
    return [_program(draw, name) for name in draw(st.lists(st.text(max_size=3), max_size=3, unique=True))]


def _program(draw: st.DrawFn, name: str) -> Program:
    sites: dict[str, NodeSite] = {}
    graphs: list[tuple[Scope, ...]] = [()]
    for scopes in graphs:
        for node in draw(st.lists(NAMES, max_size=5, unique=True)):
            site = NodeSite(node, draw(NAMES), scopes, (), draw(metadata()))
            if len(graphs) < 5 and draw(st.booleans()):
                graphs.append((*scopes, Scope(node, draw(NAMES))))
            sites[site.key] = site
    return Program(name, "", lambda: sites)


def packed(found: list[Program]) -> tuple[Columns, Pool]:
    pool = Pool()
    packer = ProgramPacker(pool)
    for program in found:
        packer.add(program)
    return packer.columns(), pool


@given(found=programs())
@settings(patient, max_examples=examples(40))
def test_metadata_of_any_programs_comes_back(found: list[Program]) -> None:
    columns, pool = packed(found)
    again = Metadata(columns, pool.table())
    assert list(again.programs) == [program.name for program in found]
    for program in found:
        for row, site in zip(again.programs[program.name], program.sites.values(), strict=True):
            assert list(again.of(row).items()) == list(site.metadata.items())
            assert (again.name(row), again.target(row)) == (site.name, site.target)
            held = [Scope(again.name(holder), name) for holder, name in again.scopes(row)]
            assert tuple(reversed(held)) == site.scopes


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-1, (1 << 63) - 1))))
def test_counted_names_come_back_from_what_packed_companions_store(rows: list[tuple[int, int]]) -> None:
    base, number = COUNTED[0]
    columns: Columns = {base: np.array([row[0] for row in rows], np.int64)}
    columns[number] = np.array([row[1] for row in rows], np.int64)
    kept = modelled(columns, None, np.zeros(0, np.int64))  # type: ignore[arg-type]
    assert restored(kept, None, np.zeros(0, np.int64))[number].tolist() == [row[1] for row in rows]  # type: ignore[arg-type]


def test_names_that_are_counted_are_stored_as_nothing() -> None:
    base, number = COUNTED[0]
    columns: Columns = {base: np.array([0, 1, 0, 0, 1]), number: np.array([-1, -1, 1, 2, 1])}
    kept = modelled(columns, None, np.zeros(0, np.int64))  # type: ignore[arg-type]
    assert kept[number].tolist() == [0, 0, 1, 0, 1]


def site(texts_of: Mapping[str, str]) -> Program:
    return Program("model", "", lambda: {"a": NodeSite("a", "f", (), (), texts_of)})


@pytest.mark.parametrize(
    "text",
    [
        'File "a", line 1, in f\n    x\n    ' + " " * MOST_MARKED + "^",
        json.dumps([dict(zip(KEYS, ("a", "b", 1 << 63, "", "", []), strict=True))]),
        "[]",
    ],
)
def test_what_columns_cannot_hold_is_kept_as_it_stands(text: str) -> None:
    key = "from_node" if text.startswith("[") else "stack_trace"
    columns, pool = packed([site({key: text})])
    assert len(columns["kept.site"]) == 1
    assert Metadata(columns, pool.table()).of(0) == {key: text}


def test_texts_that_share_rows_cost_what_they_take() -> None:
    """A list of origins whose rows are shared over and over is a text of 2 ** 60 origins."""
    origins = 'a", "target": "b", "graph_id": 1, "pass_name": "", "action": "", "from_node": '
    columns, pool = packed([site({"from_node": f'[{{"name": "{origins}[]}}]'})])
    rows = 60
    columns |= {
        name: np.repeat(values, rows) for name, values in columns.items() if name.startswith("origin.")
    }
    columns["origin.inner"] = columns["origin.next"] = np.arange(rows) - 1
    columns["site.origin"] = np.array([rows - 1])
    with pytest.raises(LimitError, match="metadata"), memory.charged(Limits().allowance(1000)):
        Metadata(columns, pool.table()).of(0)


def test_classes_that_modules_share_cost_what_they_take() -> None:
    columns, pool = packed([site({"nn_module_stack": f"L__self__,,{'A' * 10_000}"})])
    rows = 60
    columns |= {
        name: np.repeat(values, rows) for name, values in columns.items() if name.startswith("inside.")
    }
    columns["inside.outer"] = np.arange(rows) - 1
    columns["site.inside"] = np.array([rows - 1])
    with pytest.raises(LimitError, match="metadata"), memory.charged(Limits(memory=200_000).allowance(0)):
        Metadata(columns, pool.table()).of(0)


def test_a_string_that_is_no_text_is_told() -> None:
    columns, pool = packed([site({"stack_trace": "no trace"})])
    strings = [b"no \xff" if one == b"no trace" else one for one in pool.strings()]
    with pytest.raises(ArchiveError, match=r"string \d, byte 3: expected UTF-8, found other bytes"):
        Metadata(columns, table_of(strings)).of(0)


def test_a_text_that_is_missing_is_told() -> None:
    columns, pool = packed([site({"stack_trace": "no trace"})])
    columns |= {name: values[:0] for name, values in columns.items() if name.startswith("kept.")}
    with pytest.raises(ArchiveError, match=r"site\.keys, row 0: expected a text for 'stack_trace'"):
        Metadata(columns, pool.table()).of(0)


@cache
def known(name: str) -> tuple[Columns, StringTable]:
    """The columns of a fixture, and its strings."""
    with archive.open(EXPORTED / name) as opened:
        contents = collect(opened)
    return contents.columns, contents.strings


@given(
    data=st.data(), name=st.sampled_from(["choice_strict.pt2", "shop_strict_decomposed.pt2", "several.pt2"])
)
@settings(patient, max_examples=examples(150))
def test_changed_columns_are_refused_or_give_texts(data: st.DataObject, name: str) -> None:
    columns, strings = known(name)
    columns = dict(columns)
    own = sorted(one for one, values in columns.items() if BY_NAME[one].number >= FIRST and len(values))
    for column in data.draw(st.lists(st.sampled_from(own), min_size=1, max_size=3, unique=True)):
        values = columns[column].copy()
        at = data.draw(st.integers(0, len(values) - 1))
        values[at] = data.draw(st.integers(-2, len(values)) | st.integers(-(1 << 63), (1 << 63) - 1))
        columns[column] = data.draw(st.sampled_from([values, values[:at]]))
    with memory.charged(Limits().allowance(1 << 16)), suppress(ArchiveError):
        check(columns, len(strings))
        metadata = Metadata(columns, strings)
        for rows in metadata.programs.values():
            for row in rows:
                metadata.of(row)
                list(metadata.scopes(row))
                assert metadata.name(row) + metadata.target(row)
