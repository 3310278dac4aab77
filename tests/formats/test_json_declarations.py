"""JSON is declared once: what fits is taken as it is, and the first part that does not has its path."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.formats.compiled.kernels import KERNEL_MAP
from archive.formats.etrecord import DELEGATE_MAP, LARGEST
from archive.formats.exported.schema import NAMED
from archive.formats.schema.json import (
    DictOf,
    Fault,
    JsonClass,
    JsonUnion,
    ListOf,
    Matching,
    Nullable,
    OneOrMore,
    Type,
    UpTo,
    checked,
    mismatches,
    tree,
)

NAMES = st.text("abc", min_size=1, max_size=3)
PLAIN: dict[Type, st.SearchStrategy[Any]] = {
    "str": st.text(max_size=3),
    "int": st.integers(),
    "bool": st.booleans(),
    "float": st.floats(allow_nan=False) | st.sampled_from(["Infinity", "-Infinity", "NaN"]),
    UpTo(7): st.integers(0, 7),
    Matching(re.compile("a+"), "a row of a"): st.text("a", min_size=1),
}
MADE = ("list", "dict", "null", "more", "class", "union")
Drawn = tuple[Type, Any, str]
"""A type, a value of it, and the path to a plain part of the value."""


@st.composite
def drawn(draw: st.DrawFn, depth: int = 3) -> Drawn:
    kind = draw(st.sampled_from(["plain", *MADE] if depth else ["plain"]))
    if kind == "plain":
        plain = draw(st.sampled_from(list(PLAIN)))
        return plain, draw(PLAIN[plain]), ""
    inner, value, path = draw(drawn(depth - 1))
    name = draw(NAMES)
    if kind == "list":
        return ListOf(inner), [value, value], f"[0]{path}"
    if kind == "dict":
        return DictOf(inner), {name: value}, f".{name}{path}"
    if kind == "null":
        return Nullable(inner), value, path
    if kind == "more":
        return (ListOf if path else OneOrMore)(inner), [value], f"[0]{path}"
    if kind == "class":
        return JsonClass({name: inner}, {f"{name}z": "int"}), {name: value}, f".{name}{path}"
    return JsonUnion({name: inner, f"{name}z": "int"}), {name: value}, f".{name}{path}"


def replaced(value: Any, path: str) -> Any:  # noqa: ANN401 (any JSON)
    """The value with an object in the place of a plain part."""
    step = re.match(r"\.([abc]+)|\[0\]", path)
    if step is None:
        return {}
    rest = path[step.end() :]
    if isinstance(value, list):
        return [replaced(value[0], rest), *value[1:]]
    return {step[1]: replaced(value[step[1]], rest)}


@given(drawn())
def test_a_value_of_a_type_is_taken_and_another_one_is_refused_with_its_path(example: Drawn) -> None:
    kind, value, path = example
    assert checked(value, kind) is value
    assert checked([value], ListOf("it"), {"it": kind}) == [value]
    with pytest.raises(ArchiveError) as refused:
        checked(replaced(value, path), kind)
    place = path.removeprefix(".")
    assert str(refused.value).startswith(f"{place}: expected " if place else "expected ")


@given(drawn())
def test_each_field_has_a_line_in_the_tree_of_its_type(example: Drawn) -> None:
    kind, _, path = example
    fields = len(re.findall(r"  \w+: ", "\n".join(tree(kind))))
    objects = str(kind).count("JsonClass(") + str(kind).count("JsonUnion(")
    assert fields == 2 * objects
    assert len(re.findall(r"\w+", path)) >= objects


def test_all_that_is_wrong_is_found_in_the_order_of_the_declaration() -> None:
    point = JsonClass({"x": "int", "y": "int"}, {"label": "str"})
    found = mismatches({"label": 1, "x": "1"}, point)
    assert [(one.place, one.fault, one.step) for one in found] == [
        ("x", Fault.KIND, "x"),
        ("", Fault.FIELD, None),
        ("label", Fault.KIND, "label"),
    ]


def test_declarations_of_records_are_trees_with_docs() -> None:
    handles = f"0 to {LARGEST} or [0 to {LARGEST}]"
    assert tree(DELEGATE_MAP) == [
        "{str: {the number of an instruction: object}}",
        "  name: str    of the backend",
        f"  delegate_map: {{str: {handles}}} or null, or left out    the handles of each event that it logs",
    ]
    assert tree(KERNEL_MAP)[0] == "{a kernel's name and its handle: object}"
    program = tree("ExportedProgram", NAMED)
    assert sum("graph: Graph" in line for line in program) > 1
    assert sum(line.strip().startswith("nodes: [Node]") for line in program) == 1
