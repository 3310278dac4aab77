"""The texts of JSON that are no strings: numbers that may be somebody's, and letters in a row."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from archive.formats.record_kinds import RecordKind
from archive.privacy.review.spelled import (
    FEWEST_KEYS,
    FEWEST_LETTERS,
    may_be_date,
    may_identify,
    spelled,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMS = {
    RecordKind.PROGRAM: rb'"(?:sizes|strides)"\s*+:\s*+\[[^\]]*+\]|"storage_offset"\s*+:\s*+\{[^}]*+\}'
    rb'|"graph_id"\s*+:\s*+\d++',
    RecordKind.HEADER: rb'"(?:shape|data_offsets)"\s*+:\s*+\[[^\]]*+\]',
}
"""Forms of tensors, where they lie, and Python's ``id`` of a graph."""
STRING = rb'"(?:[^"\\]|\\.)*+(?:"|\Z)'
LETTER = rb'"(?:[^"\\\n]|[\xc2-\xf4][\x80-\xbf]{1,3}|(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\u[0-9a-fA-F]{4})"'
NUMBER = rb"-?(?:0|[1-9]\d{0,999}+)(?:\.\d++)?(?:[eE][+-]?\d{1,2})?"
NEXT = rb"\s*+,\s*+(?:%b\s*+:\s*+)?" % STRING
"""Stands between two items of a list, or two values of an object."""
ITEMS = (
    rb"(?P<letters>%(letter)s(?!\s*:)(?:%(next)s%(letter)s){2,})"
    rb'|(?P<keys>%(letter)s\s*:[^"\[\]{},]*,(?:\s*%(letter)s\s*:[^"\[\]{},]*,?){2,})'
    rb'|(?P<codes>"\d{1,7}"(?!\s*:)(?:%(next)s"\d{1,7}"){3,})|\n"\n|%(string)s|(?P<numbers>%(number)s(?:%(next)s%(number)s)*+)'
) % {b"letter": LETTER, b"number": NUMBER, b"next": NEXT, b"string": STRING}
"""Several strings of a letter, as items or keys; other strings, and what is between two texts; numbers."""
ONE_LETTER = re.compile(rb"(%b)(?!\s*:)" % LETTER)
ONE_KEY = re.compile(rb"(%b)\s*:" % LETTER)
ONE_CODE = re.compile(r'"(\d++)"(?!\s*:)')
ONE_NUMBER = re.compile(rb"%b|(?P<number>%b)" % (STRING, NUMBER))


def spelled_in_json(data: bytes, kind: RecordKind) -> Iterator[tuple[str, int]]:
    """Each text with its place; of programs and headers of tensors without forms of tensors."""
    for match in _pattern(kind).finditer(data):
        what, at = match.lastgroup, match.start()
        if what in {"letters", "keys"}:
            one, fewest = (ONE_LETTER, FEWEST_LETTERS) if what == "letters" else (ONE_KEY, FEWEST_KEYS)
            letters = [json.loads(letter) for letter in one.findall(match[0])]
            yield from ((text, at) for text in spelled(letters, fewest))
        elif what == "codes":
            yield from ((text, at) for text in spelled(ONE_CODE.findall(match[0].decode())))
        elif what == "numbers":
            found = (one["number"] for one in ONE_NUMBER.finditer(match[0]))
            numbers = [whole_number(json.loads(one)) for one in found if one]
            yield from ((text, at) for text in spelled(numbers))
            whole = [one for one in numbers if one is not None]
            yield from ((str(one), at) for one in whole if may_identify(one) or may_be_date(one))


@cache
def _pattern(kind: RecordKind) -> re.Pattern[bytes]:
    form = FORMS.get(kind)
    return re.compile(ITEMS if form is None else rb"%b|%b" % (form, ITEMS), re.DOTALL)
