"""The page of all fields, made from the declarations: ``docs/reference/fields.md``.

python -m tools.fields
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from construct import Array, Construct, FormatField, Renamed
from construct import Bytes as BytesField

from archive.base.errors import counted
from archive.formats.elf.headers import headers_of
from archive.formats.schema import flatbuffer, json, pickled, protobuf
from archive.formats.schema.bounded import AtMost, CompiledRow, Text
from archive.formats.schema.fixed import FixedField, Layout
from archive.formats.schema.pickled import described
from archive.formats.schema.varints import VariableLayout
from archive.formats.schema.words import LITTLE
from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

PAGE = ROOT / "docs" / "reference" / "fields.md"
ROOMS = ("container", "formats", "companion", "store")
"""The rooms whose modules declare formats, in the order of the page."""
HEAD = """\
# Formats, field by field

`python -m tools.fields` makes this page from the declarations, and a test compares it. [What it
reads](formats.md) has the releases. The docstring of each module says what fields don't: who writes them, and
what follows what.
"""
PICKLED = (pickled.Tuple, pickled.Sequence, pickled.Memo, pickled.Keyed, pickled.Chain)
NUMBERS = {"B": "u8", "b": "s8", "H": "u16", "h": "s16", "L": "u32", "l": "s32", "Q": "u64", "q": "s64"}
NUMBERS |= {"e": "f16", "f": "f32", "d": "f64", "?": "bool"}
NAMES = {
    "VarInt": "varint",
    "ZigZag": "zigzag varint",
    "Switch": "by the type",
    "TellClass": "place",
    "PassedArray": "array",
}
"""Constructs by their classes."""
WIRE = {
    protobuf.INT64: "int64",
    protobuf.UINT64: "uint64",
    protobuf.FLOAT: "float",
    protobuf.DOUBLE: "double",
    protobuf.STRING: "string",
    protobuf.BYTES_OF_TEXT: "bytes",
    protobuf.BYTES: "bytes",
}
ROLE = re.compile(r":(?:mod|class|func|data|meth):`~?(?:[\w.]+\.)?(\w+)`")


def page() -> str:
    """The page."""
    parts = [part for module in modules() for part in _module(module)]
    return "\n".join([HEAD, *parts])


def modules() -> Iterator[ModuleType]:
    """The modules of all rooms, in the page's order."""
    for room in ROOMS:
        inside = importlib.import_module(f"archive.{room}")
        yield inside
        for found in pkgutil.walk_packages(inside.__path__, f"archive.{room}."):
            yield importlib.import_module(found.name)


def _module(module: ModuleType) -> Iterator[str]:
    """The parts of a module that declares something."""
    values = dict(declared(module))
    inside = _parts_of_others({name: one for name, one in values.items() if isinstance(one, PICKLED)})
    parts = dict.fromkeys(shown(value, name) for name, value in values.items() if name not in inside)
    if any(parts):
        yield f"## {module.__name__.removeprefix('archive.')}\n"
        yield from filter(None, parts)


def _parts_of_others(schemas: dict[str, Any]) -> set[str]:
    """The names of pickled declarations whose fields stand in those of another one, which shows them."""
    fields = {
        name: "".join(f"{line.strip()}\n" for line in described.tree(one)[1:])
        for name, one in schemas.items()
    }
    order = [*fields]
    return {
        name
        for at, name in enumerate(order)
        for other in order
        if name != other
        and fields[name] in fields[other]
        and (fields[name] != fields[other] or order.index(other) < at)
    }


def declared(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What the public names that a module assigns stand for, in its order.

    The values of a dict follow it, and so do the attributes of an object whose class is the module's own.
    """
    for statement in ast.parse(Path(str(module.__file__)).read_text("utf-8")).body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        for name in names:
            value = getattr(module, name, None)
            if not name.startswith("_"):
                yield name, value
                if isinstance(value, dict):
                    yield from ((str(one), item) for one, item in value.items())
                if type(value).__module__ == module.__name__ and hasattr(value, "__dict__"):
                    yield from vars(value).items()
    if module.__name__ == headers_of.__module__:
        yield from ((layout.what, layout) for layout in headers_of(64, LITTLE))


@singledispatch
def shown(value: object, name: str) -> str:  # noqa: ARG001 (of what isn't a declaration)
    """The part of the page that shows a declaration; nothing of anything else."""
    return ""


@shown.register
def _(value: Layout, name: str) -> str:  # noqa: ARG001 (a layout has a name)
    rows = [(str(field.offset), str(field.size), field.name, _fixed(field)) for field in value.fields]
    return f"### {value.what}: {counted(value.size, 'byte')}\n\n" + _table(
        ("offset", "size", "field", ""), rows
    )


def _fixed(field: FixedField) -> str:
    constant = "" if field.constant is None else f"always `{field.constant!r}`"
    return "; ".join(filter(None, (constant, field.docs)))


@shown.register
def _(value: VariableLayout | CompiledRow, name: str) -> str:  # noqa: ARG001 (the same)
    made = value.declared.construct() if isinstance(value, VariableLayout) else value.declared
    rows = [(part.name, type_of(part), part.docs) for part in made.subcon.subcons]
    return f"### {value.what}\n\n" + _table(("field", "type", ""), rows)


def type_of(item: Construct) -> str:
    """The type of a field in few words."""
    while isinstance(item, Renamed | AtMost):
        item = item.subcon
    if isinstance(item, FormatField):
        return NUMBERS[item.fmtstr[1:]]
    if isinstance(item, BytesField):
        return f"{item.length} bytes"
    if isinstance(item, Text):
        return f"{type_of(item.length)}, text"
    if isinstance(item, Array):
        return f"{type_of(item.subcon)} each"
    return NAMES.get(type(item).__name__, type(item).__name__)


@shown.register
def _(value: flatbuffer.Table, name: str) -> str:  # noqa: ARG001 (the same)
    rows = [(str(f.number), key, flatbuffer.words(f.item), f.docs) for key, f in value.fields.items()]
    return f"### {value.name}\n\n" + _table(("number", "field", "type", ""), rows)


@shown.register
def _(value: protobuf.Message, name: str) -> str:  # noqa: ARG001 (the same)
    rows = [
        (str(number), key, f"{_of_message(field.value)}{', repeated' * field.repeated}", value.docs_of[key])
        for number, (key, field) in value.fields.items()
    ]
    return f"### {value.name}\n\n" + _table(("number", "field", "type", ""), rows)


def _of_message(item: Construct) -> str:
    """The type of a message's field."""
    if isinstance(item, protobuf.Message):
        return str(item.name)
    return WIRE[item]


@shown.register
def _(value: json.JsonClass | json.JsonUnion | json.ListOf | json.DictOf, name: str) -> str:
    return f"### {name}\n\n" + _tree(json.tree(value))


@shown.register
def _(
    value: pickled.Tuple | pickled.Sequence | pickled.Memo | pickled.Keyed | pickled.Chain, name: str
) -> str:
    return f"### {name}\n\n" + _tree(described.tree(value))


def _tree(lines: list[str]) -> str:
    return "\n".join(["```text", *lines, "```\n"])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(map(_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return ROLE.sub(r"`\1`", text).replace("``", "`").replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
