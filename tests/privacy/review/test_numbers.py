"""Texts in the numbers of tensors: of every script, in every width and type, and none in random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from archive.privacy.review.numbers import texts_of_numbers

SCRIPTS = {
    "Latin": "Jörg Müller",
    "Polish": "Łódź Żółkiewski",
    "Greek": "Ελένη Παπαδοπούλου",
    "Cyrillic": "Анна Петрова",
    "Chinese": "佐藤健一様",
    "Japanese": "すずきタロウの顧客名簿",
    "Korean": "김철수",
    "Arabic": "محمد علي",
    "Hebrew": "יוסי כהן",  # noqa: RUF001
    "Thai": "สมชาย ใจดี",
    "Hindi": "अनिल कुमार",
    "Armenian": "Արամ Սարգսյան",
}
WIDE = "<i8", "<u8", "<i4", "<u4", "<f4", "<f8"
EXACT = {"<f2": 2048, "bfloat16": 256, "u1": 256}
"""Types that have whole numbers, or code points, only below some."""


def listed(data: bytes) -> str:
    return "".join(texts_of_numbers(memoryview(data)))


def as_numbers(codes: list[int], kind: str) -> bytes:
    if kind == "bfloat16":
        return (np.array(codes, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return np.array(codes).astype(kind).tobytes()


CASES = [
    (script, kind)
    for script, text in SCRIPTS.items()
    for kind in (*WIDE, "utf-8", *EXACT)
    if max(map(ord, text)) < EXACT.get(kind, 1 << 16)
]


@pytest.mark.parametrize(("script", "kind"), CASES)
def test_a_text_of_any_script_is_found_in_any_type_that_can_hold_it(script: str, kind: str) -> None:
    text = SCRIPTS[script]
    data = text.encode() if kind == "utf-8" else as_numbers(list(map(ord, text)), kind)
    assert text in listed(data)
    assert text in listed(bytes(8 * 1000) + data + bytes(8 * 1000))


@pytest.mark.parametrize("text", ["Jörg Müller", "Анна Петрова", "佐藤健一様佐藤", "محمد علي"])
def test_texts_of_utf_16_are_found(text: str) -> None:
    assert listed(text.encode("utf-16-le")) == text


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", ["<i8", "<i4", "<f4", "<f8"])
@pytest.mark.parametrize(
    ("before", "after"), [([-1] * 5, []), ([1], [2]), ([], [-100] * 9), ([1], [2] + [-100] * 400)]
)
def test_numbers_around_a_text_do_not_hide_it(
    script: str, kind: str, before: list[int], after: list[int]
) -> None:
    text = SCRIPTS[script] * 2
    codes = [*before, *map(ord, text), *after]
    assert listed(as_numbers(codes * 2, kind)) == text * 2


def test_so_do_not_those_around_bytes() -> None:
    for text in SCRIPTS.values():
        for before, after in ((b"\1", b"\2"), (b"", b"\xff" * 9), (b"\1", b"\2" + bytes(30))):
            assert text in listed(before + (text * 2).encode() + after)


@pytest.mark.parametrize("seed", range(3))
def test_random_numbers_are_no_texts(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    for size in (4, 9, 100, 5000):
        for floats in (numbers.standard_normal(size * 4), numbers.uniform(-1, 1, size * 4), np.zeros(size)):
            for kind in ("<f8", "<f4", "<f2", "bfloat16"):
                values = np.abs(floats).astype(kind) if kind == "<f2" else floats
                assert listed(as_numbers(values.tolist(), kind)) == ""
        assert listed(numbers.integers(0, 256, size * 16, np.uint8).tobytes()) == ""
        assert listed(numbers.integers(-(1 << 62), 1 << 62, size).tobytes()) == ""
    assert listed(np.arange(20000, 21000).tobytes()) == ""
    signs = numbers.choice(np.arange(0x4E00, 0x9FA0), 20, replace=False)
    assert (listed(np.sort(signs).tobytes()), listed(signs.tobytes()) != "") == ("", True)
    assert listed(np.sort(numbers.integers(100, 60000, 500)).tobytes()) == ""


def test_what_is_not_found_is_what_the_page_says() -> None:
    """As ``docs/how-to/publish.md`` has it: three letters, and a text within noise."""
    numbers = np.random.default_rng(0)
    assert listed(b"Max") == listed(as_numbers(list(map(ord, "Max")), "<i8")) == ""
    noise = numbers.integers(128, 256, 2000, np.uint8).tobytes()
    assert listed(noise + "佐藤健一様の顧客名簿".encode() + noise) == ""
    assert listed(noise + b"Kirkpatrick" + noise) == ""
    assert listed(noise + b"a name among the numbers of Kirkpatrick" + noise) != ""
