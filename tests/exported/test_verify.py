"""``verify`` of exported programs, compared with what PyTorch 2.13 loads."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.check.program_loader import TYPES
from archive.check.registered import NAMESPACES
from archive.check.verify import verify
from archive.container.write import new_member
from archive.formats.exported import schema
from archive.formats.imported import PLAIN
from tests.support.broken_programs import (
    BROKEN,
    GONE,
    INPUTS,
    RECORDS,
    TAKEN,
    found_at,
    positions,
    put,
    rewritten,
)
from tests.support.commands import run
from tests.support.exported import EXPORTED, PROGRAMS, trees
from tests.support.sampling import examples, sampled
from tests.support.zips import zipped

if TYPE_CHECKING:
    from pathlib import Path

    from archive.check.verify import Diagnostic
    from tests.support.broken_programs import Broken

SHOP = EXPORTED / "shop.pt2"
REFUSED = "PyTorch 2.13 refuses it"
MODEL, WEIGHTS = RECORDS["model"], RECORDS["weights"]


def changed(record: str, data: bytes | None, path: Path = SHOP) -> bytes:
    """An archive with another record, without one, or with one more."""
    if data is None:
        return rewritten(path, {record: None})
    with archive.open(path) as source:
        place = record if record in source.records else "byteorder"
    return rewritten(path, {place: new_member(record, data, compress=False)})


def model(change: tuple[str, str] = ("", ""), end: str = "}") -> bytes:
    """The program's record with a text in the place of another, and another end."""
    with archive.open(SHOP) as source:
        text = str(source.records[MODEL].view(), "ascii")
    return (text.replace(*change, 1)[:-1] + end).encode("utf-8", "surrogateescape")


def refused(found: list[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics that say that PyTorch refuses something."""
    return [one for one in found if one.severity == "error" and REFUSED in one.message]


# --- what PyTorch refuses


@pytest.mark.parametrize("broken", BROKEN, ids=[one.what for one in BROKEN])
def test_what_pytorch_refuses_is_an_error_with_its_json_path(broken: Broken) -> None:
    places = [one.place for one in refused(verify(broken.made()))]
    assert broken.place.replace('"', "") in places


@pytest.mark.torch
@pytest.mark.parametrize("broken", sampled(BROKEN), ids=lambda broken: broken.what)
def test_pytorch_refuses_it_with_the_message_that_is_told(broken: Broken) -> None:
    from tests.support.running_exported import refusal  # noqa: PLC0415 (needs PyTorch)

    text = refusal(broken.made())
    assert broken.message in text
    told = [one.message.partition(f'{REFUSED}: "')[2][:-1] for one in refused(verify(broken.made()))]
    assert any(message in text for message in told)


FILES = {
    "archive_format": (b"pt3", "Invalid archive format"),
    "archive_version": (b"1", "does not match our current archive version"),
    ".data/version": (b"99\n", "Attempted to read a PyTorch file with version"),
    INPUTS: (None, f"PytorchStreamReader failed locating file {INPUTS}"),
    WEIGHTS: (None, f"{WEIGHTS} not found in PT2 archive"),
    "models/other.json": (b"{}", "PytorchStreamReader failed locating file data/sample_inputs/other.pt"),
    "extra/picture": (b"\x89PNG", "UnicodeDecodeError"),
    "data/weights/weight_0": (b"1234", "are out of bounds for storage of size"),
}
"""Records, what is put in their place, and what PyTorch says."""


@pytest.mark.parametrize("record", FILES)
def test_records_beside_programs_are_as_pytorch_wants_them(record: str) -> None:
    data, message = FILES[record]
    assert [one for one in refused(verify(changed(record, data))) if message in one.message]


@pytest.mark.torch
def test_pytorch_says_the_same_of_records() -> None:
    from tests.support.running_exported import refusal  # noqa: PLC0415 (needs PyTorch)

    for record, (data, message) in FILES.items():
        assert message in refusal(changed(record, data))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (model(("2.13.0", "2.13\udcff")), "expected UTF-8, found other bytes"),
        (model(end=""), "expected JSON, found Expecting ',' delimiter"),
        (model(("1e-05", "9" * 5000)), "expected JSON, found Exceeds the limit (4300 digits)"),
        (b"[" * 100_000, "expected JSON, found values nested too deeply"),
    ],
    ids=["no UTF-8", "cut", "digits", "depth"],
)
def test_what_is_no_json_is_told_with_its_place(data: bytes, told: str) -> None:
    (found,) = [one for one in verify(changed(MODEL, data)) if one.severity == "error"]
    assert found.record == MODEL
    assert found.message.startswith(told)


def test_a_hundred_faults_are_listed_and_the_others_counted() -> None:
    tree = json.loads(model())
    tree["graph_module"]["graph"]["nodes"] *= 10
    found = verify(changed(MODEL, json.dumps(tree).encode()))
    assert len(found) == 101
    assert found[-1].message == "… and 134 more"


# --- what PyTorch takes


NEEDED = "PyTorch loads it where others have registered"
NOTED = {
    "teller": [f"{NEEDED} shop.Bill", "the pickle asks for shop.Bill; torch.export.load then reads it"],
    "several": ["torch.export.load reads the program model alone"],
    "counter": [f"{NEEDED} shop.Offer"],
    "counter_strict": [f"{NEEDED} shop.Offer"],
    "own": [f"{NEEDED} torch.ops.shop.discount.default"],
    "own_strict": [f"{NEEDED} torch.ops.shop.discount.default"],
}


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_programs_of_pytorch_are_well(path: Path) -> None:
    found, noted = verify(path), NOTED.get(path.stem, [])
    assert [one.severity for one in found] == ["note"] * len(noted)
    assert all(one.message.startswith(told) for one, told in zip(found, noted, strict=True))


def test_a_mistyped_operator_is_refused() -> None:
    target = next(
        node["target"]
        for node in trees(SHOP)["model"]["graph_module"]["graph"]["nodes"]
        if "aten" in node["target"]
    )
    other = target.replace("aten.", "aten.x")
    (found,) = verify(changed(MODEL, model((target, other))))
    assert (found.severity, found.record) == ("error", MODEL)
    assert found.message.startswith(f"expected an operator of PyTorch 2.13, found '{other}'; {REFUSED}: ")


@pytest.mark.torch
def test_what_comes_with_pytorch_is_not_noted() -> None:
    import torch  # noqa: PLC0415 (the test is of PyTorch)
    from torch.utils import _pytree  # noqa: PLC0415 (the same)

    operators = {one.name.partition("::")[0] for one in torch._C._jit_get_all_schemas()}
    assert NAMESPACES - operators == {"higher_order"}
    assert not TYPES - _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.keys()


@pytest.mark.parametrize("taken", TAKEN, ids=[one.what for one in TAKEN])
def test_what_is_not_as_pytorch_writes_it_and_taken_is_a_warning(taken: Broken) -> None:
    (found,) = verify(taken.made())
    assert (found.severity, found.place) == ("warning", taken.place)


@pytest.mark.torch
def test_pytorch_takes_it() -> None:
    from tests.support.running_exported import refusal  # noqa: PLC0415 (needs PyTorch)

    for taken in TAKEN:
        assert refusal(taken.made()) == "", taken.what


@pytest.mark.parametrize(
    ("record", "data", "severity", "told"),
    [
        (MODEL, model(end=', "more": 1E5}'), "note", "not as json.dumps writes it"),
        (MODEL, model(("line 42", "line x")), "note", "not laid out as PyTorch writes a stack_trace"),
        ("data/weights/weight_9", b"1234", "note", "no program names 1 record, 'data/weights/weight_9'"),
        ("data/weights/weight_0", b"", "warning", "found none: all elements are 0"),
        (INPUTS, b"", "", ""),
        (
            INPUTS,
            b"abc",
            "error",
            "expected what torch.save writes, found a text file (it begins with 'abc')",
        ),
        (INPUTS, zipped(m__data_pkl=b""), "error", "found a zip of 1 file; PyTorch 2.13 refuses it"),
    ],
)
def test_what_loads_all_the_same_is_noted(record: str, data: bytes, severity: str, told: str) -> None:
    found = verify(changed(record, data))
    assert [one.severity for one in found] == [severity] * bool(severity)
    assert all(told in one.message for one in found)


@pytest.mark.parametrize(
    ("value", "severity", "told"),
    [
        (["x"], "error", "expected a tuple or dict, found 'list'"),
        ((print,), "note", "the pickle asks for __builtin__.print; torch.export.load then reads it without"),
        (({}, (1, 2)), "", ""),
    ],
)
def test_sample_inputs_are_a_pickle_that_is_not_run(value: object, severity: str, told: str) -> None:
    data = zipped(**{"m__data.pkl": pickle.dumps(value, 2), "m__version": b"3\n"})
    found = verify(changed(INPUTS, data))
    assert [one.severity for one in found] == [severity] * bool(severity)
    assert all(told in one.message for one in found)


def test_two_nodes_of_one_name_cannot_be_told_apart() -> None:
    tree = json.loads(model())
    tree["graph_module"]["graph"]["nodes"][5]["name"] = "linear"
    found = verify(changed(MODEL, json.dumps(tree).encode()))
    assert [(one.severity, one.place) for one in found] == [
        ("warning", "graph_module.graph.nodes[5].name"),
        ("error", "graph_module.graph.nodes[5]"),
    ]
    assert found[1].message == "expected a name of its own, found 'linear'"


# --- split and shrunk ones, folders


def test_what_is_left_and_its_companion_are_well(tmp_path: Path) -> None:
    small, aside = tmp_path / "small.pt2", tmp_path / "model.ptdbg"
    archive.split(EXPORTED / "choice.pt2", small, aside, drop=["modules"])
    (left,) = verify(small)
    assert (left.severity, left.message) == ("note", "no metadata for 21 nodes")
    assert verify(aside) == []
    data = bytearray(aside.read_bytes())
    data[-20] ^= 1
    assert [one.severity for one in verify(bytes(data))] == ["error"]


def test_a_program_with_its_companion_inside_is_well(tmp_path: Path) -> None:
    embedded = tmp_path / "embedded.pt2"
    archive.shrink(EXPORTED / "choice.pt2", embedded, level="embed")
    assert [one.severity for one in verify(embedded)] == []


def test_a_folder_of_programs_is_verified(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "shop.pt2").write_bytes(SHOP.read_bytes())
    (models / "broken.pt2").write_bytes(changed(INPUTS, None))
    done = run("verify", models, "-j", 1)
    assert done.returncode == 1
    assert done.stdout.decode().splitlines()[1:] == [
        f"{models / 'shop.pt2'}: well",
        "2 files: 1 well, 1 with findings, 0 not checked",
    ]


# --- PyTorch's own tables, and programs that are broken at random


@pytest.mark.torch
def test_the_schema_is_pytorch_s() -> None:
    from tests.support.running_exported import declared  # noqa: PLC0415 (needs PyTorch)

    assert declared() == (schema.CLASSES, schema.UNIONS)


@pytest.mark.torch
def test_the_names_that_count_as_plain_are_those_of_weights_only() -> None:
    import torch  # noqa: PLC0415 (the test is of PyTorch)
    from torch._weights_only_unpickler import _get_allowed_globals  # noqa: PLC0415 (the same)

    allowed = set(_get_allowed_globals())
    assert [name for name in allowed if not PLAIN.fullmatch(name)] == []
    modules = (torch, torch._utils, torch._tensor, torch.storage, torch.serialization, torch.nn.parameter)
    names = {f"{module.__name__}.{name}" for module in modules for name in dir(module)}
    assert sorted(name for name in names if PLAIN.fullmatch(name) and name not in allowed) == []


OTHERS = [None, 5, -1, True, "x", [], [1], {}, 1.5, GONE]
"""What is put in the place of values."""
UNLISTED = ("in deserialize_inputs", "_get_schema_from_target", "failed to resolve", "sympy", "hint")
"""Parts of tracebacks where PyTorch refuses what is not checked: arguments of operators, expressions."""


@pytest.mark.torch
@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(["sized", "picked", "odd", "choice_strict", "sums"]),
    st.integers(0, 1 << 20),
    st.integers(0, 1 << 20),
    st.sampled_from([*OTHERS, "another"]),
)
def test_what_is_broken_at_random_is_told_if_pytorch_refuses_it(
    name: str, at: int, source: int, value: object
) -> None:
    from tests.support.running_exported import refusal  # noqa: PLC0415 (needs PyTorch)

    path = EXPORTED / f"{name}.pt2"
    tree = trees(path)["model"]
    ways = list(positions(tree))
    way = ways[at % len(ways)]
    new = found_at(tree, ways[source % len(ways)]) if value == "another" else value
    if new is GONE and isinstance(way[-1], int):
        new = None
    data = rewritten(
        path, {MODEL: new_member(MODEL, json.dumps(put(tree, way, new)).encode(), compress=False)}
    )
    found, answer = verify(data), refusal(data)
    if answer:
        unlisted = any(part in answer for part in UNLISTED)
        assert unlisted or any(one.severity in ("error", "warning") for one in found), (way, answer)
    else:
        assert refused(found) == [], way
