"""Whether two files are the same model: ``digest`` and ``diff`` agree, and no verb makes another model."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError, FileKind
from archive.reader.recognition import ZIP_KINDS
from tests.support.corpus import FIXTURES
from tests.support.sampling import crossed, examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_BYTES = 40_000
PACKAGE = FIXTURES / "kinds" / "package.pt"
LOWERED = FIXTURES / "oracles" / "lowered_two.pt"
KINDS = {
    FileKind.TORCHSCRIPT: "releases/torch-2.13.0/traced.pt",
    FileKind.LITE: "oracles/lowered_shape.ptl",
    FileKind.SPLIT: "frozen/v2/split/oracles_plain_two_methods.pt",
    FileKind.PACKAGE: "kinds/package.pt",
    FileKind.EXPORTED: "exported/choice.pt2",
    FileKind.LEGACY_EXPORTED: "exported/legacy/shop.pt2",
    FileKind.AOTI: "kinds/compiled.pt2",
    FileKind.ETRECORD: "kinds/etrecord.bin",
    FileKind.STATE_DICT: "kinds/state_dict.pt",
    FileKind.CHECKPOINT: "training/epoch1.pt",
    FileKind.MODULE: "kinds/module.pt",
    FileKind.SAVED: "kinds/object.pt",
    FileKind.PYTHON_PACKAGE: "canaries/package.pt",
}
"""A model of each kind."""


def _joined(file: Path, out: BinaryIO) -> object:
    left, companion = io.BytesIO(), io.BytesIO()
    archive.split(file, left, companion)
    return archive.join(left, companion, out)


def _restored(file: Path, out: BinaryIO) -> object:
    embedded = io.BytesIO()
    archive.shrink(file, embedded, level="embed")
    return archive.restore(embedded, out)


def _redacted(**options: Any) -> Callable[[Path, BinaryIO], object]:  # noqa: ANN401 (those of redact)
    return lambda file, out: archive.redact(file, out, io.BytesIO(), partial=True, **options)


VERBS: dict[str, Callable[[Path, BinaryIO], object]] = {
    "split": lambda file, out: archive.split(file, out, io.BytesIO()),
    "split, no handles": lambda file, out: archive.split(file, out, io.BytesIO(), handles="drop"),
    "join": _joined,
    "compact": lambda file, out: archive.shrink(file, out, level="compact"),
    "embed": lambda file, out: archive.shrink(file, out, level="embed"),
    "restore": _restored,
    "canonicalise": archive.canonicalise,
    "to 2.13": lambda file, out: archive.migrate(file, out, to="2.13"),
    "to 1.9": lambda file, out: archive.migrate(file, out, to="1.9", lossy=True),
    "redact": _redacted(paths="basename", text="none"),
    "publish": _redacted(preset="publish"),
    "vendor": _redacted(preset="vendor"),
}
"""Those that promise the same model."""


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


def check(path: Path, verb: str) -> None:
    """That what a verb makes of a model, if it takes it, is the same model to both commands."""
    out = io.BytesIO()
    try:
        said = VERBS[verb](path, out)
    except ArchiveError:
        return
    plan = getattr(said, "plan", None)
    assert same(path, out.getvalue()) or (plan is not None and plan.rescues)


@pytest.mark.parametrize(("kind", "verb"), crossed(KINDS, VERBS, most=14))
def test_what_a_verb_makes_of_a_model_of_each_kind_is_the_same_model(kind: FileKind, verb: str) -> None:
    path = FIXTURES / KINDS[kind]
    assert archive.recognise(path).kind is kind
    check(path, verb)


def test_every_kind_that_is_opened_has_its_model() -> None:
    assert KINDS.keys() == ZIP_KINDS


@settings(max_examples=examples(40))
@given(st.deferred(lambda: st.sampled_from(models())), st.sampled_from(list(VERBS)))
@example(PACKAGE, "embed")
@example(PACKAGE, "to 1.9")
def test_what_a_verb_makes_of_a_model_is_the_same_model(path: Path, verb: str) -> None:
    check(path, verb)


@pytest.mark.parametrize("kind", [FileKind.TORCHSCRIPT, FileKind.LITE, FileKind.EXPORTED])
def test_names_that_become_hashes_make_another_model(kind: FileKind) -> None:
    out = io.BytesIO()
    _redacted(names="hash")(FIXTURES / KINDS[kind], out)
    assert same(FIXTURES / KINDS[kind], out.getvalue()) == (kind is FileKind.EXPORTED)


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


@settings(max_examples=examples(60))
@given(
    st.deferred(lambda: st.sampled_from(models())),
    st.sampled_from(NAMES) | st.integers(0, 30),
    st.binary(min_size=1, max_size=8),
)
@example(PACKAGE, "extra/notes.txt", b"a file of the package's own")
@example(LOWERED, "code/__torch__/torch/classes/backendutils.py", b"\t")
def test_a_record_that_is_added_or_changed_makes_another_model_for_both_or_for_none(
    path: Path, where: str | int, data: bytes
) -> None:
    with suppress(ArchiveError):  # broken, or of another kind then
        same(path, with_record(path, where, data))


@pytest.mark.parametrize(
    ("before", "is_same"), [(b"\n", True), (b" \t\x1f\n", True), (b"# new\n", False), (b"import os\n", False)]
)
def test_blanks_before_all_code_are_none_of_the_model(before: bytes, is_same: bool) -> None:  # noqa: FBT001
    code = "lowered_two/code/__torch__/lowered.py"
    out = io.BytesIO()
    with zipfile.ZipFile(LOWERED) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, (before if name == code else b"") + old.read(name))
    assert same(LOWERED, out.getvalue()) == is_same


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


@pytest.mark.parametrize(("asks", "is_same"), [(b"N", True), (b"\x88", False)])
def test_a_gradient_that_is_not_recorded_is_not_asked_for(asks: bytes, is_same: bool) -> None:  # noqa: FBT001
    state_dict = FIXTURES / KINDS[FileKind.STATE_DICT]
    out = io.BytesIO()
    with zipfile.ZipFile(state_dict) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            record = before.read(name)
            if name.endswith("/data.pkl"):
                not_asked = b"\x89h\0)R"  # before the hooks, an empty dict
                assert not_asked in record
                record = record.replace(not_asked, asks + not_asked[1:])
            after.writestr(name, record)
    assert same(state_dict, out.getvalue()) == is_same
