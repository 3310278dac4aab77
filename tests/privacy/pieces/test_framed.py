"""Texts are found whatever bytes their lengths are; what only begins like such a form is read as before."""

from __future__ import annotations

import io
import marshal
import pickle
import zipfile
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive import LeakKind, leaks
from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.privacy.pieces.framed import framed, without_heads
from tests.support.framed_bytes import in_cbor, in_msgpack, in_protobuf

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.framed_bytes import Value


def of_record(data: bytes) -> set[tuple[LeakKind, str]]:
    """What a zip gives away by a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), data)
    return {(one.kind, one.text) for one in leaks(file.getvalue()).counted()}


FORMS: dict[str, Callable[[Value], bytes]] = {
    "MessagePack": in_msgpack,
    "CBOR": in_cbor,
    "marshal": marshal.dumps,
    **{f"Protobuf {number}": partial(in_protobuf, number=number) for number in (1, 9, 12, 15)},
}
TEXTS: dict[LeakKind, tuple[str, str]] = {
    LeakKind.HOME: ("/home/zqannxz/", ".py"),
    LeakKind.PATH: ("/srv/zq/", ".py"),
    LeakKind.DRIVE: ("C:\\zq\\", ".py"),
    LeakKind.UNC: ("\\\\zqhost\\zq\\", ".py"),
    LeakKind.URL: ("https://zq.io/", ""),
    LeakKind.EMAIL: ("", "@zq.org"),
}
"""What texts begin and end with."""
KEYS = ["AKIA" + "Q7" * 8, "hf_" + "aBcD" * 8 + "xx", "ghp_" + "a1B2" * 9, "sk-" + "a1B2" * 9]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_found_whatever_its_length_is(kind: LeakKind, form: str) -> None:
    begin, end = TEXTS[kind]
    for size in range(20, 65 if kind is LeakKind.EMAIL else 128, 3):
        text = begin + "m" * (size - len(begin) - len(end)) + end
        assert (kind, text) in of_record(FORMS[form](["first", text, "last"])), size


@pytest.mark.parametrize("form", FORMS)
def test_keys_are_found_after_any_tag(form: str) -> None:
    for key in KEYS:
        assert (LeakKind.KEY, key) in of_record(FORMS[form](["first", key, "last"]))


ENTRIES: Value = [{"author": "Ann Leexz", "user": "zqannxz", "host": "gpu-zq1"}, {"author": "Bob Rayxz"}]
NAMED = {"Ann Leexz", "zqannxz", "gpu-zq1", "Bob Rayxz"}


@pytest.mark.parametrize("form", ["MessagePack", "CBOR", "marshal", "Protobuf 4"])
@pytest.mark.parametrize("around", ["alone", "pickle 0", "pickle 2", "pickle 4"])
def test_entries_of_maps_name_people(form: str, around: str) -> None:
    data = (FORMS | {"Protobuf 4": in_protobuf})[form](ENTRIES)
    whole = data if around == "alone" else pickle.dumps({"a": [1, data]}, int(around[-1]))
    assert {text for _, text in of_record(whole)} == NAMED


VALUES = st.recursive(
    st.text(max_size=40) | st.binary(max_size=40) | st.integers(0, 20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=30), inner, max_size=5),
    max_leaves=12,
)


def texts_in(value: Value) -> set[bytes]:
    """The texts of a value that are cut out."""
    if isinstance(value, dict):
        return {one for pair in value.items() for item in pair for one in texts_in(item)}
    if isinstance(value, list):
        return {one for item in value for one in texts_in(item)}
    return {value.encode()} if isinstance(value, str) and len(value.encode()) >= 6 else set()


@given(
    value=st.lists(VALUES, min_size=1, max_size=4), form=st.sampled_from(["MessagePack", "CBOR", "marshal"])
)
def test_texts_are_those_that_were_written(value: Value, form: str) -> None:
    data = FORMS[form](value)
    found = framed(data)
    wanted = texts_in(value)
    if found is None:
        assert not wanted or b"".join(wanted) in data or data.isascii()
    else:
        assert {data[begin:end] for _, begin, end in found.texts} >= wanted
        cut = without_heads(data, found)
        assert len(cut) == len(data)
        assert all(text in cut for text in wanted)


@pytest.mark.parametrize(
    "data", [b"a/b/c.py\0more\0", b"\x93NUMPY\1\0v\0{'descr': '<f4'}", bytes(range(256)) * 3]
)
def test_other_bytes_are_of_no_form(data: bytes) -> None:
    assert framed(data) is None


@pytest.mark.parametrize("form", FORMS)
def test_bytes_that_break_off_or_go_on_are_of_no_form(form: str) -> None:
    data = FORMS[form](["a text of ten", b"\1\2", "and more\0 of it"])
    with memory.charged(DEFAULT_LIMITS.allowance(len(data))):
        assert framed(data) is not None
        for broken in (data[:-1], data + b"\xfe"):
            found = framed(broken)
            assert found is None or len(broken) > len(data)
