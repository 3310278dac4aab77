"""What ``leaks`` says of a way out is true: with the options that it names, the finding is gone."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.canaries import CANARIES, FILES, rewritten
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: dict[str, dict[str, Any]] = {
    "--paths basename": {"paths": "basename"},
    "--source none": {"text": "none"},
    "--no-inputs": {"inputs": False},
    "--no-extra": {"extra": False},
    "--ids anew": {"ids": "anew"},
}
NAMED = re.compile(r"`redact ([^`]+)`")


def ways(found: archive.Leaks) -> set[str]:
    return {way for one in found.findings for way in NAMED.findall(one.remedy)}


def told(found: archive.Leaks, way: str) -> set[tuple[str, str, str]]:
    """The findings, with their records, that are to go by a way."""
    return {
        (one.kind, one.text, place.record)
        for one in found.findings
        if f"`redact {way}`" in one.remedy and (one.kind.counts or way == "--ids anew")
        for place in one.places[:1]
    }


@pytest.mark.parametrize(
    "path", sampled(FILES, most=6, by=[lambda path: path.suffix]), ids=lambda path: path.name
)
def test_a_way_out_leads_out(path: Path) -> None:
    before = archive.leaks(path)
    assert ways(before) <= OPTIONS.keys() | {"--names hash", "--map OLD=NEW"}
    for way in ways(before) & OPTIONS.keys():
        out = io.BytesIO()
        archive.redact(path, out, io.BytesIO(), **OPTIONS[way], partial=True)
        after = {
            (one.kind, one.text, place.record)
            for one in archive.leaks(out.getvalue()).findings
            for place in one.places
        }
        assert not told(before, way) & after


@pytest.mark.parametrize("name", ["scripted.pt", "traced.ptl", "exported.pt2"])
def test_a_way_out_of_a_companion_leads_out(name: str) -> None:
    companion = io.BytesIO()
    archive.split(CANARIES / name, io.BytesIO(), companion)
    before = archive.leaks(companion.getvalue())
    assert {"--paths basename"} <= ways(before) <= {"--paths basename", "--source none"}
    for way in ways(before):
        out = io.BytesIO()
        archive.redact_companion(companion.getvalue(), out, **OPTIONS[way], partial=True)
        after = {(one.kind, one.text, "") for one in archive.leaks(out.getvalue()).findings}
        assert told(before, way)
        assert not {(kind, text, "") for kind, text, _ in told(before, way)} & after


def test_what_a_program_computes_with_is_told_to_be_of_the_model() -> None:
    """A key of the outputs, say, which no option takes out."""

    def keyed(record: str, data: bytes) -> bytes:
        if record != "models/model.json":
            return data
        assert b'"out_spec": "[1, {' in data
        return data.replace(b'"out_spec": "[1, {', b'"out_spec": "[1, {\\"/home/ann/key\\": 1, ')

    found = archive.leaks(rewritten((CANARIES / "exported.pt2").read_bytes(), keyed))
    ways = {one.remedy for one in found.findings if one.text == "/home/ann/key"}
    assert ways == {"it is a part of the model: change it in the model's source"}
