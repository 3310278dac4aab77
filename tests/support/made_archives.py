"""Hypothesis strategies: whole archives with debug records of any content, as PyTorch would write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from archive.container.container import new_member
from archive.debuginfo.model import Generation, RangeLayout
from archive.formats.callstack_map import build_callstack_map
from archive.formats.method_handles import build_methods
from archive.formats.source_ranges import build_source_ranges
from tests.support.corpus import CALLSTACKS, DELEGATED, HANDLES, PATHS
from tests.support.plain import CONSTANTS
from tests.support.strategies import handle_tables, method_tables, range_tables, texts
from tests.support.tampering import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

LAYOUTS = [layout for layout in RangeLayout if layout is not RangeLayout.EMPTY]
UNPIECED = [layout for layout in LAYOUTS if layout is not RangeLayout.STRING_TABLE]
"""The layouts whose records PyTorch's rules always give again: texts have no pieces there."""
STACKS = [None, Generation.CALLSTACK_3, Generation.CALLSTACK_4]


class Made(NamedTuple):
    """An archive, and the debug records in it by name."""

    data: bytes
    debug: dict[str, bytes]


@st.composite
def archives(draw: DrawFn, layouts: Sequence[RangeLayout] = LAYOUTS) -> Made:
    """An archive with at least one debug record."""
    ranges = st.sampled_from(layouts).flatmap(range_tables).map(lambda table: build_source_ranges(table, 0))
    names = draw(st.lists(st.sampled_from(["a", "b/é", "___torch_mangle_7"]), max_size=3, unique=True))
    code = {f"code/{name}.py": draw(texts) for name in names if draw(st.booleans())}
    debug = {f"code/{name}.py.debug_pkl": draw(ranges) for name in names}
    if draw(st.booleans()):
        debug[DELEGATED] = draw(ranges)
    generation = draw(st.sampled_from(STACKS))
    if generation is not None:
        functions = generation is Generation.CALLSTACK_4
        debug[CALLSTACKS] = build_callstack_map(draw(handle_tables(functions=functions)), generation)
    if draw(st.booleans()):
        debug[PATHS] = build_methods(draw(method_tables(paths=True)))
    if not debug or draw(st.booleans()):
        debug[HANDLES] = build_methods(draw(method_tables(paths=False)))
    records = {**code, **debug, CONSTANTS.name: bytes(CONSTANTS.data), "version": b"3\n"}
    order = draw(st.permutations(list(records)))
    return Made(
        packed(new_member(name, records[name]) for name in order), {n: debug[n] for n in order if n in debug}
    )
