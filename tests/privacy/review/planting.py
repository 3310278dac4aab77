"""Files with words that nobody knows, planted wherever bytes hold a text.

The planter knows no table of any detector: it writes pickles, zips, JSON and tensors by Python's own modules.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import pickle
import random
import struct
import zipfile
from argparse import Namespace
from collections import OrderedDict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors.numpy import save

from tests.support import onnx_bytes
from tests.support.elf_files import elf_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


class Planted(NamedTuple):
    """A file with words, each by the place that it was planted in."""

    name: str
    data: bytes
    words: dict[str, str]


class Words:
    """Gives out new words: syllables that no language and no program has."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 (the same each time)
        self.given: dict[str, str] = {}

    def __call__(self, place: str, syllables: int = 5) -> str:
        word = "".join(
            self._random.choice(CONSONANTS) + self._random.choice(VOWELS) for _ in range(syllables)
        )
        self.given[place] = word
        return word


def saved(pickled: bytes, **records: bytes) -> bytes:
    """What ``torch.save`` makes of a pickle, by an ordinary zip tool."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("archive/data.pkl", pickled)
        target.writestr("archive/byteorder", b"little")
        target.writestr("archive/version", b"3\n")
        for name, data in records.items():
            target.writestr(f"archive/{name}", data)
    return out.getvalue()


def pickles() -> Iterator[Planted]:
    """Checkpoints of all protocols, with words in values of all kinds."""
    for protocol in range(6):
        word = Words(protocol)
        inner = pickle.dumps({word("key in a pickle in bytes"): word("value in a pickle in bytes")}, 4)
        shared = word("value that is asked for again")
        value = {
            word("key"): word("value"),
            "config": {word("key of a dict in a dict"): [word("item"), (word("item of a tuple"),)]},
            "epoch": Namespace(**{word("attribute"): word("value of an attribute")}),
            "again": [shared, shared],
            "set": {word("element")},
            "frozen": frozenset({word("element of a frozenset")}),
            "ordered": OrderedDict([(word("key of an OrderedDict"), word("value of an OrderedDict"))]),
            7: word("value behind a number"),
            (word("part of a key"), 1): None,
            "bytes": f"<{word('bytes')}>".encode(),
            "array": bytearray(f"<{word('a bytearray')}>".encode()),
            "text": f"first\n{word('second line')}\nthird",
            "short": word("short value", 2),
            "json": json.dumps({word("key of JSON"): [word("value of JSON")]}),
            "pickle": inner,
            "path": PurePosixPath(f"runs/{word('part of a path')}/x.bin"),
            "umlaut": f"ü{word('behind a letter beyond ASCII')}ß",
            "numpy": np.array([word("NumPy's text")]),
            "sentence": f"this block is {word('word of a sentence')} linear",
            "code": f"x = 1  # {word('comment of a text')}",
            "base64": base64.b64encode(f"the text {word('base64')} in it".encode()).decode(),
        }
        yield Planted(f"protocol {protocol}", saved(pickle.dumps(value, protocol)), word.given)


def instructions() -> Iterator[Planted]:
    """Pickles of instructions that Python's pickler does not write, and what stands behind a pickle."""
    word = Words(20)
    module, name = word("module of a class"), word("name of a class")
    data = b"\x80\x02}" + b"X\x01\0\0\0a" + b"c%b\n%b\n" % (module.encode(), name.encode()) + b")\x81s."
    text = word("behind a pickle").encode()
    yield Planted("class", saved(data + text), word.given)
    word = Words(21)
    identity = word("storage's id").encode()
    data = b"\x80\x02" + b"X" + struct.pack("<I", len(identity)) + identity + b"Q."
    yield Planted("persistent", saved(data), word.given)


def zips() -> Iterator[Planted]:
    """Zips with words in names, comments, extra fields, and between records."""
    word, out = Words(30), io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("archive/data.pkl", pickle.dumps({"a": 1}, 2))
        entry = zipfile.ZipInfo(f"archive/{word('folder')}/{word('record')}.txt")
        entry.comment = word("comment of a record").encode()
        entry.extra = b"zq" + struct.pack("<H", 14) + f"<{word('extra field', 6)}>".encode()
        target.writestr(entry, word("whole record", 2))
        config = {word("key of a record"): {"name": word("value of a record"), "n": 1}}
        target.writestr("archive/config.json", json.dumps(config))
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in word("escapes of JSON"))
        target.writestr("archive/escaped.json", f'{{"name": "{escaped}"}}')
        target.writestr("archive/a.gz", gzip.compress(f"the word {word('gzip')} is here".encode()))
        target.writestr("archive/wide.bin", f"the word {word('UTF-16')} is here".encode("utf-16-le"))
        target.writestr("archive/yaml.yml", f"name: {word('YAML')}\nsize: 3\n")
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as second:
            second.writestr(f"{word('record of an inner zip')}.txt", word("text of an inner zip"))
        target.writestr("archive/inner.zip", inner.getvalue())
        target.comment = word("comment of the zip", 2).encode()
    yield Planted("zip", out.getvalue(), word.given)


def code() -> Iterator[Planted]:
    """TorchScript's code, with words wherever a name or a text stands."""
    word = Words(40)
    lines = f"""\
class {word("class of code")}(Module):
  __parameters__ = ["{word("parameter")}", ]
  {word("attribute of code")} : Tensor
  def {word("method")}(self, {word("argument")}: Tensor) -> str:
    # {word("comment")}
    {word("variable")} = torch.add(x, self.{word("member")})
    d = annotate(Dict[str, int], {{"{word("key of code")}": 1}})
    return "{word("text of code")}" + '{word("text in single quotes")}' + "\\"{word("behind a quote")}\\n"
"""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("archive/data.pkl", b"\x80\x02}.")
        target.writestr("archive/constants.pkl", b"\x80\x02).")
        target.writestr("archive/code/__torch__/net.py", lines)
        target.writestr("archive/version", b"3\n")
    yield Planted("code", out.getvalue(), word.given)


def tensors() -> Iterator[Planted]:
    """Files of tensors, with words in names, in metadata, and in tensors of integers."""
    word = Words(50)
    arrays = {
        f"{word('name of a tensor')}.weight": np.zeros(2, np.float32),
        "a": np.frombuffer(word("bytes of a tensor").encode(), np.uint8),
        "b": np.array(list(map(ord, word("code points"))), np.int64),
        "c": np.array([*map(ord, word("code points and padding")), 0, 0, 0], np.int32),
    }
    metadata = {word("key of metadata"): word("value of metadata")}
    yield Planted("safetensors", save(arrays, metadata), word.given)
    word = Words(51)
    node = b"".join(
        [
            onnx_bytes.field(1, word("input of a node")),
            onnx_bytes.field(2, word("output of a node")),
            onnx_bytes.field(3, word("name of a node")),
            onnx_bytes.field(4, word("operator")),
            onnx_bytes.field(6, f"about {word('documentation of a node')}"),
        ]
    )
    more = onnx_bytes.field(2, word("producer")) + onnx_bytes.field(
        14, onnx_bytes.entry(word("key of ONNX"), word("value of ONNX"))
    )
    arrays = {word("name of an initializer"): np.zeros(2, np.float32)}
    yield Planted("onnx", onnx_bytes.model(arrays, nodes=[node], more=more), word.given)


def objects() -> Iterator[Planted]:
    """A shared object in a zip, with words in its data and behind it."""
    word = Words(60)
    data = elf_file().data
    content = f"the text {word('data of an object')} is here".encode()
    data = data.replace(b"D" * 50, content.ljust(50, b"\0"))
    data = data.replace(b"N" * 20, word("name of a symbol").encode().ljust(20, b"\0"))
    data += f"\0{word('behind an object')}\0".encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("archive/data.pkl", b"\x80\x02}.")
        target.writestr("archive/data/aotinductor/model/x.so", data)
    yield Planted("object", out.getvalue(), word.given)


PLANTERS: tuple[Callable[[], Iterator[Planted]], ...] = (
    pickles,
    instructions,
    zips,
    code,
    tensors,
    objects,
)
ALL = [planted for planter in PLANTERS for planted in planter()]
