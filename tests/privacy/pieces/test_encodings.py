"""A text is read in whatever way it is written, and a place is told."""

from __future__ import annotations

import random

import pytest

from archive import LeakKind, leaks
from archive.privacy.pieces.encoded import WAYS
from tests.support.canaries import with_records
from tests.support.corpus import ORACLES
from tests.support.encodings import ENCODINGS
from tests.support.sampling import crossed

PATH = "/home/annabel/secret/models/net.py"
KEY = "ghp_" + "a1B2" * 9
MODEL = ORACLES / "plain_stack.ptl"


KINDS = {PATH: LeakKind.HOME, KEY: LeakKind.KEY}


@pytest.mark.parametrize(("name", "text"), crossed(ENCODINGS, KINDS, most=len(ENCODINGS)))
def test_a_text_is_read_in_every_way(name: str, text: str) -> None:
    kind = KINDS[text]
    found = leaks(with_records(MODEL, {"extra/x": ENCODINGS[name](text)}))
    places = {one.text: one.places[0] for one in found.findings if one.kind is kind}
    assert text in places
    assert places[text].record.split("!")[0] == "extra/x"
    assert found.problems == ()


def test_letters_by_chance_are_no_text() -> None:
    draw = random.Random(1)  # noqa: S311 (no secret)
    for way in WAYS:
        words = [bytes(draw.choices(way.alphabet, k=draw.randrange(20, 90))) for _ in range(3_000)]
        found = leaks(with_records(MODEL, {"extra/x": b" ".join(words)}))
        assert found.problems == ()
        assert not [one for one in found.findings if "!" in one.places[0].record]
