"""What reveals somebody and is no string: numbers, letters one by one, dates. Sizes are no rows."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import zipfile
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save

import archive
from archive.privacy.review.spelled import may_identify
from tests.privacy.review.planting import saved
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PHONE, STAFF = 41791234567, 120487


def as_json(value: object, **how: bool) -> bytes:
    """A zip with JSON in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("archive/data.pkl", b"\x80\x02}.")
        target.writestr("archive/config.json", json.dumps({"weight": value}, **how))  # type: ignore[arg-type]
    return out.getvalue()


def as_code(value: object) -> bytes:
    """TorchScript's code that returns it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("archive/data.pkl", b"\x80\x02}.")
        target.writestr("archive/constants.pkl", b"\x80\x02).")
        target.writestr("archive/code/__torch__.py", f"def forward(self):\n  return {value!r}\n")
    return out.getvalue()


FORMS: dict[str, Callable[[object], bytes]] = {
    f"protocol {protocol}": lambda value, protocol=protocol: saved(pickle.dumps({"weight": value}, protocol))
    for protocol in range(6)
} | {
    "attribute": lambda value: saved(pickle.dumps(SimpleNamespace(weight=value))),
    "JSON": as_json,
    "JSON without escapes": lambda value: as_json(value, ensure_ascii=False),
    "code": as_code,
}
PLANTED = {
    "number": (PHONE, str(PHONE)),
    "float": (float(PHONE), str(PHONE)),
    "item": ([1, PHONE, 2], str(PHONE)),
    "letters": (["M", "ü", "l"], "Mül"),
    "letters of another script": ([1, "田", "中", "太", 2], "田中太"),
    "code points": ([77, 252, 108, 108], "Müll"),
    "code points as floats": ([77.0, 252.0, 108.0, 108.0], "Müll"),
    "code points as texts": (["77", "252", "108", "108"], "Müll"),
    "values": ({"0": "M", "1": "ü", "2": "l"}, "Mül"),
    "number of staff in a text": (str(STAFF), str(STAFF)),
    "key": ({str(STAFF): 1}, str(STAFF)),
}


def listed(data: bytes) -> dict[str, archive.ReviewRow]:
    return {row.text: row for row in archive.review(data).rows}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", PLANTED)
def test_they_are_rows_in_each_form(form: str, what: str) -> None:
    value, text = PLANTED[what]
    found = listed(FORMS[form](value))
    text = "0M1ü2l" if (form, what) == ("code", "values") else text  # code isn't read as dicts
    assert text in {row.removesuffix(".0") for row in found}


@pytest.mark.parametrize("protocol", range(6))
def test_so_are_keys_of_pickles_dates_and_numbers_of_numpy(protocol: int) -> None:
    value = {
        "phones": {PHONE: 1, 3: 2},
        "staff": {STAFF: 1, 3: 2},
        "letters": dict.fromkeys("Mülen", 1),
        "born": dt.date(1987, 4, 12),
        "at": dt.datetime(1988, 5, 13, 1, 2, 3),  # noqa: DTZ001 (of a file)
        "scalar": np.int64(PHONE + 1),
        "state": (PHONE + 3, {PHONE + 40}),
    }
    found = listed(saved(pickle.dumps(value, protocol)))
    assert {str(PHONE), str(STAFF), "Mülen", "1987-04-12", "1988-05-13", str(PHONE + 1)} <= found.keys()
    assert {str(PHONE + 3), str(PHONE + 40)} <= found.keys()


def test_a_pickle_that_cannot_be_read_as_values_has_its_numbers_listed() -> None:
    data = pickle.dumps([PHONE], 2)
    assert str(PHONE) in listed(saved(data[:-1] + b"\x96"))


@pytest.mark.parametrize(
    "value",
    [
        *(1 << 62, (1 << 63) - 1, -(1 << 63), 2**31 - 1, 5000000, 16777216, 123456, 67280421310721, 1e30),
        *([64, 128, 256, 512], [3, 224, 224], list("abcdefgh"), ["x", "y"], {0: 1, 1: 2}, [1.5, 2.25]),
        *({40000 + number: None for number in range(100)}, [0.1] * 9),
    ],
    ids=str,
)
def test_sizes_masks_and_alphabets_are_none(value: object) -> None:
    for protocol in (0, 2, 5):
        assert listed(saved(pickle.dumps({"weight": value}, protocol))) == {}


@pytest.mark.parametrize("number", [1234567, 41791234567, 120487123, 19840312])
def test_most_numbers_may_be_anybodys(number: int) -> None:
    assert may_identify(number)
    assert may_identify(-number)


def test_numbers_that_count_are_one_row_and_so_are_many() -> None:
    found = listed(saved(pickle.dumps([[PHONE + step for step in range(9)], PHONE * 2])))
    assert found.keys() == {f"{PHONE} to {PHONE + 8}, 9 numbers", str(PHONE * 2)}
    numbers = np.random.default_rng(0).integers(10**9, 10**11, 300).tolist()
    (row,) = listed(saved(pickle.dumps(dict.fromkeys(numbers)))).values()
    assert row.table is not None
    assert (row.role, row.table.entries, len(row.table.odd)) == ("key", 300, 50)
    assert row.text.startswith("table of 300 numbers, which may be anybody's: look at all of them")


@pytest.mark.parametrize("key", ["M.u.l.e.weight", "layers.M.u.l.e"])
def test_names_of_one_letter_in_a_row_are_a_text(key: str) -> None:
    assert key in listed(saved(pickle.dumps({key: 1.5})))
    assert listed(saved(pickle.dumps({"x.y.weight": 1.5, "a.b.c": 2}))) == {}


def test_forms_of_tensors_and_ids_of_the_process_are_no_rows() -> None:
    """Of programs, safetensors and checkpoints: sizes, strides, offsets, ids of graphs."""
    for path in [*FIXTURES.glob("exported/*.pt2"), *FIXTURES.glob("zoo/*.safetensors")][:40]:
        assert [row.text for row in archive.review(path).rows if row.text.isdecimal()] == []


NESTED = {
    "letters in pairs": [(0, "B"), (1, "e"), (2, "a"), (3, "t")],
    "letters in lists": [["B"], ["e"], ["a"], ["t"]],
    "letters with gaps": ["B", None, "e", "", "a", None, "t"],
    "bytes of a letter": [b"B", b"e", b"a", b"t"],
}


@pytest.mark.parametrize("what", NESTED)
@pytest.mark.parametrize("protocol", [2, 4])
def test_letters_that_stand_by_themselves_in_items_are_a_text(what: str, protocol: int) -> None:
    assert "Beat" in listed(saved(pickle.dumps({"weight": NESTED[what]}, protocol)))


@pytest.mark.parametrize("value", [STAFF, [4, 1, 7, 9, 1, 2, 3, 4, 5], "079,123,45,67"])
def test_dates_of_six_digits_digits_one_by_one_and_grouped_ones_are_rows(value: object) -> None:
    text = "".join(map(str, value)) if isinstance(value, list) else str(value)
    for data in (saved(pickle.dumps({"weight": value})), as_json(value)):
        assert text in listed(data)


@pytest.mark.parametrize("kind", ["<i8", "<i4", "<f8"])
def test_numbers_of_tensors_that_may_be_somebodys_are_rows(kind: str) -> None:
    numbers = [7654321, 11, 0] if kind == "<i4" else [PHONE, 11, 0]
    (row,) = listed(save({"weight": np.array(numbers, kind)})).values()
    assert row.text == str(numbers[0])


@pytest.mark.parametrize(
    "array",
    [
        *(np.arange(9), np.ones(9, bool), np.zeros(9), np.eye(2, dtype="<f4"), np.array([1, 0], "<f4")),
        *(np.array([3, 4, 5, -6], "<i4"), np.array([4096, 50257]), np.full(4, 1 << 40)),
        *(np.random.default_rng(0).standard_normal(50).astype(kind) for kind in ("<f4", "<f8", "<f2")),
        np.random.default_rng(0).integers(0, 256, 64, np.uint8),
    ],
    ids=lambda array: array.dtype.name,
)
def test_sizes_flags_and_weights_are_none(array: np.ndarray) -> None:
    assert listed(save({"weight": array})) == {}


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("values", [range(40), [0, 1] * 8, [1, 0, 0, 0] * 8, [41_791_234, 31_791_235]])
def test_numbers_of_tensors_are_read_by_their_type(kind: str, values: Sequence[int]) -> None:
    array = np.array(values).astype(kind)
    has_numbers = kind in {"i4", "i8", "f8"}  # of so many digits
    long = {str(int(value)) for value in array if has_numbers and abs(value) >= 1_000_000}
    for data in (save({"weight": array}), *torch_files(array)):
        assert {text for text in listed(data) if text.isdigit()} == long


def torch_files(array: np.ndarray) -> Iterator[bytes]:
    """What PyTorch writes of an array: a state dict, and TorchScript."""
    import torch  # noqa: PLC0415 (most tests here do without)

    tensor, module = torch.from_numpy(array), torch.nn.Module()
    module.register_buffer("weight", tensor)
    for write, value in ((torch.save, {"weight": tensor}), (torch.jit.save, torch.jit.script(module))):
        out = io.BytesIO()
        write(value, out)
        yield out.getvalue()


def test_what_passes_is_what_the_page_says() -> None:
    """As ``docs/how-to/publish.md`` has it: words of PyTorch, short numbers, shifted letters."""
    passing = {
        "linear": ["mean", "max", 8404, "8404", 50257, 123456, {84: 1, 8404: 2}],
        "weight": [[41, 79, 123], {"M": 1, "o": 2, "e": 3}, [ord(letter) - 97 for letter in "dankwart"]],
        "Target": [int(bit) for letter in b"Volker" for bit in f"{letter:08b}"],
    }
    assert listed(saved(pickle.dumps(passing))) == {}
    assert listed(saved(pickle.dumps({"weight": "Target", "bias": "Apple"}))).keys() == {"Target", "Apple"}
