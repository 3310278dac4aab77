"""What is passed over unread, because it cannot be: every rule that says so holds for all there is."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.patterns import in_any_case
from archive.privacy.leaks.hosts import TOPS
from archive.privacy.pieces.encoded import BASE64, OTHER_ALPHABETS, WAYS
from archive.privacy.pieces.packed import is_deflate

TEXT = b"\n".join(b"layer %d of the model has %d weights" % (number, number * number) for number in range(40))


@pytest.mark.parametrize("way", [way for way in WAYS if way not in OTHER_ALPHABETS], ids=lambda way: way.name)
def test_a_run_of_other_letters_is_one_of_base64(way: object) -> None:
    assert isinstance(way, type(BASE64))
    assert set(way.alphabet) <= set(BASE64.alphabet)
    assert way.shortest >= BASE64.shortest


@given(st.binary(max_size=200), st.integers(0, 9), st.integers(9, 15), st.sampled_from([0, 1, 2, 3, 4]))
def test_whatever_zlib_deflates_is_found(more: bytes, level: int, window: int, strategy: int) -> None:
    text = TEXT + more.hex().encode()
    encoder = zlib.compressobj(level, zlib.DEFLATED, -window, 8, strategy)
    assert is_deflate(memoryview(encoder.compress(text) + encoder.flush()))


@pytest.mark.parametrize("text", [b"", b"\x07", b"\x06text of no block", b"\x00\x10\x00\x10\x00stored"])
def test_what_no_block_begins_with_is_no_stream(text: bytes) -> None:
    assert not is_deflate(memoryview(text))


@given(st.sampled_from(sorted(TOPS)), st.lists(st.booleans(), min_size=16, max_size=16))
def test_words_are_found_in_any_case(word: bytes, uppers: list[bool]) -> None:
    spelled = bytes(ord(chr(code).upper()) if up else code for code, up in zip(word, uppers, strict=False))
    pattern = re.compile(rb"(?:" + in_any_case(TOPS) + rb")\Z")
    assert pattern.match(spelled)
    assert not pattern.match(spelled + b"0")
