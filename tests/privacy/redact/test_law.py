"""The law: what ``leaks`` finds in an original is not in a redacted archive, in no encoding, or is named."""

from __future__ import annotations

import io
import zipfile
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive import LeakKind
from archive.privacy.redact.promises import SOUGHT
from archive.privacy.redact.ranges import _blanked
from archive.privacy.redact.removed import Removed, RevealingTexts
from tests.support.canaries import rewritten, with_records
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.encodings import ENCODINGS
from tests.support.sampling import crossed
from tests.support.scanner import holds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive import Redaction

MODEL = ORACLES / "plain_stack.ptl"
SMALL = ORACLES / "plain_unicode.ptl"
SHOP = FIXTURES / "exported" / "shop.pt2"
CANARIES = (
    "/home/zqannxz/net/model.py",
    "/gpfs/users/zqbobxz/runs/log.txt",
    "zqcarlxz@mail.zqcorpxz.com",
    "https://zqwikixz.corp.example/page",
    "ghp_zq" + "a1B2" * 9,
    "D:\\zqbuildxz\\net\\model.py",
)
"""One of each kind that is looked for everywhere."""
RECORDS = ("extra/x", "note", "data/constants/custom_obj_9")
PRESETS: tuple[dict[str, Any], ...] = (
    {"preset": "publish"},
    {"preset": "vendor"},
    {"preset": "vendor", "extra": False},
)


def redacted(data: bytes, **options: Any) -> tuple[bytes, Redaction]:  # noqa: ANN401 (options)
    out = io.BytesIO()
    facts = archive.redact(data, out, io.BytesIO(), partial=True, **options)
    return out.getvalue(), facts


def named_in(facts: Redaction) -> list[str]:
    """All that keeps a result from being clean."""
    return [*map(str, facts.remaining), *facts.problems]


def check(data: bytes, options: dict[str, Any], canaries: Iterable[str] = ()) -> Redaction:
    """What is left of a file that holds canaries, which are found; all of it is named."""
    out, facts = redacted(data, **options)
    before, after = archive.leaks(data, deep=True), archive.leaks(out, deep=True)
    assert set(canaries) <= {one.text for one in before.findings}
    still = {(one.kind, one.text) for one in after.counted()}
    named = "\n".join([*named_in(facts), *map(str, (*facts.kept_by_choice, *facts.not_searched_for))])
    for one in before.counted():
        if (one.kind, one.text) in still or (one.kind in SOUGHT and holds(out, one.text)):
            assert one.text in named
    assert facts.is_clean == (not named_in(facts))
    assert not [one for one in facts.kept_by_choice if one.what in SOUGHT], "presets promise that these go"
    return facts


@pytest.mark.parametrize("turn", range(len(PRESETS) * len(RECORDS)))
def test_what_is_left_is_named(turn: int) -> None:
    """Each encoding is in one of the archives, with a canary of its own."""
    record, preset = RECORDS[turn // len(PRESETS)], turn % len(PRESETS)
    hidden = {
        f"{record}{number}": (canary.replace("zq", f"zq{number}"), encoded)
        for number, (canary, encoded) in enumerate(zip(cycle(CANARIES), ENCODINGS.values()))
        if number % (len(PRESETS) * len(RECORDS)) == turn
    }
    assert len(hidden) >= 6
    records = {name: encoded(canary) for name, (canary, encoded) in hidden.items()}
    canaries = [canary for canary, _ in hidden.values()]
    facts = check(with_records(SMALL, records), PRESETS[preset], canaries)
    goes = record == "extra/x" and preset != 1
    assert facts.is_clean == goes
    if not goes:
        assert [one for one in canaries if one not in "\n".join(named_in(facts))] == []


@pytest.mark.parametrize("preset", range(2))
def test_what_stands_beside_debug_information_is_named(preset: int) -> None:
    """Generated code, names of records and constants of a program stay: a redaction is not clean then."""
    lines = "\n".join(f'# "{canary}"' for canary in CANARIES).encode()

    def in_code(name: str, data: bytes) -> bytes:
        return data + b"\n%s\n" % lines if name.startswith("code/") and name.endswith(".py") else data

    names = [canary.strip("/") for canary in CANARIES if "\\" not in canary and ":" not in canary]
    for data, told in (
        (rewritten(SMALL.read_bytes(), in_code), CANARIES),
        (with_records(SMALL, {f"other/{name}": b"x" for name in names}), names),
        (with_records(SHOP, {f"data/weights/{preset}.txt": lines}), CANARIES),
    ):
        left = "\n".join(named_in(check(data, PRESETS[preset])))
        assert [one for one in told if one not in left] == []


def around(how: str, text: bytes) -> bytes:
    """A model with a text in its zip, but in no record."""
    out = io.BytesIO()
    with zipfile.ZipFile(SMALL) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            new = zipfile.ZipInfo(info.filename)
            new.extra = b"\xfe\xca" + len(text).to_bytes(2, "little") + text if how == "extra fields" else b""
            new.comment = text if how == "comments of records" else b""
            target.writestr(new, source.read(info))
        target.comment = text if how == "comment" else b""
    return out.getvalue()


@pytest.mark.parametrize(
    ("how", "canary", "preset"),
    crossed(["extra fields", "comments of records", "comment"], CANARIES, range(3)),
)
def test_what_stands_beside_records_goes(how: str, canary: str, preset: int) -> None:
    data = around(how, canary.encode())
    facts = check(data, PRESETS[preset], [canary])
    assert not [one for one in named_in(facts) if canary in one]


def test_names_of_people_are_found_in_names_of_classes_and_told() -> None:
    def annabs(_: str, data: bytes) -> bytes:
        return data.replace(b"Block", b"Annab").replace(
            b"/opt/py/lib/python3.11/", b"/home/annab/python3.11/"
        )

    facts = check(rewritten(MODEL.read_bytes(), annabs), {"preset": "publish"})
    assert [one for one in facts.remaining if (one.what, one.text) == ("user name", "annab")]
    assert any("Annab" in one for one in facts.carriers)
    assert facts.sought["user name"] == 1


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        (b"x = self.blocks(x)", True),
        (b"x = load('/home/zqannxz/a.pt')", False),
        (b"x = zqannxz_net(x)", False),
        ("x = load('ZQZOËXZ')".encode(), False),
    ],
)
def test_a_vendor_gets_no_line_that_tells_of_people(line: bytes, *, stays: bool) -> None:
    users = {b"zqannxz", "zqzoëxz".encode()}
    revealing = RevealingTexts({LeakKind.HOME: {b"/home/zqannxz/a.pt"}, LeakKind.USER: users})
    (made,) = _blanked([line], {0}, Removed(revealing=revealing), keeps=True)
    assert made == (line if stays else b" " * len(line))


def test_single_choices_name_what_they_keep() -> None:
    data = with_records(MODEL, {"extra/x": b"mail zqcarlxz@mail.zqcorpxz.com"})
    _, facts = redacted(data, paths="basename")
    assert facts.is_clean
    assert [one for one in facts.kept_by_choice if "zqcarlxz@mail.zqcorpxz.com" in one.text]
