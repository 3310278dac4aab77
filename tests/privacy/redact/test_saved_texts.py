"""Texts of pickles: what each is for, and pickles with others, which Python loads."""

from __future__ import annotations

import argparse
import pickle
import pickletools
from collections import Counter, OrderedDict, defaultdict
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.privacy.redact.saved_texts import check_same_but, texts_of, with_texts
from tests.support.sampling import examples

PROTOCOLS = range(2, 6)
STRICT = pickle._loads  # type: ignore[attr-defined]
TEXTS = st.text(st.sampled_from("aé\n\U0001f600"), max_size=4) | st.just("a" * 300)
LEAVES = TEXTS | st.integers() | st.floats() | st.none() | st.booleans() | st.binary(max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXTS | st.integers(), inner, max_size=4)
        | st.sets(TEXTS, max_size=3)
        | st.builds(OrderedDict, st.dictionaries(TEXTS, inner, max_size=2))
    ),
    max_leaves=20,
)


def view(data: bytes) -> memoryview:
    return memoryview(data)


def obstacles(value: object, protocol: int) -> dict[str, str]:
    data = pickle.dumps(value, protocol)
    saved = texts_of(view(data))
    return {str(text): text.obstacle for text in saved.texts}


def changed(value: object, protocol: int, end: str) -> object:
    """A value as it is loaded after each of its texts that may be another has got an end."""
    data = pickle.dumps(value, protocol)
    saved = texts_of(view(data))
    new = {text.at: text + end for text in saved.texts if not text.obstacle}
    made = with_texts(view(data), saved, new)
    check_same_but(view(data), view(made), new)
    assert repr(pickle.loads(made)) == repr(STRICT(made))  # noqa: S301
    return pickle.loads(made)  # noqa: S301


def with_end(value: object, end: str) -> object:
    """The same by Python."""
    if isinstance(value, str):
        return value + end
    if isinstance(value, list | tuple | set):
        return type(value)(with_end(item, end) for item in value)
    if isinstance(value, dict):
        return type(value)((with_end(key, end), with_end(item, end)) for key, item in value.items())
    return value


@given(VALUES, st.sampled_from(PROTOCOLS), st.sampled_from(["", "x", "é" * 128, "z" * 70_000]))
@settings(max_examples=examples(300), deadline=None)
def test_texts_become_longer_in_every_protocol_and_nothing_else_changes(
    value: object, protocol: int, end: str
) -> None:
    made, expected = changed(value, protocol, end), with_end(value, end)
    assert repr(made) == repr(expected) or made == expected  # sets in another order


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("end", ["", "b" * 300, "b" * 70_000])
def test_many_frames_end_where_they_did(protocol: int, end: str) -> None:
    value = [f"{number:01000d}" for number in range(300)]
    assert changed(value, protocol, end) == [text + end for text in value]
    frames = sum(op.name == "FRAME" for op, _, _ in pickletools.genops(pickle.dumps(value, protocol)))
    assert (frames > 3) == (protocol >= 4)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("new", ["", "ab", "a" * 255, "a" * 256])
def test_a_text_gets_the_instruction_that_the_pickler_gives_it(protocol: int, new: str) -> None:
    data = pickle.dumps(["a" * 300, 1], protocol)
    saved = texts_of(view(data))
    made = with_texts(view(data), saved, {saved.texts[0].at: new})
    assert made == pickle.dumps([new, 1], protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_attributes_of_plain_objects_are_data_and_their_names_are_not(protocol: int) -> None:
    ordered = OrderedDict(key="ordered")
    ordered.note = "attribute"  # type: ignore[attr-defined]
    value = [argparse.Namespace(home="a space"), SimpleNamespace(user="simple"), ordered]
    value += [defaultdict(str, by="default")]
    found = obstacles(value, protocol)
    data = {"a space", "simple", "key", "ordered", "attribute", "by", "default"}
    assert {text for text, obstacle in found.items() if not obstacle} == data
    assert {found[name] for name in ("home", "user", "note")} == {"the name of an attribute"}


class Other:
    """An object whose class may do anything."""

    def __init__(self) -> None:
        self.name = "inside"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_other_classes_and_calls_get_is_needed(protocol: int) -> None:
    path = PurePosixPath("/ann")
    found = obstacles({"other": Other(), "path": path, "count": Counter(word=1), ("pair",): 1}, protocol)
    assert [text for text, obstacle in found.items() if not obstacle] == ["other", "path", "count"]
    assert found["inside"].startswith("in the state of ")
    assert found["ann"] == "an argument of pathlib.PurePosixPath"
    assert found["word"] == "an argument of collections.Counter"
    assert found["pair"] == "part of a key that isn't a text"


def test_a_text_that_is_shared_with_what_is_needed_is_needed() -> None:
    data = pickle.dumps(["collections", OrderedDict(), "OrderedDict"], 4)
    saved = texts_of(view(data))
    name = "the name of a class or function"
    assert [(str(text), text.obstacle) for text in saved.texts] == [
        ("collections", name),  # the memo has it for both
        ("OrderedDict", name),
        ("OrderedDict", ""),
    ]


CALL = b"cos\nsystem\n"
TEXT = b"X\3\0\0\0abcq\0"


@pytest.mark.parametrize(
    ("pickled", "obstacle"),
    [
        (TEXT + CALL + b"h\0\x85R0.", "an argument of os.system"),  # the call is taken off the stack
        (b"](" + TEXT + b"0h\0e.", ""),
        (TEXT + b"0).", "part of nothing that is loaded"),
        (b"}(" + TEXT + CALL + b")\x81h\0bu.", "in the state of os.system"),
        (b"}(" + TEXT + CALL + b")\x81h\0h\0su.", "in os.system"),
        (b"(" + CALL + TEXT + b"o0h\0.", "an argument of os.system"),
        (b"(" + TEXT + b"ios\nsystem\n0h\0.", "an argument of os.system"),
        (CALL + b")}" + TEXT + b"h\0s\x920h\0.", "an argument of a call"),
        (TEXT + b"Q0h\0.", "part of a storage's id"),
        (TEXT + b"h\0\x930h\0.", "the name of a class or function"),
        (b"ccollections\nOrderedDict\n)R}" + TEXT + b"h\0sb.", "the name of an attribute"),
        (b"ccollections\nOrderedDict\n)R)" + TEXT + b"\x86b.", "in the state of collections.OrderedDict"),
    ],
)
def test_each_use_counts_also_of_what_is_thrown_away(pickled: bytes, obstacle: str) -> None:
    data = b"\x80\4" + pickled
    saved = texts_of(view(data))
    assert [text.obstacle for text in saved.texts] == [obstacle]


def test_letters_that_are_no_texts_are_listed() -> None:
    data = pickle.dumps([b"by", 1], 3)[:-2] + b"ccopyreg\nname\nVold\ne."
    saved = texts_of(view(data))
    assert [content for _, _, content in saved.fixed] == [b"by", "copyreg name", "old"]


FRAMED = b"\x80\4\x95" + (9).to_bytes(8, "little") + b"\x8c\3abc\x94\x85\x94."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FRAMED.replace(b"\x09", b"\x03"), "a text in one frame"),
        (FRAMED.replace(b"\x09", b"\xff"), "a frame after the one before, within the pickle"),
        (FRAMED[:11] + FRAMED[2:], "a frame after the one before"),
    ],
)
def test_frames_that_lie_are_refused(data: bytes, message: str) -> None:
    saved = texts_of(view(data))
    assert with_texts(view(FRAMED), texts_of(view(FRAMED)), {11: "abcd"})
    with pytest.raises(ArchiveError, match=message):
        with_texts(view(data), saved, {saved.texts[0].at: "abcd"})


@pytest.mark.parametrize(
    "made",
    [
        pickle.dumps(["ab", 2], 4),
        pickle.dumps(["ac", 1], 4),
        pickle.dumps(["ab", 1, 1], 4),
        pickle.dumps(["ab", 1], 3),
        pickle.dumps(["ab", 1], 4).replace(b"\x0c", b"\x0b", 1),  # of the frame
        b"\x80\4?",
    ],
)
def test_other_differences_than_texts_are_found(made: bytes) -> None:
    old, new = pickle.dumps(["a", 1], 4), pickle.dumps(["ab", 1], 4)
    check_same_but(view(old), view(new), {14: "ab"})
    with pytest.raises(ArchiveError):
        check_same_but(view(old), view(made), {14: "ab"})
