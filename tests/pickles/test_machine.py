"""Pickles of Python's own picklers: calls and objects are described by every opcode that makes one."""

from __future__ import annotations

import pickle

import pytest

from archive import ArchiveError, LimitError
from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.pickles.machine import plain_value
from archive.pickles.values import Global, Inert

MADE = {
    "INST": b"(K\x01imodule\nThing\n.",
    "OBJ": b"(cmodule\nThing\nK\x01o.",
    "NEWOBJ": b"cmodule\nThing\nK\x01\x85\x81.",
    "NEWOBJ_EX": b"cmodule\nThing\nK\x01\x85}\x92.",
    "REDUCE": b"cmodule\nThing\nK\x01\x85R.",
    "REDUCE of STACK_GLOBAL": b"\x8c\x06module\x8c\x05Thing\x93K\x01\x85R.",
}


@pytest.mark.parametrize("opcode", MADE)
def test_what_makes_an_object_is_its_class_and_its_arguments(opcode: str) -> None:
    data = MADE[opcode]
    value, end = plain_value(memoryview(data), 0)
    assert isinstance(value, Inert)
    assert (value.what, list(value.arguments), end) == (Global("module", "Thing"), [1], len(data))


def described(value: object) -> object:
    """A value as plain Python again; objects and calls stay as they are."""
    if isinstance(value, list | tuple):
        return type(value)(described(item) for item in value)
    if not isinstance(value, Inert) or not isinstance(value.what, str):
        return value
    if value.what == "dict":
        return {described(key): described(item) for key, item in value.pairs}
    return {"set": set, "frozenset": frozenset}[value.what](described(item) for item in value.items)


PLAIN = [
    [None, True, False, -1, 1 << 70, 0.5, "text", b"bytes", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    {"a": [], "b": {}, "c": {"d": 1, "e": 2}},
    [["shared"] * 3, list(range(2_000))],
    "\n" * 5_000,
]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_values_of_every_protocol_are_themselves(protocol: int, value: object) -> None:
    if protocol < 3 and value is PLAIN[0]:  # bytes are a call there
        value = [one for one in PLAIN[0] if not isinstance(one, bytes)]
    data = pickle.dumps(value, protocol)
    found, end = plain_value(memoryview(b"x" + data + b"y"), 1)
    assert (described(found), end) == (value, 1 + len(data))


@pytest.mark.parametrize("value", [{1, 2}, frozenset({1, 2}), bytearray(b"ab")])
def test_sets_and_bytes_have_opcodes_of_their_own(value: object) -> None:
    data = pickle.dumps(value, 5)
    assert described(plain_value(memoryview(data), 0)[0]) == value


def first(data: bytes) -> object:
    return plain_value(memoryview(data), 0)[0]


def test_what_is_given_to_an_object_is_kept_with_it() -> None:
    made = b"cmodule\nThing\n)\x81"
    for data, field, expected in (
        (made + b"K\x05b.", "state", 5),
        (made + b"K\x05a.", "items", [5]),
        (made + b"(K\x05K\x06e.", "items", [5, 6]),
        (made + b"K\x05K\x06s.", "pairs", [(5, 6)]),
        (made + b"(K\x05K\x06u.", "pairs", [(5, 6)]),
        (b"cmodule\nThing\n)}K\x05K\x06s\x92.", "pairs", [(5, 6)]),
    ):
        assert getattr(first(data), field) == expected


def test_persistent_ids_and_extensions_are_named() -> None:
    by_value, by_name = first(b"K\x07Q."), first(b"Pname\n.")
    assert isinstance(by_value, Inert)
    assert isinstance(by_name, Inert)
    assert (by_value.what, by_value.arguments, by_name.arguments) == ("persistent", [7], ["name"])
    assert first(b"\x82\x05.") == Global("extension", "5")


def test_stack_and_memo_are_python_s() -> None:
    assert described(first(b"]K\x01q\x00aN0(K\x02K\x031h\x002\x86.")) == (1, 1)
    assert first(b"\x80\x04K\x07q\x01K\x08\x94h\x01.") == 8  # the next entry is by their number


@pytest.mark.parametrize("data", [b".", b"t.", b"K\x01t.", b"h\x00.", b"a.", b"K", b"\xff.", b"(K\x01d."])
def test_what_is_no_pickle_is_refused_with_its_place(data: bytes) -> None:
    with pytest.raises(ArchiveError, match=r"byte \d+: expected a pickle"):
        first(data)


def test_values_cost_no_more_than_allowed() -> None:
    refused = pytest.raises(LimitError, match=r"byte \d+: memory is limited .* with values of a pickle")
    with refused, memory.charged(DEFAULT_LIMITS.allowance(0)):
        first(b"(" + b")" * 300_000 + b"t.")
