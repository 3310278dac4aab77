"""A text is found whatever stands before it, and a path ends where its string ends."""

from __future__ import annotations

import io
import json
import marshal
import pickle
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
import yaml

from archive import LeakKind, leaks
from archive.privacy.pieces.lengths import without_lengths
from tests.support.framed_bytes import in_msgpack
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable


def of_record(data: bytes) -> set[tuple[LeakKind, str]]:
    """What a zip gives away by a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), data)
    return {(one.kind, one.text) for one in leaks(file.getvalue()).counted()}


def protobuf(field: int) -> Callable[[str], bytes]:
    """Texts as fields of a message, in which others follow."""

    def of(text: str) -> bytes:
        data = text.encode()
        return bytes([field << 3 | 2, len(data)]) + data + b"\x12\x03abc"

    return of


STORED: dict[str, Callable[[str], bytes]] = {
    **{f"protobuf, field {field}": protobuf(field) for field in (1, 2, 4, 6, 8, 15)},
    "MessagePack": lambda text: b"\x82\xa4path\xd9" + bytes([len(text)]) + text.encode() + b"\xa1n\x01",
    "CBOR": lambda text: b"\xa2dpathx" + bytes([len(text)]) + text.encode() + b"an\x01",
    "marshal": lambda text: marshal.dumps({"path": text, "n": 1}),
    "big-endian": lambda text: len(text).to_bytes(4, "big") + text.encode() + b"\0",
    "bytes in a pickle": lambda text: pickle.dumps({"a": protobuf(1)(text)}, 3),
}
"""Ways to store a text with its length in the byte before it."""
LENGTHS = range(48, 123, 7)
"""Bytes that are letters and digits."""


@pytest.mark.parametrize("form", STORED)
@pytest.mark.parametrize(
    "head", ["/home/zqannxz/", "/srv/team/", "/opt/corp/", "/Users/zqannxz/", "D:\\build\\a\\"]
)
def test_a_path_is_found_though_its_length_is_a_letter(head: str, form: str) -> None:
    for length in LENGTHS:
        path = head + "n" * (length - len(head) - 3) + ".py"
        assert path in {text for _, text in of_record(STORED[form](path))}, length


@pytest.mark.parametrize("form", STORED)
def test_a_token_is_found_though_its_length_is_a_letter(form: str) -> None:
    for token in ("gsk_" + "a1B2" * 13, "sk-" + "a1B2" * 12, "api_org_" + "aBcD" * 8 + "ef"):
        assert (LeakKind.KEY, token) in of_record(STORED[form](token))


@pytest.mark.parametrize("before", ["-isystem", "-L", "x", "cache1", "src_"])
def test_a_home_begins_wherever_it_stands(before: str) -> None:
    found = of_record(f"cc {before}/home/zqannxz/include/net.h".encode())
    assert {(LeakKind.HOME, "/home/zqannxz/include/net.h"), (LeakKind.USER, "zqannxz")} <= found


def test_lengths_are_only_bytes_that_say_how_many_follow() -> None:
    for text in (
        b"torch/nn/modules/linear.py",
        b"a/b/c/d.py",
        b'"a/b/c/d/e.py"\n',
        b"1/2/3/4",
        b"zq/x/y/z.py",
    ):
        assert without_lengths(text) == text
        assert of_record(text) == set()


WHOLE = [
    r"C:\Users\zqannxz\OneDrive - The Acmebank AG\Projekt Osterhagn\net.py",
    r"D:\Team [old], (2023)\Projekt, neu\net.py",
    "/home/zqannxz/My (own) models, final [v2]/net.py",
    "/mnt/share/Team A, B & C/Projekt (x)/net.pt",
    r"\\files01\Team [old], all of it\Projekt - neu\net.py",
    "/srv/größe und maß/x (1).pt",
]


def in_npy(value: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, value, allow_pickle=True)
    return file.getvalue()


WRITTEN: dict[str, Callable[[str], bytes]] = {
    "alone": str.encode,
    "lines": lambda path: f"a\n{path}\nb".encode(),
    "JSON": lambda path: json.dumps({"a": path}).encode(),
    "JSON on lines": lambda path: json.dumps([{"a": path}], indent=1, ensure_ascii=False).encode(),
    "an option in JSON": lambda path: json.dumps(["--data=" + path]).encode(),
    **{f"pickle {one}": lambda path, one=one: pickle.dumps({"a": path}, one) for one in range(6)},  # type: ignore[misc]
    "Python": lambda path: f"x = '{path}'\n".encode(),
    "YAML": lambda path: yaml.safe_dump({"a": path, "b": 1}).encode(),
    "a list in YAML": lambda path: yaml.safe_dump({"a": [path, "b"]}, allow_unicode=True).encode(),
    "INI": lambda path: f"[x]\na = {path}\nb = 1\n".encode(),
    "an environment": lambda path: f"DATA_DIR={path}\nX=1\n".encode(),
    "tabulators": lambda path: f"1\t{path}\t2\n".encode(),
    "XML": lambda path: f"<a>{path}</a>".encode(),
    "NumPy": lambda path: in_npy(np.array([path, "x"])),
    "NumPy, bytes": lambda path: in_npy(np.array([path.encode(), b"x"])),
    "NumPy, objects": lambda path: in_npy(np.array([path, None], dtype=object)),
    "NumPy in a pickle": lambda path: pickle.dumps({"a": np.array([path, path])}, 4),
    "MessagePack": lambda path: in_msgpack({"a": path, "b": 1}),
    "Protobuf": lambda path: protobuf(2)(path) + b"\x08\x01",
    "UTF-16": lambda path: b"\0\1" + path.encode("utf-16-le") + b"\0\0\1",
}


@pytest.mark.parametrize(("path", "form"), crossed(WHOLE, WRITTEN, most=60))
def test_a_path_ends_where_its_string_ends(path: str, form: str) -> None:
    assert path in {text for kind, text in of_record(WRITTEN[form](path)) if kind.is_path}


@pytest.mark.parametrize(
    "behind",
    [
        " and more",
        ", line 12, in forward",
        "(12): forward",
        " (see /home/zqbobxz/b.py)",
        " -> /home/zqbobxz/b.py",
        " or C:\\x.py",
        ": No such file or directory",
        " failed. See a page.",
    ],
)
def test_a_sentence_after_a_path_is_no_part_of_it(behind: str) -> None:
    for form in ("alone", "JSON", "pickle 2"):
        assert (LeakKind.HOME, "/home/zqannxz/a.py") in of_record(
            WRITTEN[form](f"/home/zqannxz/a.py{behind}")
        )


@pytest.mark.parametrize("root", ["m", "模型", "modele_ü", "сеть"])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_name_of_a_record_is_no_absolute_path(root: str, compression: int) -> None:
    """Whatever letter the folder of an archive ends with; a home in a name is one all the same."""

    def found(*names: str) -> set[tuple[LeakKind, str]]:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as target:
            for name in names:
                target.writestr(zipfile.ZipInfo(f"{root}/{name}"), b"1")
        counted = leaks(file.getvalue()).counted()
        return {(one.kind, one.text) for one in counted if one.kind is not LeakKind.TIME}

    ordinary = ("data/0", "code/__torch__/net.py", "code/__torch__/包/子包/net.py.debug_pkl")
    assert not found(*ordinary)
    assert (LeakKind.HOME, "/home/zqannxz/net.py") in found(*ordinary, "home/zqannxz/net.py")
