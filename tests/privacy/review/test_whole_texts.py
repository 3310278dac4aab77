"""A text is listed as it was written: without the escapes of its place, with its numbers, without opcodes."""

from __future__ import annotations

import io
import json
import pickle
import re
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

import archive
from tests.privacy.review.planting import saved
from tests.support.canaries import rewritten
from tests.support.commands import called
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHOP = FIXTURES / "exported" / "shop.pt2"
PROGRAM = "models/model.json"
KEYS = ["Артур", "Иванов", "李明", "田中太郎", "محمد", "Ελένη", "Łódź", "Söhne", "температура воды", "👩"]
NUMBERS = ["+41 79 123 45 67", "079/123.45.67", "(079) 123-45-67", "1987-04-12", "12.04.1987", "12.04.87"]
DEEPEST = 3
"""How deep texts of JSON in JSON are tried: a treespec in a program has two around a key."""


def treespec(*keys: str | int) -> str:
    """What PyTorch writes of a dict with some keys that a model returns."""
    leaf: dict[str, object] = {"type": None, "context": None, "children_spec": []}
    node = {"type": "builtins.dict", "context": json.dumps(keys), "children_spec": [leaf for _ in keys]}
    return json.dumps([1, node])


def returning(spec: str) -> bytes:
    """The shop, an exported program, that returns values of another form."""

    def change(name: str, data: bytes) -> bytes:
        if name != PROGRAM:
            return data
        program = json.loads(data)
        program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = spec
        return json.dumps(program).encode()

    return rewritten(SHOP.read_bytes(), change)


def new_rows(data: bytes) -> dict[str, archive.ReviewRow]:
    """The rows that the shop has not."""
    before = {row.text for row in archive.review(SHOP).rows}
    return {row.text: row for row in archive.review(data).rows if row.text not in before}


@pytest.mark.torch
def test_pytorch_writes_such_treespecs() -> None:
    from torch.utils import _pytree as pytree  # noqa: PLC0415

    for keys in ([KEYS[0]], KEYS, NUMBERS, [0, 41791234567]):
        spec = pytree.treespec_dumps(pytree.tree_structure(dict.fromkeys(keys, 1)))
        assert json.loads(spec)[1]["context"] == json.loads(treespec(*keys))[1]["context"]
        assert spec.startswith('[1, {"type": "builtins.dict", "context": ')


@pytest.mark.parametrize("depth", range(DEEPEST))
def test_keys_of_any_script_are_listed_as_they_were_written(depth: int) -> None:
    spec = treespec(*KEYS)
    for _ in range(depth):
        spec = json.dumps([0, True, {"name": spec}])
    found = new_rows(returning(spec))
    words = {word for key in KEYS for word in (key, *key.split())}
    assert {key for key in KEYS if key.isalpha() and key not in found} == set()
    assert "температура воды" in found
    assert {text for text in found if text not in words} == set()


@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST + 2, DEEPEST + 5])
def test_deeper_they_are_in_some_row(depth: int) -> None:
    spec = treespec(*KEYS[:4])
    for _ in range(depth):
        spec = json.dumps([spec])
    found = " ".join(new_rows(returning(spec)))
    assert [key for key in KEYS[:4] if key not in found] == []


@pytest.mark.parametrize("write", [ascii, lambda key: key.encode("unicode-escape").decode()])
def test_escapes_of_python_are_undone_too(write: Callable[[str], str]) -> None:
    found = new_rows(returning(treespec(*(write(key) for key in KEYS[:3]))))
    assert set(KEYS[:3]) == set(found)


@pytest.mark.parametrize("key", ["температура воды", "имя клиента", "水 温"])
def test_leaks_takes_no_escape_for_a_path_or_a_host(tmp_path: Path, key: str) -> None:
    path = tmp_path / "x.pt2"
    path.write_bytes(returning(treespec(key)))
    found, before = called("leaks", path).stdout, called("leaks", SHOP).stdout
    assert re.findall(r"u0[0-9a-f]{3}|network path|host name", found) == []
    assert before.count("\n") == found.count("\n")


@pytest.mark.parametrize("number", NUMBERS)
def test_long_numbers_and_dates_are_shown_whole(number: str) -> None:
    row = new_rows(returning(treespec(number)))[number]
    assert (row.role, row.template) == ("value", False)
    row = new_rows(returning(treespec(f"md.{number}.x")))[f"md.{number}.x"]
    assert (row.role, row.template) == ("value", False)


def test_whole_numbers_that_are_keys_are_shown() -> None:
    assert set(new_rows(returning(treespec(0, 41791234567)))) == {"[0, 41791234567]"}
    assert set(new_rows(returning(treespec(0, 1, 2)))) == set()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("around", ["{}", "call {}", "{}x"])
def test_no_two_of_them_are_one_row(number: str, around: str) -> None:
    other = number.translate(str.maketrans("1234567890", "2345678901"))
    texts = [around.format(one) for one in (number, other)]
    for value in (texts, dict.fromkeys(texts)):
        rows = {row.text: row for row in archive.review(saved(pickle.dumps(value))).rows}
        assert set(texts) <= set(rows)
        assert not any(rows[text].template for text in texts)


def test_numbers_that_count_are_templates_still() -> None:
    keys = [f"layers.{number}.heads.{number + 10}.norm_weights" for number in range(20)]
    rows = archive.review(saved(pickle.dumps(dict.fromkeys(keys, 1)))).rows
    assert [(row.text, row.template) for row in rows] == [("layers.N.heads.N.norm_weights", True)]


def test_redact_names_no_opcode_behind_a_name(tmp_path: Path) -> None:
    path, value = tmp_path / "x.pt", {"user": "Friedrich", "lr": 0.1, "data": "gs://bucket/x"}
    path.write_bytes(saved(pickle.dumps({"args": Namespace(**value)}, 2)))
    done = called("redact", path, "-o", tmp_path / "y.pt", "-c", tmp_path / "y.ptdbg", "--for", "publish")
    assert "Friedrich" in done.output
    assert "Friedrichq" not in done.output


@pytest.mark.parametrize(
    "path",
    [*sorted((FIXTURES / "exported").glob("*.pt2")), *sorted((FIXTURES / "executorch").glob("*.etrecord"))],
    ids=lambda path: path.name,
)
def test_no_row_has_an_id_of_the_process_that_exported(path: Path) -> None:
    assert [row.text for row in archive.review(path).rows if re.search(r"1[34][0-9]{13}", row.text)] == []


def test_a_telephone_number_in_a_stack_of_modules_is_shown() -> None:
    stack = "L__self__,,Net;140634240803792@1,md.+41 79 123 45 67@1,torch.nn.modules.linear.Linear"
    program = json.dumps({"metadata": {"nn_module_stack": stack}})
    rows = new_rows(
        rewritten(SHOP.read_bytes(), lambda name, data: program.encode() if name == PROGRAM else data)
    )
    assert any("+41 79 123 45 67" in text for text in rows)


@pytest.mark.torch
@pytest.mark.parametrize("protocol", range(2, 5))
def test_two_saves_by_an_older_pytorch_have_the_same_rows(protocol: int) -> None:
    """Ids of storages are addresses, which are others in each process."""
    import torch  # noqa: PLC0415

    found, kept = [], []
    for _ in range(2):
        kept.append(torch.ones(3))
        out = io.BytesIO()
        torch.save(
            {"Zephyrine": kept[-1], "who": "Friedrich"},
            out,
            pickle_protocol=protocol,
            _use_new_zipfile_serialization=False,
        )
        found.append([(row.role, row.text) for row in archive.review(out.getvalue()).rows])
    assert found[0] == found[1]
    assert {"Zephyrine", "Friedrich"} <= {text for _, text in found[0]}
    assert not [text for _, text in found[0] if "q" in text or any(map(str.isdigit, text))]
