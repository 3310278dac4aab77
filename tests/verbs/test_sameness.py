"""Whether two files are the same model: ``digest`` and ``diff`` agree, and no verb makes another model."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_BYTES = 40_000
PACKAGE = FIXTURES / "kinds" / "package.pt"
VERBS: dict[str, Callable[[Path, io.BytesIO], object]] = {
    "split": lambda file, out: archive.split(file, out, io.BytesIO()),
    "compact": lambda file, out: archive.shrink(file, out, level="compact"),
    "embed": lambda file, out: archive.shrink(file, out, level="embed"),
    "canonicalise": archive.canonicalise,
    "to 2.13": lambda file, out: archive.migrate(file, out, to="2.13"),
    "to 1.9": lambda file, out: archive.migrate(file, out, to="1.9"),
}


@cache
def models() -> list[Path]:
    """Small fixtures of all kinds that have a digest."""
    return [
        path
        for path in sorted(FIXTURES.rglob("*.pt*"))
        if path.stat().st_size < MOST_BYTES and _is_model(path)
    ]


def _is_model(path: Path) -> bool:
    try:
        with archive.open(path) as opened:
            return opened.has_code
    except ArchiveError:
        return False


def same(one: Path | bytes, other: Path | bytes) -> bool:
    """What both commands say; they agree."""
    digests = {archive.digest(file).value for file in (one, other)}
    found = archive.diff(one, other)
    assert found.same_model == (len(digests) == 1), [
        change for change in found.changes if change.level == "model"
    ]
    return found.same_model


@settings(max_examples=40)
@given(st.deferred(lambda: st.sampled_from(models())), st.sampled_from(list(VERBS)))
@example(PACKAGE, "embed")
@example(PACKAGE, "to 1.9")
def test_what_a_verb_makes_of_a_model_is_the_same_model(path: Path, verb: str) -> None:
    out = io.BytesIO()
    try:
        said = VERBS[verb](path, out)
    except ArchiveError:
        return
    plan = getattr(said, "plan", None)
    assert same(path, out.getvalue()) or (plan is not None and plan.rescues)


NAMES = [
    "extra/notes.txt",
    "notes.txt",
    "model/notes.txt",
    "traced_inputs/0",
    "byteorder",
    "data/77",
    ".data/own",
]
"""Records that an archive may have besides its own: of the model, beside it, and of nobody."""


@settings(max_examples=80)
@given(
    st.deferred(lambda: st.sampled_from(models())),
    st.sampled_from(NAMES) | st.integers(0, 30),
    st.binary(min_size=1, max_size=8),
)
@example(PACKAGE, "extra/notes.txt", b"a file of the package's own")
def test_a_record_that_is_added_or_changed_makes_another_model_for_both_or_for_none(
    path: Path, where: str | int, data: bytes
) -> None:
    with suppress(ArchiveError):  # broken, or of another kind then
        same(path, with_record(path, where, data))


def with_record(path: Path, where: str | int, data: bytes) -> bytes:
    """An archive with one more record, by its name, or one with another end, by its number."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(out, "w") as after:
        names = before.namelist()
        end = names[where % len(names)] if isinstance(where, int) else f"{names[0].partition('/')[0]}/{where}"
        records = {name: before.read(name) for name in names}
        records[end] = records.get(end, b"")[: -len(data)] + data
        for name, record in records.items():
            after.writestr(name, record)
    return out.getvalue()
