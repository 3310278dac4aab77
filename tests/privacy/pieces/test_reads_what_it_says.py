"""What is said to be read is read, in every mix; what is not read is named, wherever it begins."""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest

from archive import leaks

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive import Leaks

PATHS = ["/home/zqannxz/net.py", "/home/zqannxz/größe/net.py"]
LETTERS: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "hexadecimal digits": lambda data: data.hex().encode(),
    "HEXADECIMAL DIGITS": lambda data: data.hex().upper().encode(),
}


def of_record(data: bytes) -> Leaks:
    """What is found in a zip with such a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), data)
    return leaks(file.getvalue())


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("letters", LETTERS)
def test_letters_stand_for_text_of_any_width(letters: str, codec: str) -> None:
    for path in PATHS:
        for before in ("", "a", "ab", "abc"):
            encoded = LETTERS[letters]((before + " " + path).encode(codec))
            assert path in {one.text for one in of_record(b"x = '%s'" % encoded).findings}


@pytest.mark.parametrize("deep", range(1, 4))
def test_escapes_may_be_escaped_again(deep: int) -> None:
    text = PATHS[1].replace("/", "\\u002f").replace("ö", "\\u00f6").replace("ß", "\\u00df")
    for _ in range(1, deep):
        text = json.dumps(text)[1:-1]
    assert PATHS[1] in {one.text for one in of_record(f"x {text}".encode()).findings}


@pytest.mark.parametrize("word", ["größe ", "Überprüfung ", "привет ", "模型 "])
def test_bare_deflate_holds_text_of_any_script(word: str) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = packer.compress((word * 40 + PATHS[1]).encode()) + packer.flush()
    assert PATHS[1] in {one.text for one in of_record(data).findings}


MARKS = {
    "7z": b"7z\xbc\xaf\x27\x1c\0\4",
    "lz4": b"\x04\x22\x4d\x18\x64\x40\xa7",
    "lz4 of old": b"\x02\x21\x4c\x18\x10\x20\0\0",
    "snappy": b"\xff\x06\0\0sNaPpY",
    "lzip": b"LZIP\x01\x14",
    "cab": b"MSCF\0\0\0\0",
    "RAR": b"Rar!\x1a\x07\x01\0",
    "blosc2": b"\x9e\xa8b2frame\0",
    "age": b"age-encryption.org/v1\n",
    "PGP": b"-----BEGIN PGP MESSAGE-----",
}


@pytest.mark.parametrize("before", [b"", b"x", b"header\0\1" * 9])
@pytest.mark.parametrize("how", MARKS)
def test_what_is_not_unpacked_is_named_wherever_it_begins(how: str, before: bytes) -> None:
    problems = of_record(before + MARKS[how] + bytes(range(256))).problems
    assert any(f"by {how.partition(' ')[0]}, which is not read" in problem for problem in problems)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_file_of_windows_is_read_in_any_script(codec: str) -> None:
    text = "# сеть 🎉\r\npath = /home/王小明/模型/train.py\r\nuser = zqannxz\r\nmail = иван@почта.рф\r\n"
    data = ("\ufeff" + text).encode(codec)
    places = {one.text: one.places[0].byte for one in of_record(data).counted()}
    assert places.keys() >= {"/home/王小明/模型/train.py", "王小明", "zqannxz", "иван@почта.рф"}
    for found, byte in places.items():
        assert data[byte or 0 :].startswith(found.encode(codec))
