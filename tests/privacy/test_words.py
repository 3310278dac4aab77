"""Words are found in a text wherever windows of it end, and no others are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.privacy.leaks import words
from archive.privacy.leaks.entries import TELLING
from archive.privacy.leaks.words import Words

EXACT = [b"ghp_", b"sk-", b"AccountKey=", b"USER", b"user", b"username"]
IN_ANY_CASE = [b"pwd", b"token", b"private_key"]
PART = st.sampled_from([*EXACT, *IN_ANY_CASE, b"TOKEN", b"Pwd", b"ghp", b"use", b"rname", b"\xc4", b"\0"])
TEXT = st.lists(PART | st.binary(max_size=5), max_size=12).map(b"".join)


@given(TEXT, st.sampled_from([1, 2, 5, 1 << 16]), st.sampled_from([4, 14]))
def test_words_are_those_that_stand_there(text: bytes, window: int, bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "WINDOW", window)
        patch.setattr(words, "HASH_BITS", {False: bits, True: bits + 1})
        found = Words(EXACT, IN_ANY_CASE).among(text)
    assert found.exact == [word for word in EXACT if word in text]
    assert found.in_any_case == [word for word in IN_ANY_CASE if word in text.lower()]


def test_no_text_has_every_word() -> None:
    assert TELLING.among(b"") == ([], [])
    assert TELLING.among(b"Token: AKIA") == ([b"AKIA"], [b"token"])
