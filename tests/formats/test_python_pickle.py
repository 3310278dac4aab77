"""Pickles of Python's own picklers: calls and objects are described by every opcode that makes one."""

from __future__ import annotations

import pytest

from archive.base.limits import DEFAULT_LIMITS
from archive.debuginfo.model import Global
from archive.formats.python_pickle import Value, plain_value

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
    value, end = plain_value(memoryview(data), 0, DEFAULT_LIMITS.allowance(0))
    assert isinstance(value, Value)
    assert (value.what, list(value.arguments), end) == (Global("module", "Thing"), [1], len(data))
