"""Files of tensors that are no zips, whose texts and metadata ask for much of `leaks`, `diff` and others."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from tests.attacks.attack import Attack
from tests.support import onnx_bytes
from tests.support.onnx_bytes import entry, field, varint

if TYPE_CHECKING:
    from collections.abc import Callable


def _two(ending: str, make: Callable[[int], bytes]) -> Callable[[], dict[str, bytes]]:
    """A file, and one that differs in one byte."""
    return lambda: {f"m.{ending}": make(0), f"other.{ending}": make(1)}


def _commands(ending: str) -> tuple[str, ...]:
    file, other = f"m.{ending}", f"other.{ending}"
    return f"leaks {file} --deep", f"diff {file} {other}", f"digest --of weights {file}"


REDACTED = (*_commands("safetensors"), "redact m.safetensors -o out --for publish --force")
EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}


def _safetensors(
    metadata: dict[str, str], tensors: dict[str, object] | None = None, data: bytes = b""
) -> bytes:
    text = json.dumps({"__metadata__": metadata, **(tensors or {})}).encode()
    return len(text).to_bytes(8, "little") + text + data


def _text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _gguf(*pairs: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


def _texts(key: bytes, count: int, text: bytes) -> bytes:
    """A pair whose value is an array of equal texts."""
    return _text(key) + struct.pack("<IIQ", 9, 8, count) + _text(text) * count


def _deep_type(last: int) -> bytes:
    """A type of sequences of sequences of …; put together from inside, each with the length of all inside."""
    pieces, size = [bytes([0x32, 1, 97 + last])], 3
    for number in (1, 4) * 5_000:
        head = varint(number << 3 | 2) + varint(size)
        pieces.append(head)
        size += len(head)
    return onnx_bytes.model({}, graph=field(11, field(2, b"".join(reversed(pieces)))))


ATTACKS = {
    "metadata of 50,000 paths": Attack(
        "Each member of the metadata of safetensors has a path of its own.",
        _two("safetensors", lambda at: _safetensors({f"{n}": f"/home/ann/{n}/{at}" for n in range(50_000)})),
        REDACTED,
        loops=3_000,
    ),
    "metadata that is one text": Attack(
        "4 MB of paths in one member of metadata, to be replaced one by one.",
        _two("safetensors", lambda at: _safetensors({"a": "/home/ann/b " * 330_000 + str(at)})),
        (*REDACTED, "redact m.safetensors -o out --replace /home=x --partial --force"),
        loops=2_000,
    ),
    "tensors of nothing in safetensors": Attack(
        "20,000 tensors without elements.",
        _two(
            "safetensors",
            lambda at: _safetensors(
                {},
                {f"{n}.{at}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(20_000)},
            ),
        ),
        REDACTED,
        loops=3_000,
    ),
    "1,000,000 tokens without a letter": Attack(
        "An array of GGUF has a million empty texts.",
        _two("gguf", lambda at: _gguf(_texts(b"a%d" % at, 1_000_000, b""))),
        _commands("gguf"),
        loops=1_200,
    ),
    "tokens that are paths": Attack(
        "300,000 tokens of GGUF are one path.",
        _two("gguf", lambda at: _gguf(_texts(b"a", 300_000, b"/home/ann/%d" % at))),
        _commands("gguf"),
        loops=1_200,
    ),
    "types of ONNX in types": Attack(
        "A type is a sequence of a sequence of …, 5,000 times.", _two("onnx", _deep_type), _commands("onnx")
    ),
    "doc strings of ONNX without end": Attack(
        "200,000 nodes, each with a doc string and a property.",
        _two(
            "onnx",
            lambda at: onnx_bytes.model(
                {}, nodes=[field(6, f"/home/ann/{at}.py") + field(9, entry("k", "v"))] * 200_000
            ),
        ),
        _commands("onnx"),
        loops=3_000,
    ),
    "a value of ONNX that isn't a message": Attack(
        "What should be the type of an input isn't one.",
        _two("onnx", lambda at: onnx_bytes.model({}, graph=field(11, field(2, bytes([0xFF, at]))))),
        _commands("onnx"),
    ),
}
