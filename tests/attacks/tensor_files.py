"""Files of tensors that are no zips: headers that lie, repeat themselves, or make much of little."""

from __future__ import annotations

import json
import pickle
import struct
from typing import TYPE_CHECKING

from tests.attacks.attack import MIB, Attack
from tests.attacks.pieces import doubled, number, pickled, several, text
from tests.support.protobuf import field, onnx_model, onnx_outside, onnx_tensor, varint

if TYPE_CHECKING:
    from collections.abc import Callable

HUGE = (1 << 63) - 1
FLOAT, INT64, BOOL = 1, 7, 9
RAW, INT32S, INT64S = 9, 5, 7


def _commands(name: str) -> tuple[str, ...]:
    return f"inspect {name}", f"inspect {name} --json", f"sizes {name} --by weights"


def _one(name: str, data: Callable[[], bytes]) -> Callable[[], dict[str, bytes]]:
    return lambda: {name: data()}


# --- safetensors


def _safetensors(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return struct.pack("<Q", len(text)) + text + data


def _many_tensors() -> bytes:
    """100,000 tensors without elements."""
    told = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return _safetensors("{" + ",".join(f'"{at}":{told}' for at in range(100_000)) + "}")


def _large_shapes() -> bytes:
    """500 tensors of 256 dimensions of 2^62 each, and one of 0."""
    told = {"dtype": "U8", "shape": [1 << 62] * 255 + [0], "data_offsets": [0, 0]}
    return _safetensors(json.dumps({str(at): told for at in range(500)}))


SAFETENSORS = {
    "a header of 2^60 bytes": lambda: struct.pack("<Q", 1 << 60) + b'{"a":{}}',
    "many tensors without elements": _many_tensors,
    "shapes beyond all numbers": _large_shapes,
    "JSON inside of JSON": lambda: _safetensors('{"a":' + "[" * MIB + "]" * MIB + "}"),
    "a number of a million digits": lambda: _safetensors('{"a":' + "9" * MIB + "}"),
    "the same key again and again": lambda: _safetensors('{"a":0' + ',"a":0' * 200_000 + "}"),
}

# --- GGUF


def _gguf(*parts: bytes, pairs: int = 0, tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + b"".join(parts)


def _key(name: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def _long_texts() -> bytes:
    """Texts that are as long as the file, each beginning eight bytes behind the one before."""
    texts = b"".join(struct.pack("<Q", 8 * (100_000 - at)) for at in range(100_000))
    return _gguf(_key(b"a", 9, struct.pack("<IQ", 8, 100_000)), texts, pairs=1)


GGUF = {
    "2^60 pairs": lambda: _gguf(pairs=1 << 60),
    "2^60 tensors": lambda: _gguf(tensors=1 << 60),
    "an array of 2^61 numbers": lambda: _gguf(_key(b"a", 9, struct.pack("<IQ", 10, 1 << 61)), pairs=1),
    "a million empty texts": lambda: _gguf(
        _key(b"a", 9, struct.pack("<IQ", 8, MIB) + bytes(8 * MIB)), pairs=1
    ),
    "a million empty arrays": lambda: _gguf(
        _key(b"a", 9, struct.pack("<IQ", 9, MIB) + struct.pack("<IQ", 0, 0) * MIB), pairs=1
    ),
    "texts that reach to the end": _long_texts,
    "200,000 keys": lambda: _gguf(*(_key(b"%x" % at, 0, b"0") for at in range(200_000)), pairs=200_000),
    "an alignment of 2^31": lambda: _gguf(
        _key(b"general.alignment", 4, struct.pack("<I", 1 << 31)),
        struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 1, 0, 0),
        bytes(64),
        pairs=1,
        tensors=1,
    ),
    "sizes whose product is 2^252": lambda: _gguf(
        struct.pack("<Q", 1) + b"w" + struct.pack("<I4QIQ", 4, HUGE, HUGE, HUGE, HUGE, 0, 0),
        bytes(64),
        tensors=1,
    ),
}

# --- ONNX


def _graphs() -> bytes:
    """A graph in an attribute of a node of a graph …: as deep as 64 KB allow."""
    graph = b""
    for _ in range(4_000):
        graph = field(1, field(3, "n") + field(5, field(6, graph)))
    return onnx_model(before=graph)


def _names() -> bytes:
    """20,000 tensors in attributes of one node, whose name is behind them, and long."""
    attributes = field(5, field(5, onnx_tensor("", FLOAT, (0,)))) * 20_000
    return onnx_model(before=field(1, attributes + field(3, "n" * 4_000)))


ONNX = {
    "graphs inside of graphs": _graphs,
    "a million nodes": lambda: onnx_model(before=field(1, b"") * MIB),
    "many initializers without elements": lambda: onnx_model(
        *(onnx_tensor(f"{at}", FLOAT, (0,)) for at in range(100_000))
    ),
    "a long name for each of many tensors": _names,
    "a million dimensions": lambda: onnx_model(onnx_tensor("w", FLOAT, (), field(1, b"\1" * MIB))),
    "integers of ten bytes": lambda: onnx_model(
        onnx_tensor("w", INT64, (200_000,), field(INT64S, varint(-1) * 200_000))
    ),
    "a million elements one by one": lambda: onnx_model(
        onnx_tensor("w", BOOL, (MIB,), field(INT32S, 1) * MIB)
    ),
    "sizes of 63,000 bits": lambda: onnx_model(onnx_tensor("w", FLOAT, (HUGE,) * 1_000, field(RAW, b"0"))),
    "elements outside of the folder": lambda: onnx_model(
        onnx_tensor("w", FLOAT, (2,), onnx_outside("../../../../etc/passwd"))
    ),
    "a file beside it for each of many tensors": lambda: onnx_model(
        *(onnx_tensor(f"{at}", FLOAT, (2,), onnx_outside(f"{at}.bin")) for at in range(20_000))
    ),
    "itself as a file beside it": lambda: onnx_model(
        *(onnx_tensor(f"{at}", FLOAT, (2,), onnx_outside("m.onnx", offset=f"{at}")) for at in range(2_000))
    ),
}

# --- torch.save before PyTorch 1.6


def _legacy(value: bytes, keys: bytes = b"]", storages: bytes = b"") -> bytes:
    facts: tuple[object, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
    return b"".join([*(pickle.dumps(fact, 2) for fact in facts), pickled(value), pickled(keys), storages])


def _storage(key: str, count: int) -> bytes:
    named = b"ctorch\nFloatStorage\n"
    return several(text("storage"), named, text(key), text("cpu"), number(count), b"N") + b"Q"


def _tensor(key: str, count: int, shape: bytes, strides: bytes) -> bytes:
    hooks = b"ccollections\nOrderedDict\n)R"
    call = b"ctorch._utils\n_rebuild_tensor_v2\n"
    return call + several(_storage(key, count), b"K\0", shape, strides, b"\x89", hooks) + b"R"


def _many_storages() -> bytes:
    """50,000 storages without elements."""
    names = [f"{at}" for at in range(50_000)]
    value = b"](" + b"".join(_storage(name, 0) for name in names) + b"e"
    return _legacy(value, b"](" + b"".join(map(text, names)) + b"e", bytes(8) * len(names))


LEGACY = {
    "a call in a file before 1.6": lambda: _legacy(b"cos\nsystem\n(" + text("touch EXECUTED") + b"tR"),
    "two to the power of a thousand values": lambda: _legacy(doubled(1_000)),
    "a storage of 2^62 elements": lambda: _legacy(
        b"}" + text("w") + _tensor("0", 1 << 62, several(number(1)), several(number(1))) + b"s",
        b"]" + text("0") + b"a",
        struct.pack("<q", 1 << 62),
    ),
    "strides of 0 in a small storage": lambda: _legacy(
        b"}" + text("w") + _tensor("0", 1, several(number(HUGE)), several(number(0))) + b"s",
        b"]" + text("0") + b"a",
        struct.pack("<q", 1) + bytes(4),
    ),
    "many storages without elements": _many_storages,
}

# --- shards


def _index(shards: list[str]) -> bytes:
    return json.dumps({"weight_map": {f"{at}": shard for at, shard in enumerate(shards)}}).encode()


def _same_shards() -> dict[str, bytes]:
    """500 shards of 200 tensors each, all of the same names."""
    told = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    shard = _safetensors("{" + ",".join(f'"{at}":{told}' for at in range(200)) + "}")
    names = [f"{at}.st" for at in range(500)]
    return {"m.json": _index(names), **dict.fromkeys(names, shard)}


def _of(name: str, attacks: dict[str, Callable[[], bytes]], says: str) -> dict[str, Attack]:
    return {
        key: Attack(f"In {says}.", _one(name, made), _commands(name), loops=4_000)
        for key, made in attacks.items()
    }


ATTACKS = {
    **_of("m.safetensors", SAFETENSORS, "safetensors"),
    **_of("m.gguf", GGUF, "GGUF"),
    **_of("m.onnx", ONNX, "ONNX"),
    **_of("m.pth", LEGACY, "what torch.save wrote before 1.6"),
    "100,000 shards": Attack(
        "An index of 100,000 files.",
        _one("m.json", lambda: _index([f"{at}" for at in range(100_000)])),
        _commands("m.json"),
    ),
    "an index as its own shard": Attack(
        "An index that names itself.", _one("m.json", lambda: _index(["m.json"])), _commands("m.json")
    ),
    "shards outside of the folder": Attack(
        "An index that names a file of the system.",
        _one("m.json", lambda: _index(["../../etc/passwd"])),
        _commands("m.json"),
    ),
    "shards of the same tensors": Attack(
        "An index of shards that all have the same tensors.", _same_shards, _commands("m.json")
    ),
}
