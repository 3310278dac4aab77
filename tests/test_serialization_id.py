"""The serialization id is what PyTorch computes: names in the order of libstdc++'s hash table, then crcs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from archive.container import Container, member_from
from archive.serialization_id import RECORD_NAME, serialization_id, string_hash, unordered
from tests.corpus import ARCHIVES, FIXTURES


@dataclass(frozen=True)
class Named:
    name: str
    size: int = 0
    crc32: int = 0


def test_every_id_that_pytorch_wrote_is_computed() -> None:
    exact = []
    for path in ARCHIVES:
        with Container.open(path) as container:
            if RECORD_NAME in container.records:
                computed = serialization_id(container.records.values())
                exact.append(container.records[RECORD_NAME].view() == computed.encode())
    assert sum(exact) == len(exact) == 100


def test_members_may_be_given_and_the_record_itself_does_not_count() -> None:
    with Container.open(FIXTURES / "releases" / "torch-2.1.0" / "nested.pt") as container:
        members = [member_from(record) for record in container.records.values()]
        without = [member for member in members if member.name != RECORD_NAME]
        assert serialization_id(members) == serialization_id(without)
        assert serialization_id(members).encode() == container.records[RECORD_NAME].view()


def test_forty_digits_of_nothing() -> None:
    assert serialization_id([]) == "0" * 40


def test_empty_records_count_by_name_alone() -> None:
    assert serialization_id([Named("a", 0, 5)])[20:] == "0" * 20
    assert serialization_id([Named("a", 1, 0)])[20:] == f"{0x9E3779B9:020d}"


# The values below were printed by a program that was built with g++ 12: std::hash<std::string>, and a walk
# through a std::unordered_set<std::string> after inserting "0", "1", "2" …


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
def test_hash_of_a_string(text: str, value: int) -> None:
    assert string_hash(text.encode()) == value


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
def test_order_of_a_set(count: int, order: str) -> None:
    names = {string_hash(str(index).encode()): str(index) for index in range(count)}
    assert [names[value] for value in unordered(list(names))][:14] == order.split()
