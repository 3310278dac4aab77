"""Whatever text is planted wherever a file can hold one: a publisher gets to see it, unless it is gone.

After ``redact --for publish --review`` each text is gone, of the vocabulary, named as left, or on the list.
The planter knows nothing of what detectors look for: words of prose, names of people, letters of any script,
numbers. It writes them into the bytes of each format by hand.
"""

from __future__ import annotations

import io
import json
import lzma
import pickle
import re
import struct
import zlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.container.container import Container
from archive.container.headers import CENTRAL, END
from archive.formats.elf.parse import parse_object
from archive.privacy.review.vocabulary import vocabulary
from tests.support.corpus import FIXTURES
from tests.support.onnx_bytes import entry, field, model
from tests.support.sampling import examples, sampled
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.privacy.review.listing import ReviewRow

# --- texts

PROSE = (
    "the quarterly forecast was wrong again", "do not show this to the auditors", "see minutes of Tuesday",
    "Vertragsnummer liegt bei", "patient refused consent", "merci de ne pas diffuser",
)  # fmt: skip
SYLLABLES = ("ma", "ri", "ko", "vel", "son", "ska", "tin", "bar", "lu", "dé", "ño", "strøm", "wicz", "oğlu")
LATIN = re.compile(r"[ -~\xa0-\xff]*")
NAMES = st.lists(st.sampled_from(SYLLABLES), min_size=3, max_size=5).map(lambda some: "".join(some).title())
PEOPLE = st.tuples(NAMES, NAMES).map(" ".join)
LETTERS = st.text(st.characters(categories=["Ll", "Lu", "Lo"]), min_size=6, max_size=20)
NUMBERS = st.integers(10**8, 10**13).map(str)
IN_WIDE_LETTERS = {"a record of no known kind, in UTF-16"}
"""Of texts in UTF-16 and UTF-32 those in Latin letters are read."""
OF_INTEGERS = {"a tensor of bytes", "a tensor of code points", "a tensor of code points, 32 bits"}
"""Of integers those that are printable are read: any may stand for a letter of some script."""
TEXTS = st.one_of(
    st.sampled_from(PROSE), NAMES, PEOPLE, LETTERS, NUMBERS, st.tuples(NAMES, NUMBERS).map(" ".join)
)

# --- places

SCRIPTED = FIXTURES / "releases" / "torch-2.13.0" / "nested.ptl"
EXPORTED = FIXTURES / "exported" / "shop.pt2"
SAVED = FIXTURES / "saved" / "torch-2.6.0.pt"
CODE = "code/__torch__/models.py"
Plant = "Callable[[str], bytes]"
PLACES: dict[str, Callable[[str], bytes]] = {}


def place(name: str) -> Callable[[Callable[[str], bytes]], Callable[[str], bytes]]:
    """Note what writes a file with a text at a place."""

    def note(plant: Callable[[str], bytes]) -> Callable[[str], bytes]:
        PLACES[name] = plant
        return plant

    return note


def identifier(text: str) -> str:
    """A text as a name of code."""
    return "v" + re.sub(r"\W", "_", text)


@place("a record's name")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {f"code/{text}/notes": b"\0"})


@place("the name of an extra file")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {f"extra/{text}.txt": b"\0"})


@place("an extra file")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {"extra/notes": f"a: {text}\n".encode()})


@place("a record of no known kind")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {"notes.bin": b"\x00\x01" + text.encode() + b"\x00\x02"})


@place("a record of no known kind, in UTF-16")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {"notes.bin": b"\x01\x02" + text.encode("utf-16-le") + b"\x00\x00"})


@place("a deflated stream in a record")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {"notes.bin": zlib.compress(text.encode() * 2)})


@place("a string of code")
def _(text: str) -> bytes:
    literal = json.dumps(text, ensure_ascii=False)
    return tampered(SCRIPTED, {CODE: lambda code: code + f"\ndef _noted():\n  return {literal}\n".encode()})


@place("a string of code, escaped")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {CODE: lambda code: code + f"\ndef _noted():\n  return {text!a}\n".encode()})


@place("a comment of code")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {CODE: lambda code: code + f"\n# {text}\n".encode()})


@place("a name of code")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {CODE: lambda code: code + f"\ndef {identifier(text)}(): pass\n".encode()})


def instead(record: str, old: str, new: str) -> bytes:
    """A file whose record, a pickle, has another string in the place of one."""
    strings = (b"X" + struct.pack("<I", len(text.encode())) + text.encode() for text in (old, new))

    def changed(data: bytes) -> bytes:
        was, now = strings
        assert was in data
        return data.replace(was, now)

    return tampered(SCRIPTED, {record: changed})


@place("a line of debug info")
def _(text: str) -> bytes:
    return instead(f"{CODE}.debug_pkl", "    def pair(self, a, b):\n", f"    # {text:<30}\n")


@place("a file of debug info")
def _(text: str) -> bytes:
    return instead(f"{CODE}.debug_pkl", "/src/models.py", text)


@place("a constant of bytecode")
def _(text: str) -> bytes:
    return instead("bytecode.pkl", 'rows\tof a "quoted" batch', text)


@place("a module of call stacks")
def _(text: str) -> bytes:
    return instead("callstack_debug_map.pkl", "inner", text)


@place("a constant")
def _(text: str) -> bytes:
    return tampered(SCRIPTED, {"constants.pkl": pickle.dumps((text,), protocol=2)})


def saved(value: object, protocol: int = 2) -> bytes:
    """A checkpoint."""
    return tampered(SAVED, {"data.pkl": pickle.dumps(value, protocol)})


@place("a value of a pickle")
def _(text: str) -> bytes:
    return saved({"epoch": 1, "note": text})


@place("a key of a pickle")
def _(text: str) -> bytes:
    return saved({text: 1.5})


@place("a key of a pickle, without a value")
def _(text: str) -> bytes:
    return saved({"some": {text: None}, "more": {(text, 1): 2}})


@place("a set of a pickle")
def _(text: str) -> bytes:
    return saved({"seen": {text}, "frozen": frozenset([text])}, 4)


@place("bytes of a pickle")
def _(text: str) -> bytes:
    return saved({"raw": text.encode()}, 4)


@place("bytes of a pickle of protocol 2")
def _(text: str) -> bytes:
    return saved({"raw": text.encode()})


@place("a pickle of protocol 0")
def _(text: str) -> bytes:
    return saved({"note": text}, 0)


@place("a pickle in a pickle")
def _(text: str) -> bytes:
    return saved({"raw": pickle.dumps([text], 4)}, 4)


@place("JSON in a pickle")
def _(text: str) -> bytes:
    return saved({"config": json.dumps({"run": {text: 1}, "by": [text]})})


@place("a global of a pickle")
def _(text: str) -> bytes:
    return tampered(SAVED, {"data.pkl": b"\x80\x02c" + identifier(text).encode() + b".net\nModel\n)R."})


@place("an attribute of a pickle")
def _(text: str) -> bytes:
    state = pickle.dumps({text: 1}, 2)[2:-1]
    return tampered(SAVED, {"data.pkl": b"\x80\x02cacme.net\nModel\n)R" + state + b"b."})


@place("behind the end of a pickle")
def _(text: str) -> bytes:
    return tampered(SAVED, {"data.pkl": pickle.dumps({"a": 1}, 2) + text.encode()})


@place("a table of a pickle")
def _(text: str) -> bytes:
    return saved({"vocabulary": {f"token{number}": number for number in range(120)} | {f"a {text}": 120}})


@place("texts of NumPy")
def _(text: str) -> bytes:
    return saved({"labels": np.array([text, "b"])})


@place("bytes of NumPy")
def _(text: str) -> bytes:
    return saved({"labels": np.array([text.encode(), b"b"])})


@place("objects of NumPy")
def _(text: str) -> bytes:
    return saved({"labels": np.array([text, None], object)})


@place("fields of NumPy")
def _(text: str) -> bytes:
    return saved({"rows": np.zeros(2, [(text, "<f4")])})


def with_tensor(storage: bytes, data: bytes, count: int) -> bytes:
    """A checkpoint with one tensor of integers."""
    number = b"J" + struct.pack("<i", count)
    tensor = (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n" + storage + b"\nX\x01\0\0\0"
        b"7X\x03\0\0\0cpu" + number + b"tQK\0" + number + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR"
    )
    return tampered(SAVED, {"data.pkl": b"\x80\x02}X\x05\0\0\0token" + tensor + b"s.", "data/7": data})


@place("a tensor of bytes")
def _(text: str) -> bytes:
    data = text.encode()
    return with_tensor(b"ByteStorage", data, len(data))


@place("a tensor of code points")
def _(text: str) -> bytes:
    return with_tensor(b"LongStorage", np.array([*map(ord, text)], "<i8").tobytes(), len(text))


@place("a tensor of code points, 32 bits")
def _(text: str) -> bytes:
    return with_tensor(b"IntStorage", np.array([*map(ord, text)], "<i4").tobytes(), len(text))


def changed_json(change: Callable[[dict[str, object]], None]) -> bytes:
    """An exported program with other JSON."""

    def changed(data: bytes) -> bytes:
        value = json.loads(data)
        change(value)
        return json.dumps(value).encode()

    return tampered(EXPORTED, {"models/model.json": changed})


@place("a key of a program")
def _(text: str) -> bytes:
    return changed_json(lambda program: program.update({text: 1}))


@place("a value of a program")
def _(text: str) -> bytes:
    return changed_json(lambda program: program.update(verifiers=[text]))


@place("metadata of a node")
def _(text: str) -> bytes:
    def change(program: dict[str, object]) -> None:
        graph = program["graph_module"]["graph"]  # type: ignore[index]
        graph["nodes"][0]["metadata"]["by"] = text

    return changed_json(change)


@place("a constant of a program")
def _(text: str) -> bytes:
    def change(program: dict[str, object]) -> None:
        graph = program["graph_module"]["graph"]  # type: ignore[index]
        graph["nodes"][0]["inputs"].append({"name": "mode", "arg": {"as_string": text}, "kind": 1})

    return changed_json(change)


@place("the configuration of weights")
def _(text: str) -> bytes:
    def changed(data: bytes) -> bytes:
        value = json.loads(data)
        value["config"][text] = next(iter(value["config"].values()))
        return json.dumps(value).encode()

    return tampered(EXPORTED, {"data/weights/model_weights_config.json": changed})


@place("JSON that is no program")
def _(text: str) -> bytes:
    return tampered(EXPORTED, {"extra.json": json.dumps({"a": {text: [text]}}, ensure_ascii=False).encode()})


def with_comment(text: bytes) -> bytes:
    """A file with bytes behind its directory."""
    data = SCRIPTED.read_bytes()
    return data[:-2] + struct.pack("<H", len(text)) + text


@place("a zip's comment")
def _(text: str) -> bytes:
    return with_comment(text.encode())


def in_directory(name_more: int, text: bytes) -> bytes:
    """A file whose first record has a comment, or an extra field, in the directory."""
    data = SCRIPTED.read_bytes()
    end = data.rfind(END.magic)
    start = data.find(CENTRAL.magic)
    name, extra, comment = struct.unpack_from("<HHH", data, start + 28)
    at = start + CENTRAL.size + name + extra + comment
    grown = bytearray(data[:at] + text + data[at:])
    struct.pack_into("<H", grown, start + name_more, len(text))
    shift = len(text)
    end += shift
    (size,) = struct.unpack_from("<I", grown, end + 12)
    struct.pack_into("<I", grown, end + 12, size + shift)
    wide = grown.rfind(b"PK\x06\x06")
    if wide >= 0:
        (size,) = struct.unpack_from("<Q", grown, wide + 40)
        struct.pack_into("<Q", grown, wide + 40, size + shift)
        locator = grown.rfind(b"PK\x06\x07")
        struct.pack_into("<Q", grown, locator + 8, wide)
    return bytes(grown)


@place("a record's comment")
def _(text: str) -> bytes:
    return in_directory(32, text.encode())


@cache
def compiled() -> bytes:
    """A package of a compiled model."""
    return lzma.decompress((FIXTURES / "compiled" / "plain.pt2.xz").read_bytes())


def with_object(section: str, text: bytes) -> bytes:
    """A package whose shared object has a text in a section."""

    def changed(data: bytes) -> bytes:
        stretch = next(one for one in parse_object(memoryview(data)).stretches() if one.name == section)
        assert len(text) <= stretch.end - stretch.start
        return data[: stretch.start] + text + data[stretch.start + len(text) :]

    with archive.open(compiled()) as opened:
        name = next(name for name in opened.records if name.endswith(".so"))
    return tampered(compiled(), {name: changed})


@place("an object's read-only data")
def _(text: str) -> bytes:
    return with_object(".rodata", text.encode() + b"\0")


@place("an object's data")
def _(text: str) -> bytes:
    return with_object(".data", text.encode() + b"\0")


@place("metadata of safetensors")
def _(text: str) -> bytes:
    return safetensors({"__metadata__": {"by": text}})


@place("a key of metadata of safetensors")
def _(text: str) -> bytes:
    return safetensors({"__metadata__": {text: "1"}})


@place("a name in safetensors")
def _(text: str) -> bytes:
    return safetensors({text: {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}})


def safetensors(more: dict[str, object]) -> bytes:
    """A file of safetensors with one tensor, and more in its header."""
    tensor = {"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    header = json.dumps(more | tensor, ensure_ascii=False).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


ARRAYS = {"weight": np.zeros(2, np.float32)}


@place("metadata of ONNX")
def _(text: str) -> bytes:
    return model(ARRAYS, more=field(14, entry("by", text)))


@place("a key of metadata of ONNX")
def _(text: str) -> bytes:
    return model(ARRAYS, more=field(14, entry(text, "1")))


@place("a doc string of ONNX")
def _(text: str) -> bytes:
    return model(ARRAYS, more=field(6, text), graph=field(10, text))


@place("the producer of ONNX")
def _(text: str) -> bytes:
    return model(ARRAYS, more=field(2, text))


@place("a node of ONNX")
def _(text: str) -> bytes:
    return model(ARRAYS, nodes=[field(1, "weight") + field(2, "y") + field(3, text) + field(4, "Relu")])


@place("an attribute of ONNX")
def _(text: str) -> bytes:
    attribute = field(1, "mode") + field(4, text) + field(20, 3)
    return model(ARRAYS, nodes=[field(1, "weight") + field(2, "y") + field(4, "Relu") + field(5, attribute)])


@place("a tensor's name in ONNX")
def _(text: str) -> bytes:
    return model(ARRAYS | {text: np.zeros(1, np.float32)})


def gguf(*pairs: bytes, names: tuple[str, ...] = ("weight",)) -> bytes:
    """A file of GGUF."""
    tensors = b"".join(
        of_gguf(name) + struct.pack("<IQIQ", 1, 1, 0, 32 * at) for at, name in enumerate(names)
    )
    head = b"GGUF" + struct.pack("<IQQ", 3, len(names), len(pairs)) + b"".join(pairs) + tensors
    return head + bytes(-len(head) % 32) + bytes(32 * len(names))


def of_gguf(text: str) -> bytes:
    """A string of GGUF."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


TEXT_TYPE, LIST_TYPE = 8, 9


@place("a value of GGUF")
def _(text: str) -> bytes:
    return gguf(of_gguf("general.description") + struct.pack("<I", TEXT_TYPE) + of_gguf(text))


@place("a key of GGUF")
def _(text: str) -> bytes:
    return gguf(of_gguf(text) + struct.pack("<I", TEXT_TYPE) + of_gguf("1"))


@place("a list of GGUF")
def _(text: str) -> bytes:
    kinds = struct.pack("<IIQ", LIST_TYPE, TEXT_TYPE, 2)
    return gguf(of_gguf("general.tags") + kinds + of_gguf(text) + of_gguf("b"))


@place("a tensor's name in GGUF")
def _(text: str) -> bytes:
    return gguf(names=("weight", text))


# --- what becomes of them


def every_byte(data: bytes) -> Iterator[bytes]:
    """A file's bytes, and those of its records."""
    yield data
    if data.startswith(b"PK"):
        with Container.open(data) as opened:
            yield from (bytes(record.view()) for record in opened.records.values())


def stands(text: str, data: bytes) -> bool:
    """Whether a text is there, as it is, or escaped, or as bytes of a pickle of protocol 2."""
    plain = (text, identifier(text), json.dumps(text)[1:-1], ascii(text)[1:-1])
    forms = [form.encode() for form in plain] + [text.encode("raw-unicode-escape")]
    wide = [text.encode(codec) for codec in ("utf-8", "utf-16-le", "utf-32-le")]
    forms += [*wide, *(form.decode("latin-1").encode() for form in wide)]
    forms.append(np.array([*map(ord, text)], "<i8").tobytes())
    return any(form in some for some in every_byte(data) for form in forms)


WORD = re.compile(r"\d{7,}|[^\W\d_]{2,}")
KNOWN = {*vocabulary().identifiers, *vocabulary().literals, "NaN", "Infinity", "true", "false", "null"}


def unseen(text: str, seen: list[str]) -> list[str]:
    """The words and long numbers of a text that nothing shows, and that are no vocabulary."""
    whole = "\n".join(seen)
    return [word for word in WORD.findall(text) if word not in KNOWN and word not in whole]


def shown(rows: tuple[ReviewRow, ...]) -> list[str]:
    """The texts of rows, those of tables with what is odd in them."""
    return [text for row in rows for text in (row.text, *(row.table.odd if row.table else ()))]


def is_printed(text: str) -> bool:
    """Whether integers that are a text look like one: printable, and not one number again and again."""
    return text.isascii() and len(set(text)) >= FEWEST_DISTINCT


FEWEST_DISTINCT = 4


def published(data: bytes) -> tuple[bytes, list[str]]:
    """A file as it is published, and all texts that the publisher is shown."""
    if not data.startswith(b"PK") and data[8:9] != b"{":
        return data, shown(archive.review(data).rows)  # a kind that is not redacted
    out = io.BytesIO()
    with TemporaryDirectory() as folder:
        review = Path(folder) / "review.jsonl"
        if data.startswith(b"PK"):
            facts: archive.Redaction | archive.MetadataRedaction = archive.redact(
                data, out, io.BytesIO(), preset="publish", review=review, partial=True
            )
        else:
            facts = archive.redact_metadata(data, out, preset="publish", review=review, partial=True)
        rows = archive.read_review(review)
    return out.getvalue(), [
        *map(str, facts.remaining),
        *facts.problems,
        *facts.unread,
        *(shown(rows.rows) if rows else []),
    ]


@pytest.mark.parametrize("where", sampled(PLACES, most=24))
def test_what_is_planted_is_gone_or_shown(where: str) -> None:
    texts = TEXTS.filter(is_printed) if where in OF_INTEGERS else TEXTS
    texts = texts.filter(LATIN.fullmatch) if where in IN_WIDE_LETTERS else texts

    @settings(max_examples=examples(10), deadline=None)
    @given(texts)
    def plant(text: str) -> None:
        data = PLACES[where](text)
        assert stands(text, data) or "stream" in where
        out, seen = published(data)
        if stands(text, out):
            assert unseen(text, seen) == []

    plant()
