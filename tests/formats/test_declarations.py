"""A record's declaration describes itself: its text is the layout that a reader of the specification sees."""

from __future__ import annotations

from archive.debuginfo.model import Generation, RangeLayout
from archive.formats.callstack_map import CALLSTACK_SCHEMAS
from archive.formats.method_handles import METHOD_SCHEMAS
from archive.formats.schema import Memo, String
from archive.formats.source_ranges import RANGE_SCHEMAS

SOURCE = "shared (text: str, filename: str or None, starting_line: int)"
RANGE = f"(source: {SOURCE}, start: int, end: int)"
PIECED = RANGE.replace("text: str, filename: str or None", "text: [int, ...], filename: int")
MODULE = "shared (type: str, instance: str) or None"
LAYOUTS = {
    RangeLayout.PAIR: f"((offset: int, range: {RANGE}), ...)",
    RangeLayout.TAG_FIRST: f"((offset: int, tag: int, range: {RANGE}), ...)",
    RangeLayout.INLINE: f"((offset: int, range: {RANGE}, tag: int), ...)",
    RangeLayout.STRING_TABLE: '(marker: "FORMAT_WITH_STRING_TABLE", table: (str, ...), rows: '
    f"((offset: int, range: {PIECED}, tag: int), ...))",
    RangeLayout.EMPTY: f"((offset: int, range: {RANGE}, tag: int), ...)",
}
LINK = f"(module: {MODULE}, tag: int, inner: the next or None"
GENERATIONS = {
    Generation.CALLSTACK_3: f"((handle: int, tag: int, stack: chain by inner of {LINK}) or None), ...)",
    Generation.CALLSTACK_4: "((handle: int, tag: int, op: str, stack: chain by inner of "
    f"{LINK}, function: str) or None), ...)",
    Generation.METHOD_HANDLES: '(int, (method: str, table: (entry: (key: "function_debug_handles", '
    "value: (handles: [int, ...],)),)), ...)",
    Generation.MODULE_PATHS: '(int, (method: str, table: (entry: (key: "module_debug_info", '
    "value: (str, ...)),)), ...)",
}


def test_layouts_of_source_ranges_describe_themselves() -> None:
    assert {layout: str(schema) for layout, schema in RANGE_SCHEMAS.items()} == LAYOUTS


def test_call_stack_maps_and_methods_describe_themselves() -> None:
    schemas = CALLSTACK_SCHEMAS | METHOD_SCHEMAS
    assert {generation: str(schema) for generation, schema in schemas.items()} == GENERATIONS


def test_a_memo_entry_of_its_own_is_not_told() -> None:
    assert str(Memo(String())) == "str"
