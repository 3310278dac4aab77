"""What is known, what is a row, and which rows are one."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

import archive
from archive.formats.record_kinds import RecordKind
from archive.privacy.pieces.piece import FilePiece
from archive.privacy.review.listing import Listing
from tests.privacy.review.planting import saved

if TYPE_CHECKING:
    from archive.privacy.review.listing import ReviewRow


def rows(data: bytes, kind: RecordKind, record: str = "x") -> dict[str, ReviewRow]:
    """The rows of one record, by their texts."""
    listing = Listing()
    listing.take(FilePiece(record, kind, memoryview(data)))
    return {row.text: row for row in listing.rows()}


def texts(data: bytes, kind: RecordKind, record: str = "x") -> set[tuple[str, str]]:
    return {(row.role, text) for text, row in rows(data, kind, record).items()}


def of_values(*values: str) -> set[str]:
    """The texts listed of a pickle with some values."""
    return set(rows(pickle.dumps(list(values)), RecordKind.OBJECT))


def test_a_value_is_known_only_as_a_whole() -> None:
    assert of_values("mean", "cuda:0", "1.2.3", "float32", "Dict[str, Tensor]") == set()
    assert of_values("block linear", "forward_linear", "mean ") == {"block linear", "forward_linear"}


@pytest.mark.parametrize("text", ["0151 2345678", "12.03.1984", "4915112345678", "19840312"])
def test_long_numbers_are_texts(text: str) -> None:
    assert of_values(text) == {text}


def test_a_value_is_known_if_a_name_of_the_file_is_the_same() -> None:
    data = b"\x80\x02cacme.nets\nSecretNet\n" + pickle.dumps(["SecretNet"], 2)[2:-1] + b"\x86."
    assert texts(data, RecordKind.OBJECT) == {("name", "acme"), ("name", "nets"), ("name", "SecretNet")}


def test_names_are_cut_into_identifiers_and_numbers_are_templates() -> None:
    program = json.dumps({"target": "acme.layers.0.norm", "name": ["acme.layers.1.norm", "fc1", "fc22"]})
    found = rows(program.encode(), RecordKind.PROGRAM, "models/model.json")
    assert {(text, row.template, row.count) for text, row in found.items()} == {
        ("acme", False, 2),
        ("fcN", True, 2),
    }


def test_prose_among_names_is_a_value_and_so_is_what_an_author_noted() -> None:
    program = json.dumps(
        {"target": "linear block layer", "custom": {"mark": "weight of it"}, "as_string": "linear"}
    )
    found = texts(program.encode(), RecordKind.PROGRAM, "models/model.json")
    assert found == {("value", "linear block layer"), ("value", "mark"), ("value", "weight of it")}


def test_numbers_in_values_are_templates_only_where_several_are_alike() -> None:
    alone = rows(pickle.dumps(["run 7 of ann"]), RecordKind.OBJECT)
    several = rows(pickle.dumps(["run 7 of ann", "run 8 of ann", "10.0.0.1", "10.0.0.2"]), RecordKind.OBJECT)
    assert {(text, row.template) for text, row in alone.items()} == {("run 7 of ann", False)}
    assert {(text, row.template) for text, row in several.items()} == {("run N of ann", True)}


def test_a_table_is_one_row_with_its_odd_entries() -> None:
    table = {f"token{number}": number for number in range(1000)} | {"ann@acme.example": 1000}
    for data in (pickle.dumps({"vocab": table}), json.dumps({"vocab": table}).encode()):
        found = rows(data, RecordKind.OBJECT)
        (row,) = (row for row in found.values() if row.table)
        assert row.table is not None
        assert (row.role, row.table.entries, row.table.odd[0]) == ("key", 1001, "ann@acme.example")
        assert found.keys() == {row.text, "vocab"}
        assert row.table.digest[:16] in row.text


def test_a_table_of_odd_entries_is_listed_entry_by_entry() -> None:
    table = {f"Name {number} of a person": number for number in range(150)}
    found = rows(pickle.dumps(table), RecordKind.OBJECT)
    assert {(row.role, text, row.table) for text, row in found.items()} == {
        ("key", "Name N of a person", None)
    }


SIGNS = {
    "many": [f"token{number}" for number in range(1000)],
    "bytes": [f"\u0120w{number}" for number in range(200)],
    "sentencepiece": [f"\u2581w{number}" for number in range(200)],
    "wordpiece": [f"##w{number}" for number in range(200)],
    "bpe": [f"w{number}</w>" for number in range(200)],
    "letters": [chr(code) for code in range(33, 127)]
    + ["word"] * 6
    + [f"w{number}" for number in range(100)],
}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("odd", ["Ann Lee", "O'Neil", "McDonald", "4915112345678", "a@b.example", "x/lee/y"])
def test_the_table_of_a_tokenizer_is_one_row_that_shows_what_may_be_a_name(sign: str, odd: str) -> None:
    table = {text: number for number, text in enumerate([*SIGNS[sign], odd])}
    for data in (pickle.dumps({"vocab": table}), pickle.dumps(table, 2), json.dumps(table).encode()):
        (row,) = (row for row in rows(data, RecordKind.OBJECT).values() if row.table)
        assert row.table is not None
        assert odd in row.table.odd
        first = json.dumps(SIGNS[sign][0])[1:-1].encode() if data[:1] == b"{" else SIGNS[sign][0].encode()
        at = int(row.first.rpartition(" ")[2].replace(",", ""))
        assert data[at:].startswith(first) or data[at - 1 :].startswith(first)


@pytest.mark.parametrize(("most", "odd"), [("word", "Łódź"), ("слово", "Smith")])
def test_letters_of_another_script_than_most_entries_are_odd(most: str, odd: str) -> None:
    table = {f"{most}{number}": number for number in range(1000)} | {odd: 1000}
    (row,) = (row for row in rows(pickle.dumps(table), RecordKind.OBJECT).values() if row.table)
    assert row.table is not None
    assert row.table.odd[:2] == (odd, f"{most}0")


def test_odd_entries_that_are_not_shown_are_counted() -> None:
    table = {f"mac{'ab'[number % 2]}Lee{number}": number for number in range(1000)}
    (row,) = (row for row in rows(pickle.dumps(table), RecordKind.OBJECT).values() if row.table)
    assert row.table is not None
    assert (len(row.table.odd), "950 more odd ones" in row.text) == (50, True)


@pytest.mark.parametrize("most", [300, 1200])
def test_entries_of_a_table_without_a_sign_of_a_tokenizer_are_keys(most: int) -> None:
    names = {f"Berfeld{chr(97 + number % 26)}{chr(97 + number // 26)}": number for number in range(most)}
    found = rows(pickle.dumps({"customers": names}), RecordKind.OBJECT)
    assert found.keys() == {"customers", *names}
    assert {row.role for row in found.values()} == {"key"}


def test_pairs_that_a_tokenizer_merges_are_one_row_and_other_pairs_are_not() -> None:
    words = [f"w{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)]
    table = {text: 1 for word in words for text in (word, word + "xy", word + "zq")} | {
        "xy": 1,
        "zq": 1,
        "Lee": 1,
    }
    merges = [f"{word} {end}" for word in words for end in ("xy", "zq")]
    found = rows(pickle.dumps([table, merges, f"{words[0]} Lee"]), RecordKind.OBJECT)
    values = {row.text: row for row in found.values() if row.role == "value"}
    (row,) = (row for row in values.values() if row.table)
    assert row.table is not None
    assert (row.table.entries, set(values)) == (1200, {row.text, f"{words[0]} Lee"})
    few = rows(pickle.dumps([table, merges[:10]]), RecordKind.OBJECT)
    assert few.keys() >= set(merges[:10])


def test_a_table_entry_that_stands_elsewhere_is_listed() -> None:
    table = {f"token{number}": number for number in range(1000)}
    found = rows(pickle.dumps({"vocab": table, "who": "token7"}), RecordKind.OBJECT)
    assert "token7" in found


def test_stacks_have_files_and_functions_as_names_and_source_as_values() -> None:
    stack = 'File "shop.py", line 4, in priced\n    return self.secret + 1\n'
    program = json.dumps({"metadata": {"stack_trace": stack}})
    assert texts(program.encode(), RecordKind.PROGRAM, "models/model.json") == {
        ("name", "shop"),
        ("name", "priced"),
        ("value", "return self.secret + 1"),
    }


def test_what_no_reader_can_read_is_listed_as_values() -> None:
    broken = b"\x80\x02X\x09\0\0\0SecretNet" + b"\xff" * 8
    assert any(role == "value" and "SecretNet" in text for role, text in texts(broken, RecordKind.OBJECT))
    assert any("SecretNet" in row.text for row in archive.review(saved(broken)).rows)


@pytest.mark.parametrize("form", ["pickle", "keys of a pickle", "JSON"])
def test_pairs_are_one_row_however_a_tokenizer_has_them(form: str) -> None:
    words = [f"w{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)]
    table = {text: 1 for word in words for text in (word, word + "xy", word + "zq")} | {"xy": 1, "zq": 1}
    table |= {f"\u0120{word}": 1 for word in words}
    pairs = [(word, end) for word in words for end in ("xy", "zq")]
    value: object = {"vocab": table, "merges": [*pairs, ("Ann", "Lee")]}
    if form == "keys of a pickle":
        value = {"vocab": table, "merges": dict.fromkeys([*pairs, ("Ann", "Lee")], 1)}
    data = json.dumps(value).encode() if form == "JSON" else pickle.dumps(value)
    found = {text for text, row in rows(data, RecordKind.OBJECT).items() if row.role == "value"}
    assert {text for text in found if not text.startswith("table of 1,200 merges")} == {"Ann Lee"}
    assert len(found) == 2


def test_a_large_table_of_small_letters_is_not_taken_for_a_tokenizers() -> None:
    table = {f"mueller{chr(97 + number % 26)}{chr(97 + number // 26)} ag"[:10]: 0 for number in range(400)}
    table |= {f"meier{number:05x}": 0 for number in range(800)}
    (row,) = (row for row in rows(pickle.dumps(table), RecordKind.OBJECT).values() if row.table)
    assert row.table is not None
    assert "which may be names: look at all of them" in row.text
    assert len(row.table.odd) == 50


def test_a_long_number_of_a_name_counts_only_where_enough_do() -> None:
    def program(*names: str) -> bytes:
        return json.dumps({"name": names}).encode()

    few = texts(program("linear_120487", "linear_12", "fc"), RecordKind.PROGRAM, "models/model.json")
    assert ("name", "linear_120487") in few
    many = program(*(f"linear_{number}" for number in range(9000, 12_000)))
    assert texts(many, RecordKind.PROGRAM, "models/model.json") == set()
