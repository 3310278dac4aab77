"""The serialization id is what PyTorch computes on each platform, and tells on which; rewriting keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.check.verify import verify
from archive.container.container import Container
from archive.container.serialization_id import (
    LINUX,
    MACOS,
    PLATFORMS,
    RECORD_NAME,
    U64,
    Platform,
    city,
    fnv,
    libcxx,
    libstdcxx,
    msvc,
    murmur,
    serialization_id,
    writers,
)
from archive.container.write import member_from
from archive.rewrite.join import join, restore
from archive.rewrite.migrate.migrate import migrate
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tests.support.commands import told, well
from tests.support.corpus import ARCHIVES, FIXTURES, ORACLES, RELEASES
from tests.support.strategies import patient
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEEN = json.loads(Path(__file__).with_name("serialization_ids.json").read_text("utf-8"))
"""``numbered``: the first half for the records data/0, data/1, …, by their count and platform. ``files``:
records and ids of public archives."""
platforms = pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)


@dataclass(frozen=True)
class Named:
    name: str
    size: int = 0
    crc32: int = 0


def numbered(count: int) -> list[Named]:
    return [Named(f"data/{number}") for number in range(count)]


# --- the rules


def test_every_id_that_pytorch_wrote_is_computed() -> None:
    exact = []
    for path in ARCHIVES:
        with Container.open(path) as container:
            if RECORD_NAME in container.records:
                computed = serialization_id(container.records.values())
                exact.append(container.records[RECORD_NAME].view() == computed.encode())
    assert sum(exact) == len(exact) == 100


@pytest.mark.parametrize("file", SEEN["files"], ids=lambda file: file["of"])
def test_the_ids_of_public_archives_are_each_computed_by_one_platforms_rules(
    file: dict[str, Any],
) -> None:
    records = [Named(*record) for record in file["records"]]
    computed = {platform.name: serialization_id(records, platform) for platform in PLATFORMS}
    assert [name for name, one in computed.items() if one == file["id"]] == [file["platform"]]


@pytest.mark.parametrize("count", [*map(int, SEEN["numbered"])])
def test_names_are_folded_in_the_order_of_each_platforms_hash_table(count: int) -> None:
    folded = [serialization_id(numbered(count), platform)[:20] for platform in PLATFORMS]
    assert folded == SEEN["numbered"][str(count)]


def test_members_may_be_given_and_the_record_itself_does_not_count() -> None:
    with Container.open(FIXTURES / "releases" / "torch-2.1.0" / "nested.pt") as container:
        members = [member_from(record) for record in container.records.values()]
        without = [member for member in members if member.name != RECORD_NAME]
        assert serialization_id(members) == serialization_id(without)
        assert serialization_id(members).encode() == container.records[RECORD_NAME].view()


@platforms
def test_forty_digits_of_nothing(platform: Platform) -> None:
    assert serialization_id([], platform) == "0" * 40


@platforms
def test_empty_records_count_by_name_alone(platform: Platform) -> None:
    assert serialization_id([Named("a", 0, 5)], platform)[20:] == "0" * 20
    assert serialization_id([Named("a", 1, 0)], platform)[20:] == f"{0x9E3779B9:020d}"


# The values below were printed by programs with std::hash<std::string> and std::unordered_set<std::string>,
# built with g++ 12 against libstdc++, and against libc++ 14. Those of FNV-1a are its authors'.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 6142509188972423790),
        ("a", 4993892634952068459),
        ("version", 1565691551459181974),
        ("data.pkl", 4941642132189851806),
        ("12345678", 10113836418918046885),
        ("code/__torch__.py", 9225422671520421960),
        ("é", 15791941521038362485),
    ],
)
def test_hash_of_a_string_on_linux(text: str, value: int) -> None:
    assert murmur(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 11160318154034397263),
        ("a", 2603192927274642682),
        ("version", 11507693345241597485),
        ("12345678", 9934520233202095969),
        ("byteorder", 17996793071007827992),
        ("constants.pkl", 12597239214374641963),
        ("code/__torch__.py", 14126261608693869380),
        ("code/__torch__/models/plain.py", 12826107755895297765),
        ("code/__torch__/torch/nn/modules/container.py", 14676394103555925210),
        ("code/__torch__/torch/nn/modules/conv/___torch_mangle_1234567.py.debug_pkl", 4439048550478354132),
    ],
)
def test_hash_of_a_string_on_macos(text: str, value: int) -> None:
    assert city(text.encode()) == value


def test_hashes_of_all_lengths_on_macos() -> None:
    longest = "code/__torch__/" + "a/" * 150
    state = 0
    for length in range(301):
        state ^= city(longest[:length].encode()) + 0x9E37_79B9 + (state << 6) + (state >> 2) & U64
    assert state == 2477659125037965103


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_hash_of_a_string_on_windows(text: str, value: int) -> None:
    assert fnv(text.encode()) == value


@pytest.mark.parametrize(
    ("count", "order"),
    [
        (1, "0"),
        (13, "12 11 9 8 7 6 4 2 5 3 1 10 0"),
        (14, "13 10 3 5 2 4 6 7 8 0 1 9 11 12"),
        (30, "29 12 11 18 9 1 22 8 0 17 28 19 4 5"),
        (543, "542 254 341 248 237 243 86 241 240 199 239 172 191 464"),
        (
            20000,
            "19997 19996 19994 19993 19991 19988 19985 19983 19982 19981 19980 19978 19977 19974",
        ),
    ],
)
def test_order_of_a_set_on_linux(count: int, order: str) -> None:
    names = {murmur(str(index).encode()): str(index) for index in range(count)}
    assert [names[value] for value in libstdcxx(list(names))][:14] == order.split()


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (30, "08119400753159100899"),
        (47, "01606550510961093283"),
        (48, "01620244025436259994"),
        (543, "05580877612377746636"),
        (1000, "04606444293668247645"),
        (20000, "10374690661224726856"),
    ],
)
def test_order_of_a_set_on_macos(count: int, names: str) -> None:
    assert serialization_id(numbered(count), MACOS)[:20] == names


@pytest.mark.parametrize("order", [libstdcxx, libcxx, msvc])
@patient
@given(st.lists(st.one_of(st.integers(0, U64), st.integers(0, 30), st.just(7)), max_size=300))
def test_a_set_hands_out_what_was_inserted(
    order: Callable[[Sequence[int]], list[int]], hashes: list[int]
) -> None:
    assert sorted(order(hashes)) == sorted(hashes)


# --- who wrote it


@patient
@given(st.lists(st.text(max_size=80), min_size=1, unique=True))
def test_an_archive_that_has_a_name_was_written_on_one_platform(names: list[str]) -> None:
    records = [Named(name, 1, number) for number, name in enumerate(names)]
    for platform in PLATFORMS:
        assert writers(records, serialization_id(records, platform).encode()) == (platform,)


def test_without_any_name_all_platforms_write_the_same() -> None:
    assert writers([], b"0" * 40) == PLATFORMS


def test_an_id_of_other_records_is_nobodys() -> None:
    records = numbered(5)
    assert writers(records, serialization_id(numbered(6)).encode()) == ()
    assert writers(records, b"1" * 40) == writers(records, b"") == ()


# --- An archive's platform: told by its serialization id, and kept by whatever rewrites the archive


NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
STACK = ORACLES / "plain_stack.ptl"
UNKNOWN = b"1" * 40


def written_on(path: Path, platform: Platform) -> bytes:
    """An archive as PyTorch writes it on a platform."""
    with Container.open(path) as container:
        return tampered(path, {RECORD_NAME: serialization_id(container.records.values(), platform).encode()})


def writers_of(source: Path | bytes) -> list[str]:
    with Container.open(source) as container:
        return [
            platform.name
            for platform in writers(container.records.values(), container.records[RECORD_NAME].view())
        ]


@platforms
def test_inspect_names_the_platform_and_verify_finds_nothing(platform: Platform, tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    path.write_bytes(written_on(NESTED, platform))
    assert verify(path) == verify(NESTED) == []
    assert told("inspect", path)["platforms"] == [platform.name]
    line = f"serialization id as PyTorch writes it on {platform.name} ({platform.library})"
    assert line in well("inspect", path).splitlines()


def test_an_unknown_id_is_said_to_be_and_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    path.write_bytes(tampered(NESTED, {RECORD_NAME: UNKNOWN}))
    assert told("inspect", path)["platforms"] == []
    assert "serialization id as PyTorch writes it on no platform known here" in well("inspect", path)
    assert [finding.severity for finding in verify(path)] == ["warning"]


def test_of_an_archive_without_an_id_nothing_is_said() -> None:
    old = RELEASES / "torch-1.9.0" / "nested.ptl"
    assert told("inspect", old)["platforms"] is None
    assert "serialization id" not in well("inspect", old).partition("\n\n")[0]


@platforms
@pytest.mark.parametrize("level", ["compact", "embed"])
def test_a_shrunk_archive_keeps_its_platform(platform: Platform, level: str, tmp_path: Path) -> None:
    source, out, again = tmp_path / "model.ptl", tmp_path / "small.ptl", tmp_path / "again.ptl"
    source.write_bytes(written_on(NESTED, platform))
    shrink(source, out, level=level)
    assert writers_of(out) == [platform.name]
    if level == "embed":
        assert restore(out, again).exact
        assert again.read_bytes() == source.read_bytes()


@platforms
def test_a_split_archive_keeps_its_platform_and_a_joined_one_is_the_original(
    platform: Platform, tmp_path: Path
) -> None:
    source, out, companion = tmp_path / "model.ptl", tmp_path / "small.ptl", tmp_path / "model.ptdbg"
    source.write_bytes(written_on(STACK, platform))
    split(source, out, companion)
    assert writers_of(out) == [platform.name]
    assert join(out, companion, tmp_path / "joined.ptl").exact
    assert (tmp_path / "joined.ptl").read_bytes() == source.read_bytes()


@platforms
def test_a_migrated_archive_keeps_its_platform(platform: Platform, tmp_path: Path) -> None:
    old = RELEASES / "torch-1.9.0" / "nested.ptl"
    source, out, again = tmp_path / "old.ptl", tmp_path / "new.ptl", tmp_path / "again.ptl"
    source.write_bytes(written_on(old, platform))
    migrate(source, out, to="latest")
    assert writers_of(out) == [platform.name]
    migrate(out, again, to="original")
    assert again.read_bytes() == source.read_bytes()


def test_an_archive_that_gets_its_first_id_gets_that_of_linux(tmp_path: Path) -> None:
    migrate(RELEASES / "torch-1.9.0" / "nested.ptl", tmp_path / "new.ptl", to="latest")
    assert writers_of(tmp_path / "new.ptl") == [LINUX.name]


def test_an_id_that_nobody_can_compute_stays_as_it_is(tmp_path: Path) -> None:
    source = tampered(NESTED, {RECORD_NAME: UNKNOWN})
    shrink(source, tmp_path / "compact.ptl")
    split(source, tmp_path / "small.ptl", tmp_path / "model.ptdbg")
    for name in ("compact.ptl", "small.ptl"):
        with Container.open(tmp_path / name) as container:
            assert container.records[RECORD_NAME].view() == UNKNOWN


def test_inspect_shows_the_archive_id_of_archives_as_of_their_companions(tmp_path: Path) -> None:
    small, companion, embedded = (tmp_path / name for name in ("small.ptl", "model.ptdbg", "embedded.ptl"))
    number = split(STACK, small, companion).archive_id
    shrink(STACK, embedded, level="embed")
    assert {told("inspect", path)["archive_id"] for path in (STACK, small, companion, embedded)} == {number}
    assert f"archive id {number}" in well("inspect", STACK).splitlines()
    assert f"packed companion of archive {number}" in well("inspect", companion)


def test_an_archive_with_a_broken_tensor_is_shown_without_its_id(tmp_path: Path) -> None:
    path = tmp_path / "broken.ptl"
    with Container.open(NESTED) as container:
        place = container.records["data/0"].place.data
    data = bytearray(NESTED.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert told("inspect", path)["archive_id"] == ""
    assert "archive id not known: a record cannot be read" in well("inspect", path)
