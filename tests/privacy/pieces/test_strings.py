"""Strings are found in columns as a plain reader finds them, with their places, in each encoding."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive import LeakKind, leaks
from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.container.container import Container
from archive.privacy.pieces import layers as layers_of_strings
from archive.privacy.pieces.encoded import IN_LATIN, TENSORS, WAYS
from archive.privacy.pieces.layers import SpanLayer
from archive.privacy.pieces.pickle_strings import _of_python, _of_torch, of_pickle
from archive.privacy.pieces.piece import JsonPlaces
from archive.privacy.pieces.strings import PieceStrings, layers
from tests.support.canaries import with_records
from tests.support.corpus import ORACLES, RELEASES
from tests.support.encodings import ENCODINGS
from tests.support.sampling import crossed, examples
from tests.support.slow_reader import instructions

TEXTS = ("BINUNICODE", "BINUNICODE8")
SHORTEST = 10
WORDS = st.sampled_from(
    [b'"', b"\\", b"\\\\", b"a", b"/", b"@", b"longer than ten", b"[", b"\n", b"\xc3\xa9"]
)


def cut(data: bytes) -> list[bytes]:
    """JSON cut at its quotes, other bytes put in the place of escapes meanwhile."""
    plain = data.replace(b"\\\\", b"\2\2").replace(b'\\"', b"\\\1").split(b'"')
    return [one.replace(b"\\\1", b'\\"').replace(b"\2\2", b"\\\\") for one in plain]


@given(st.lists(WORDS, max_size=30).map(b"".join))
def test_json_is_cut_at_its_quotes(inside: bytes) -> None:
    data = b'{"' + inside
    (every,) = layers(data)
    (long,) = layers(data, shortest=SHORTEST)
    expected = [one for one in cut(data) if one]
    assert dict(every.counts) == {one: expected.count(one) for one in expected}
    assert dict(long.counts) == {one: expected.count(one) for one in expected if len(one) >= SHORTEST}
    for one in every.counts:
        first = every.place(one, 0)
        assert data[first : first + len(one)] == one
        assert cut(data[:first])[-1] == b""


SPANS = st.sampled_from(
    [b"a", b"name", b"as_tens", b"as_tensor", b"as_tensors", b"x" * 16, b"x" * 15 + b"y", b"x" * 17]
)


@given(st.lists(SPANS | st.binary(min_size=1, max_size=17), max_size=60), st.integers(1, 20))
def test_equal_stretches_are_counted_where_they_are_first(texts: list[bytes], at_once: int) -> None:
    data, ends = b"".join(texts), np.cumsum([0, *map(len, texts)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers_of_strings, "FEWEST_COMPARED", 0)
        patch.setattr(layers_of_strings, "AT_ONCE", at_once)
        layer = SpanLayer(data, ends[:-1], ends[1:], int)
    assert list(layer.counts.items()) == list(Counter(texts).items())
    assert layer.first == {text: ends[texts.index(text)] for text in texts}


@given(st.lists(st.sampled_from([b"\0", b"\1", b"\n", b"abc", b"/tmp", b"a long text"]), max_size=30))
def test_other_bytes_are_cut_where_no_text_is(some: list[bytes]) -> None:
    data = b"".join(some)
    every = layers(data)[0]
    expected = [one for one in re.split(rb"[\0\1]", data) if len(one) >= 6]
    assert dict(every.counts) == {one: expected.count(one) for one in expected}
    for one in every.counts:
        first = every.place(one, 0)
        assert re.split(rb"[\0\1]", data[first:])[0] == one
        assert one not in re.split(rb"[\0\1]", data[:first])


@pytest.mark.parametrize("name", ["nested.pt", "nested.ptl", "unicode.ptl"])
def test_texts_of_pickles_are_those_of_their_instructions(name: str) -> None:
    pickles = 0
    with Container.open(RELEASES / "torch-2.13.0" / name) as opened:
        for data in (bytes(record.view()) for record in opened.records.values()):
            if data.startswith(b"\x80\2"):
                texts = [text for what, text, _ in instructions(data) if what in TEXTS]
                spans, end = _of_torch(data)
                assert [data[low:high] for low, high in spans.texts] == texts
                assert (spans, end) == _of_python(data)
                pickles += 1
    assert pickles >= 3


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"X\5\0\0\0abc.",
        b"X\5\0",
        b"\x8d" + b"\xff" * 8,
        b"\x80\2.",
        b"ctorch\n",
        b"\x8a",
        b"\x8a\x09\1\1\1\1\1\1\1\1\1.",
        b"G12",
        b"I1\n.",
    ],
    ids=[
        "no STOP",
        "cut text",
        "cut length",
        "huge length",
        "PROTO",
        "cut lines",
        "cut size",
        "wide",
        "cut float",
        "Python",
    ],
)
def test_what_pytorch_writes_no_pickle_as_is_read_by_python(broken: bytes) -> None:
    data = b"\x80\2X\4\0\0\0name" + broken
    with pytest.raises(ValueError, match=r"\d+"):
        _of_torch(data)
    assert b"name" in b"".join(of_pickle(data, int).counts)


def test_a_string_of_a_pickle_may_have_instructions_in_it() -> None:
    data = pickle.dumps(["X\1\0\0\0a.", "\x80\2.", "c.m\nf\n", "/home/ann/net.py"], 2)
    strings = PieceStrings(data)
    assert {b"/home/ann/net.py", b"c.m"} & set(strings.data.split(b"\0")) == {b"/home/ann/net.py"}
    assert strings.place(strings.data.index(b"/home")) == data.index(b"/home")


def test_escapes_of_json_are_undone_and_places_are_those_of_the_escaped() -> None:
    data = json.dumps({"a": 'say "/home/ann" \\ \u00e9', "b": "x" * 20}).encode()
    strings = PieceStrings(data, SHORTEST)
    at = strings.data.index(b"/home/ann")
    assert strings.line(at) == 'say "/home/ann" \\ \u00e9'.encode()
    assert strings.place(at) == data.index(b"/home/ann")


# --- The path of a byte of JSON leads to the value that the byte is in


Json = dict[str, "Json"] | list["Json"] | str | int | None
KEYS = st.text('ab{}[],:"\\ é', min_size=1, max_size=4)


def values(depth: int) -> st.SearchStrategy[Json]:
    leaves = st.integers() | st.none() | KEYS
    if not depth:
        return leaves
    inner = values(depth - 1)
    return leaves | st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)


def paths(value: Json, path: str) -> list[tuple[str, str]]:
    """The marks in a value, each with its path."""
    if isinstance(value, dict):
        return [one for key, some in value.items() for one in paths(some, f"{path}.{json.dumps(key)[1:-1]}")]
    if isinstance(value, list):
        return [one for at, some in enumerate(value) for one in paths(some, f"{path}[{at}]")]
    return [(str(value), path.removeprefix("."))] if str(value).startswith("mark") else []


@settings(max_examples=examples(40))
@given(st.data())
def test_a_path_leads_to_its_value(data: st.DataObject) -> None:
    number = iter(range(1000))

    def marked(value: Json) -> Json:
        if isinstance(value, dict):
            return {key: marked(some) for key, some in value.items()}
        return [marked(some) for some in value] if isinstance(value, list) else f"mark{next(number)}."

    value = [marked(data.draw(values(3))), {"x": marked(data.draw(values(3)))}]
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 1]))).encode()
    assert PieceStrings(text).json == text
    places = JsonPlaces(text)
    found = {mark: places.path(text.index(mark.encode())) for mark, _ in paths(value, "")}
    assert found == dict(paths(value, ""))


def test_a_byte_in_a_key_or_behind_a_value_is_the_objects() -> None:
    text = b'{"a": {"key": [1, 2], "b": 3}}'
    places = JsonPlaces(text)
    assert places.path(text.index(b"key")) == "a"
    assert places.path(text.index(b"2")) == "a.key[1]"
    assert places.path(text.index(b'"b"')) == "a"
    assert places.path(0) == ""


@given(st.text('[]{}:,"\\\\ a', max_size=40))
def test_broken_json_has_places_all_the_same(text: str) -> None:
    data = text.encode()
    places = JsonPlaces(data)
    assert all(isinstance(places.path(at), str) for at in range(len(data)))


# --- A text is read in whatever way it is written, and a place is told


PATH = "/home/annabel/secret/models/net.py"
KEY = "ghp_" + "a1B2" * 9
MODEL = ORACLES / "plain_unicode.ptl"


KINDS = {PATH: LeakKind.HOME, KEY: LeakKind.KEY}


@pytest.mark.parametrize(("name", "text"), crossed(ENCODINGS, KINDS, most=len(ENCODINGS)))
def test_a_text_is_read_in_every_way(name: str, text: str) -> None:
    kind = KINDS[text]
    found = leaks(with_records(MODEL, {"extra/x": ENCODINGS[name](text)}))
    places = {one.text: one.places[0] for one in found.findings if one.kind is kind}
    assert text in places
    assert places[text].record.split("!")[0] == "extra/x"
    assert found.problems == ()


@given(st.from_regex(re.compile(TENSORS.pattern, re.DOTALL)))
def test_each_file_of_tensors_has_a_control_by_which_strings_are_looked_through(data: bytes) -> None:
    assert IN_LATIN.search(data)


def test_letters_by_chance_are_no_text() -> None:
    draw = random.Random(1)  # noqa: S311 (no secret)
    for way in WAYS:
        words = [bytes(draw.choices(way.alphabet, k=draw.randrange(20, 90))) for _ in range(1_500)]
        found = leaks(with_records(MODEL, {"extra/x": b" ".join(words)}))
        assert found.problems == ()
        assert not [one for one in found.findings if "!" in one.places[0].record]


def test_lines_and_their_places_are_charged_to_the_file_that_they_are_of() -> None:
    with memory.charged(DEFAULT_LIMITS.allowance(0)) as own:
        strings = PieceStrings(b"a first line\nand another one")
    with memory.charged(DEFAULT_LIMITS.allowance(0)) as other:
        before = own.taken
        data = strings.data
        assert own.taken == before + len(b"a first lineand another one")
        before = own.taken
        assert strings.place(data.index(b"another")) == len(b"a first line\nand ")
        assert own.taken == before + 2 * memory.NUMBER
    assert other.taken == 0
