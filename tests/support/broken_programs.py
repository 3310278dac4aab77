"""Exported programs with one thing wrong: what ``verify`` must say, and what PyTorch 2.13 says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import archive
from archive.container.serialization_id import RECORD_NAME
from archive.container.write import member_from, new_member
from tests.support.exported import EXPORTED
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = {
    "model": "models/model.json",
    "weights": "data/weights/model_weights_config.json",
    "constants": "data/constants/model_constants_config.json",
}
INPUTS = "data/sample_inputs/model.pt"
STEP = re.compile(r"\[(\d+)\]|(?:^|\.)(\"[^\"]*\"|[^.\[\"]+)")
GONE = object()
"""In the place of a value: there is none."""


class Broken(NamedTuple):
    """A change of a fixture: a row of ``broken_programs.tsv``.

    Attributes:
        what: it is, for the test's name.
        fixture: that is changed.
        record: with the value: ``model``, ``weights`` or ``constants``.
        path: of the value that is changed, in the record.
        value: the new one, as JSON; ``GONE`` for none.
        place: where ``verify`` finds the fault.
        message: what PyTorch says; "" where it takes the value.
    """

    what: str
    fixture: str
    record: str
    path: str
    value: str
    place: str
    message: str

    def made(self) -> bytes:
        """The broken archive."""
        return rewritten(EXPORTED / f"{self.fixture}.pt2", {RECORDS[self.record]: self.change})

    def change(self, data: bytes) -> bytes:
        """The record with the value."""
        value = GONE if self.value == "GONE" else json.loads(self.value)
        return json.dumps(put(json.loads(data), steps(self.path), value)).encode()


def steps(path: str) -> list[str | int]:
    """The keys and numbers of a path; a key with dots stands in quotes."""
    return [int(number) if number else key.strip('"') for number, key in STEP.findall(path)]


def found_at(tree: Any, way: list[str | int]) -> object:  # noqa: ANN401 (any JSON)
    """The value at the end of a path."""
    for step in way:
        tree = tree[step]
    return tree


def put(tree: Any, way: list[str | int], value: object) -> Any:  # noqa: ANN401 (any JSON)
    """A tree with another value at the end of a path."""
    if not way:
        return value
    new: Any = list(tree) if isinstance(tree, list) else dict(tree)
    if value is GONE and len(way) == 1:
        del new[way[0]]
    else:
        key: Any = way[0]
        new[key] = put(tree[key] if len(way) > 1 else None, way[1:], value)
    return new


def positions(tree: Any) -> Iterator[list[str | int]]:  # noqa: ANN401 (any JSON)
    """The ways to all values of a tree, but texts of metadata."""
    below: list[tuple[list[str | int], Any]] = [([], tree)]
    while below:
        way, value = below.pop()
        if way:
            yield way
        items = (
            value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
        )
        below += [([*way, key], one) for key, one in items if key not in ("metadata", "guards_code")]


def rewritten(path: Path, changes: dict[str, Any], root: str = "m") -> bytes:
    """An archive with changed records, as PyTorch would write it; None takes a record out."""
    with archive.open(path) as source:
        members = []
        for name, record in source.container.records.items():
            change = changes.get(name, member_from(record))
            if name == RECORD_NAME or change is None:
                continue
            if callable(change):
                change = new_member(name, change(bytes(record.view())), compress=False)
            members.append(change)
        return written(*members, root=root)


TABLE = Path(__file__).with_suffix(".tsv").read_text().splitlines()[1:]
ROWS = [Broken(*line.split("\t")) for line in TABLE]
BROKEN = [row for row in ROWS if row.message]
"""Programs that PyTorch refuses: one for each check, and more."""
TAKEN = [row for row in ROWS if not row.message]
"""Programs that are not as PyTorch writes them, and that it takes."""
