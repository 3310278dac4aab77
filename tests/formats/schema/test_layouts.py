"""Every binary layout: its compiled reader agrees with construct's own, and says where bytes are wrong."""

from __future__ import annotations

import importlib
import pkgutil
import struct
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import pytest
from construct import Bytes, Int32ul, Int64ul, Struct
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from archive.formats.elf.headers import headers_of
from archive.formats.schema import words
from archive.formats.schema.binary import Reader, build, parse
from archive.formats.schema.fixed import Layout
from archive.io.ranged import RangedBytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.schema.fixed import FixedField

NEED_OTHERS = ("archive.backend", "archive.effects", "archive.app.model_explorer.main")


def modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(archive.__path__, "archive.", onerror=lambda _: None):
        if not module.name.startswith((*NEED_OTHERS, "archive.__main__")):
            yield module.name


def layouts() -> dict[str, Layout]:
    """Those in the globals of modules, and those that a width and a byte order make of one declaration."""
    found = {}
    for name in modules():
        module = importlib.import_module(name)
        for value in list(vars(module).values()):
            own = type(value).__module__ == name and hasattr(value, "__dict__")
            for one in (value, *(vars(value).values() if own else ())):
                if isinstance(one, Layout):
                    found[f"{name.removeprefix('archive.')}: {one.what} {one.order}"] = one
    for bits, order in product((32, 64), "<>"):
        for layout in headers_of(bits, order):
            found[f"ELF of {bits} bits: {layout.what} {order}"] = layout
    return found


LAYOUTS = layouts()
BOUNDS: dict[str, Literal[16, 32, 64]] = {"e": 16, "f": 32, "d": 64}


def value_of(field: FixedField) -> st.SearchStrategy[Any]:
    if field.form.endswith("s"):
        return st.binary(min_size=field.size, max_size=field.size)
    if field.form in BOUNDS:
        return st.floats(width=BOUNDS[field.form], allow_nan=False)
    if field.form == "?":
        return st.booleans()
    bits = 8 * field.size
    low = -(1 << bits - 1) if field.form.islower() else 0
    return st.integers(low, low + (1 << bits) - 1)


def rows_of(layout: Layout) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({f.name: value_of(f) for f in layout.fields if f.constant is None})


def test_the_package_has_layouts() -> None:
    assert {"container.headers: local header <", "container.headers: end record <"} <= LAYOUTS.keys()
    assert len(LAYOUTS) > 8


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_what_is_built_is_read_as_construct_reads_it(layout: Layout) -> None:
    @given(st.lists(rows_of(layout), min_size=1, max_size=3), st.binary(max_size=5))
    def check(rows: list[dict[str, Any]], around: bytes) -> None:
        data = b"".join(layout.build(**row) for row in rows)
        assert data == b"".join(map(layout.declared.construct().build, rows))
        assert layout.size == layout.declared.construct().sizeof() == len(data) // len(rows)
        placed = around + data + around
        for number, row in enumerate(rows):
            at = len(around) + number * layout.size
            found = layout.read(placed, at)
            assert found._asdict() == row
            assert layout.pack(found) == placed[at : at + layout.size]
            told = parse(layout.declared.construct(), placed, at)
            assert {name: told[name] for name in row} == row
        assert [one._asdict() for one in layout.read_all(data)] == rows
        columns = layout.columns(data + around[: layout.size - 1])
        assert len(columns) == len(rows)
        for name in rows[0]:
            assert columns[name].tolist() == [row[name] for row in rows]

    check()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_truncated_and_random_bytes_end_in_one_error_with_the_field(layout: Layout) -> None:
    @given(rows_of(layout), st.binary(min_size=layout.size, max_size=layout.size), st.data())
    def check(row: dict[str, Any], other: bytes, draw: st.DataObject) -> None:
        data = layout.build(**row)
        length = draw.draw(st.integers(0, layout.size - 1))
        with pytest.raises(ArchiveError) as caught:
            layout.read(data[:length])
        last = next(field for field in layout.fields if field.offset + field.size > length)
        assert caught.value.place == f"byte 0, field {last.name}"
        with pytest.raises(ArchiveError, match=f"field {last.name}"):
            parse(layout.declared.construct(), data[:length])
        if other.startswith(layout.magic):
            assert layout.pack(layout.read(other)) == other
            return
        with pytest.raises(ArchiveError, match=f"byte 0, field {layout.fields[0].name}: expected a "):
            layout.read(other)

    check()


def test_a_stop_before_the_end_of_the_data_ends_a_header() -> None:
    layout = Layout("pair" / words.Struct("first" / words.Int16ul, "second" / words.Int16ul))
    assert layout.read(b"\1\0\2\0\3\0", 2, 6) == (2, 3)
    with pytest.raises(ArchiveError, match="byte 2, field second: expected a pair of 4 bytes, found 3 bytes"):
        layout.read(b"\1\0\2\0\3\0", 2, 5)
    with pytest.raises(ArchiveError, match=r"byte 9, field first: .* found 0 bytes"):
        layout.read(b"\1\0", 9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["a" / words.VarInt], "field a: VarInt has no fixed size"),
        (["a" / words.Int16ul, "b" / words.Const(b"x")], "field b: constants come first"),
    ],
)
def test_what_has_no_fixed_size_is_no_layout(fields: list[Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        _ = Layout("thing" / words.Struct(*fields)).fields


def test_a_layout_has_one_byte_order() -> None:
    with pytest.raises(TypeError, match="thing: numbers of both byte orders"):
        _ = Layout("thing" / words.Struct("a" / words.Int16ul, "b" / words.FormatField(words.BIG, "H"))).size


def test_what_has_no_fixed_size_is_constructs_own() -> None:
    text = Struct("length" / Int32ul, "text" / Bytes(lambda this: this.length))
    data = build(text, {"length": 3, "text": b"abc"})
    assert data == struct.pack("<I3s", 3, b"abc")
    assert parse(text, b"--" + data, 2).text == b"abc"
    with pytest.raises(ArchiveError, match="byte 4, field text: expected more bytes, found the end"):
        parse(text, data[:6])
    with pytest.raises(ArchiveError, match="field length"):
        build(text, {"length": -1, "text": b""})


def test_nothing_is_copied_of_bytes_that_are_not_all_there() -> None:
    claimed = Struct("length" / Int64ul, "data" / Bytes(lambda this: this.length))
    with pytest.raises(ArchiveError, match=r"byte 8, field data: expected more bytes, found the end"):
        parse(claimed, b"\xff" * 7 + b"\x7f" + b"few")
    reader = Reader(b"few")
    assert reader.read(4) == b""
    assert (reader.read(2), reader.read()) == (b"fe", b"w")


def test_bytes_that_cannot_be_fetched_are_not_the_end_of_the_data() -> None:
    def fetch(start: int, stop: int) -> bytes:
        raise ConnectionError(f"bytes {start} to {stop}")

    with pytest.raises(ConnectionError, match="bytes 0 to 4"):
        parse("number" / Int32ul, RangedBytes(fetch, 4))


def test_a_header_is_built_of_all_its_fields_and_no_others() -> None:
    layout = Layout("pair" / words.Struct("first" / words.Int16ul, "second" / words.Int16ul))
    with pytest.raises(KeyError, match="second"):
        layout.build(first=1)
    with pytest.raises(TypeError, match=r"pair: \['third'\] aren't its fields"):
        layout.build(first=1, second=2, third=3)
