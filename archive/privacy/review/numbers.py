"""Texts in the bytes of tensors: a name as a row of code points, a text as bytes.

Numbers of a model are seldom all letters. So a storage holds a text if nearly all of its numbers, of
whichever width and type, are code points of letters of one script, digits, blanks or signs, or if its bytes
are such in UTF-8 or Latin-1. Numbers of a few kinds that are no letters may stand between: zeros, padding,
beginnings and ends of texts. A long run of letters of ASCII among other bytes is a text, too. Shorter ones,
and those of other letters, stand among random numbers by chance.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

UTF_8, LATIN_1, HALF, BFLOAT = "utf-8", "u1", "<f2", "bfloat16"
FORMS = {"<i8": 8, "<i4": 4, "<f8": 8, "<f4": 4, UTF_8: 4, HALF: 2, BFLOAT: 2, "<u2": 2, LATIN_1: 1}
"""What numbers may be, with the most bytes of a letter: the widest first, for text in bytes has large ones;
and integers of 16 bits late, as two letters of ASCII are one of Chinese. Floats of 16 bits look like UTF-8,
so both readings are listed."""
NARROW = 2
"""Bytes of numbers of which a few are letters by chance."""
FEWEST, FEWEST_BY_CHANCE = 4, 6
"""Letters of a text, and of one that may be by chance. In UTF-8, bytes count; Korean letters count twice, as
three are a name."""
MOST_KINDS, MOST_OF_BYTES = 4, 2
"""Kinds of numbers between texts, besides zeros, and of bytes."""
SHARE, SHARE_OF_SCRIPT, SHARE_OF_ASCII = 0.9, 0.8, 0.5
"""Where numbers are a text: the part of them that are letters or signs; of these the part that are letters of
ASCII, digits, blanks, or letters of one other script; or the part of ASCII only, where others are Latin."""
LONGEST_ORDERED = 8
"""As many numbers that never fall are no text."""
CUT = 3
"""Bytes of a letter of UTF-8 that is cut at an end of what is looked at."""
MOST_BYTES, LOOKED_AT = 1 << 20, 1 << 8
"""Bytes of a storage in which texts are looked for, and numbers that are asked before all others."""
WHOLE_FORMS = {"i4": 1 << 27, "i8": 10**15, "f8": 1 << 53}
"""Types of whole numbers, and what all are less than."""
FORM_OF_TYPE = dict.fromkeys(("int32", "uint32", "qint32"), "i4") | dict.fromkeys(("int64", "uint64"), "i8")
FORM_OF_TYPE |= dict.fromkeys(("float64", "complex128"), "f8")
"""How PyTorch's types of elements are read; others have no number of so many digits that is exact."""
HALF_WORD = 1 << 16
LAST, NO_LETTER = 0xFFFF, "\ufffd"
"""The largest code point of a text, and what stands for bytes that are none."""
CATEGORIES = "L", "M", "N", "P", "Zs", "Sc"
"""Categories of Unicode that texts are of."""
OF_JAPANESE = {"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}
RARE, KOREAN = range(0x3400, 0x4E00), range(0xAC00, 0xD7B0)
"""Rare signs of Chinese, which floats of 16 bits look like, and Korean, which negative ones look like."""
NO_CONTROLS = bytes({0, 9, 10, 13, *range(0x20, 0x7F), *range(0x80, 0xFF)})
"""Bytes of letters and signs in some encoding, and zeros, which may stand between."""
PRINTED, SHORTEST_RUN = bytes(code in range(0x20, 0x7F) for code in range(256)), b"\1" * 24
"""Translates bytes to 1 for letters and signs of ASCII; as many in a row are hardly numbers."""


def texts_of_numbers(storage: memoryview) -> Iterator[str]:
    """The texts that the bytes of a storage are, if any."""
    data = bytes(storage[:MOST_BYTES])
    at = _end_of_padding(data)
    begin = data[at : at + 8 * LOOKED_AT]
    is_found = False
    for form, width in FORMS.items():
        if is_found and form != HALF:
            return
        if _text(_numbers(begin[: width * LOOKED_AT], form), form) is not None:
            text = _text(_numbers(data, form), form)
            if text is not None:
                yield from filter(None, text.split("\0"))
                is_found = True
    if is_found:
        return
    is_printed = data.translate(PRINTED)
    at = is_printed.find(SHORTEST_RUN)
    while at >= 0:
        end = is_printed.find(b"\0", at)
        end = len(data) if end < 0 else end
        if _text(np.frombuffer(data[at:end], np.uint8), LATIN_1) is not None:
            yield data[at:end].decode()
        at = is_printed.find(SHORTEST_RUN, end)


def whole_numbers(
    storage: memoryview, types: Collection[str] = (), *, is_big_endian: bool = False
) -> list[int]:
    """The numbers of a storage, if all are whole.

    Words of 64 bits are below 10^15, of 32 bits below 2^27: floats of these bits are hardly any model's.
    Where the type is not known, multiples of 2^16 are left out: floats of 32 bits with few digits are such.

    Args:
        types: of the elements of its tensors; none if they are not known, so that it may be any.
    """
    data = bytes(storage[:MOST_BYTES])
    if max(data, default=0) <= 1:  # flags
        return []
    forms = {FORM_OF_TYPE[one] for one in types if one in FORM_OF_TYPE} if types else WHOLE_FORMS
    for form in (form for form in WHOLE_FORMS if form in forms):
        order = ">" if is_big_endian else "<"
        numbers = np.frombuffer(data, order + form, len(data) // np.dtype(form).itemsize)
        with np.errstate(invalid="ignore"):
            is_whole = bool(np.all(np.abs(numbers) < WHOLE_FORMS[form]))
            is_whole = is_whole and bool(np.all(numbers == np.trunc(numbers)))
        if len(numbers) and is_whole:
            whole = numbers.astype(np.int64)
            return list(map(int, np.unique(whole if types else whole[whole % HALF_WORD != 0])))
    return []


def text_of_codes(codes: np.ndarray) -> str | None:
    """The text that some whole numbers are the code points of; None if they are none."""
    return _text(codes, "<i8")


def _end_of_padding(data: bytes) -> int:
    """Where the first eight bytes are not repeated any more."""
    words = np.frombuffer(data, "<i8", len(data) // 8)
    if len(words) < LOOKED_AT // 8 or np.any(words[: LOOKED_AT // 8] != words[0]):
        return 0
    return 8 * int(np.argmax(words != words[0]))


@np.errstate(invalid="ignore")  # NaN
def _numbers(data: bytes, form: str) -> np.ndarray:
    """Bytes as numbers of a type, or as the code points of their letters, if these may be a text."""
    if form == BFLOAT:
        return (_numbers(data, "<u2").astype("<u4") << 16).view("<f4")
    if form in {UTF_8, LATIN_1}:
        controls = data[:LOOKED_AT].translate(None, NO_CONTROLS)
        if len(set(controls)) > MOST_KINDS and len(controls) > (1 - SHARE) * min(len(data), LOOKED_AT):
            return np.empty(0, "<u4")
    if form == UTF_8:
        text = data.replace(b"\xff", b"\0").decode(form, "replace")
        is_text = text.count(NO_LETTER) <= (1 - SHARE) * len(text) + CUT
        return np.frombuffer(text.encode("utf-32-le") if is_text else b"", "<u4")
    numbers = np.frombuffer(data, form, len(data) // np.dtype(form).itemsize)
    return numbers.astype("<f4") if form == HALF else numbers


@np.errstate(invalid="ignore")
def _text(numbers: np.ndarray, form: str) -> str | None:
    """The letters that nearly all of some numbers are, with NUL for all others; None if they are not."""
    is_code = (numbers > 0) & (numbers <= LAST)
    if np.count_nonzero(is_code) < FEWEST // 2:
        return None
    codes = np.where(is_code, numbers, 0).astype(np.int64)
    is_letter = _letters()[codes] & (codes == numbers)
    found = int(np.count_nonzero(is_letter))
    if found < FEWEST // 2:
        return None
    between = numbers[~is_letter & (numbers != 0)]
    is_nearly_all = found >= SHARE * (found + len(between))
    if not is_nearly_all and not _are_between(between, is_letter, form):
        return None
    text, is_narrow = codes[is_letter], FORMS[form] <= NARROW
    if form == UTF_8:
        if not _are_parts(is_letter, 2):  # it is UTF-16
            return None
        found = len("".join(map(chr, text.tolist())).encode())
    elif not is_narrow:
        found += int(np.count_nonzero((text >= KOREAN.start) & (text < KOREAN.stop)))
    fewest = FEWEST if is_nearly_all and not is_narrow else FEWEST_BY_CHANCE
    if found < fewest or not _is_of_script(text, is_narrow=is_narrow):
        return None
    steps = np.unique(np.diff(text))
    if len(steps) == 1 or (len(text) >= LONGEST_ORDERED and steps[0] >= 0):
        return None
    return "".join(map(chr, np.where(is_letter, codes, 0).tolist()))


@lru_cache(1)
def _letters() -> np.ndarray:
    """Whether each code point is of a letter or sign of texts."""
    categories = map(unicodedata.category, map(chr, range(LAST + 1)))
    is_letter = np.array([category.startswith(CATEGORIES) for category in categories])
    is_letter[RARE.start : RARE.stop] = False
    is_letter[[9, 10, 13]] = True
    return is_letter


def _are_between(others: np.ndarray, is_letter: np.ndarray, form: str) -> bool:
    """Whether numbers that are no letters are of few kinds, and nearly all letters are in parts between."""
    most = MOST_OF_BYTES if form in {UTF_8, LATIN_1} else MOST_KINDS
    return len(np.unique(others)) <= most and _are_parts(is_letter, FEWEST)


def _are_parts(is_letter: np.ndarray, shortest: int) -> bool:
    """Whether nearly all letters stand in parts that are not shorter."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_letter, [0]))))
    lengths = edges[1::2] - edges[::2]
    return bool(lengths[lengths >= shortest].sum() >= SHARE * lengths.sum())


def _is_of_script(codes: np.ndarray, *, is_narrow: bool) -> bool:
    """Whether nearly all letters are of ASCII and one other script, or as many of ASCII as Latin has."""
    of_ascii, scripts = 0, Counter[str]()
    kinds, counts = np.unique(codes, return_counts=True)
    for code, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        letter = chr(code)
        if letter == " " or (letter.isascii() and letter.isalnum()):
            of_ascii += count
        elif unicodedata.category(letter)[0] in "LM":
            script = unicodedata.name(letter, "").partition(" ")[0]
            script = "" if is_narrow and code in KOREAN else script
            scripts["CJK" if script in OF_JAPANESE else script] += count
    of_latin = of_ascii + scripts.pop("LATIN", 0)
    if of_ascii >= SHARE_OF_ASCII * len(codes):
        return not is_narrow or of_latin >= SHARE_OF_SCRIPT * len(codes)
    others = of_latin - of_ascii + scripts.pop("", 0) + sum(scripts.values())
    most = max(scripts.values(), default=0)
    is_one = others - most <= (1 - SHARE) * len(codes)
    return most > 0 and is_one and most + of_ascii >= SHARE_OF_SCRIPT * len(codes)
