"""Handles below a message that refuses a method's arguments are of an earlier failure: no line has failed.

The texts are those of PyTorch's ``FunctionSchema::checkAndNormalizeInputs`` and of ``formatTypeMismatchMsg``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.messages import refused_method
from archive.formats.bytecode import INTERFACE_CALL
from tests.support.corpus import ORACLES
from tests.support.halves import halves
from tests.support.reports import case, explained

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Archive

NAMES = ("plain_stack", "plain_unicode", "lowered_shape")
DECLARED = "Declaration: {method}({owner} self=None, Dynamic<1> x=None, Dynamic<8> k=0) -> Dynamic<1>=None"
OTHER_TYPE = (
    "{method}() Expected a value of type 'Dynamic<1>' for argument 'x' "
    "but instead found type 'Dynamic<64>'.\n"
)
REFUSALS = (
    "Expected at most 3 argument(s) for operator '{method}', but received 5 argument(s). " + DECLARED,
    "{method}() is missing value for argument 'x'. " + DECLARED,
    OTHER_TYPE + "Position: 1\n" + DECLARED,
    OTHER_TYPE + "Inferred 'x' to be of type 'Tensor' because it was not annotated with an explicit type.\n"
    "Position: 1\nValue: 3\n" + DECLARED,
)
WHY = "refused the arguments of {method} before an operation ran"
PREFIXES = ("", "2026-03-01 10:00:00,123 ERROR ", "E pytorch: ")


def refused(refusal: str, method: str, digits: str) -> str:
    said = refusal.format(method=method, owner=method.rpartition(".")[0])
    return f"{said}\n  Debug info for handle(s): debug_handles:{{{digits}}}, was not found.\n  \n"


def digits_of(name: str) -> str:
    """The digits of a failure that PyTorch printed of a model."""
    return case(name).stripped.decode().partition("debug_handles:{")[2].partition("}")[0]


def unique(opened: Archive, digits: str) -> str:
    return f"{opened.handle_form.prefix}{int(digits):08}"


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", NAMES)
def test_a_stale_handle_is_no_line(name: str, refusal: str, prefix: str) -> None:
    path, digits = ORACLES / f"{name}.ptl", digits_of(name)
    assert explained(case(name).stripped, path)[1:] == (1, 0, [])
    with archive.open(path) as opened:
        top = opened.qualified_top
    for method in (f"{top}.forward", f"{top}.other", "__torch__.a.___torch_mangle_3.Another.forward"):
        text = refused(refusal, method, digits)
        lines = "".join(f"{prefix}{line}\n" for line in text.splitlines())
        for log in (lines.encode(), f"RuntimeError: {lines}".encode()):
            assert explained(log, path)[:3] == (log, 0, 1)
            (note,) = explained(log, path).notes
            assert WHY.format(method=method) in note


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_unique_handle_is_no_line_either(refusal: str, tmp_path: Path) -> None:
    path = tmp_path / "model.ptdbg"
    path.write_bytes(halves(ORACLES / "plain_stack.ptl").companion)
    with archive.open(path) as opened:
        digits = unique(opened, digits_of("plain_stack"))
        method = f"{opened.qualified_top}.forward"
        log = refused(refusal, method, digits).encode()
        assert explained(log, opened)[:3] == (log, 0, 1)
        (note,) = explained(log, opened).notes
    assert WHY.format(method=method) in note
    (tmp_path / "other.ptdbg").write_bytes(halves(ORACLES / "plain_unicode.ptl").companion)
    explainer = explainer_of(models_in([tmp_path]))
    assert b"".join(explainer.explain([log])) == log
    assert (explainer.explained, explainer.unknown, explainer.ambiguous, explainer.lineless) == (0, 1, 0, 1)
    assert WHY.format(method=method) in explainer.notes[0]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_of_many_models_none_has_a_line(refusal: str) -> None:
    explainer = explainer_of(models_in([ORACLES / f"{name}.ptl" for name in NAMES]))
    logs = [refused(refusal, "__torch__.shop.Shop.forward", digits_of(name)).encode() for name in NAMES]
    assert b"".join(explainer.explain(logs)) == b"".join(logs)
    assert (explainer.unknown, explainer.ambiguous, explainer.lineless) == (3, 0, 3)
    assert all(WHY.format(method="__torch__.shop.Shop.forward") in note for note in explainer.notes)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_lines_in_json_are_no_line_either(refusal: str) -> None:
    text = refused(refusal, "__torch__.shop.Shop.forward", digits_of("plain_stack"))
    log = "".join(json.dumps({"log": line}) + "\n" for line in text.splitlines()).encode()
    out = explained(log, ORACLES / "plain_stack.ptl")
    assert out[:3] == (log, 0, 1)
    assert WHY.format(method="__torch__.shop.Shop.forward") in out.notes[0]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_instruction_that_calls_the_method_has_failed(refusal: str) -> None:
    """The interpreter notes its handles after the method that it calls has refused them."""
    with archive.open(ORACLES / "lowered_shape.ptl") as opened:
        table = opened.instruction_table
        assert table is not None
        handle = next(
            handle
            for method, handles in opened.methods.items()
            for number, handle in enumerate(handles)
            if table.at(method.encode(), number) == (INTERFACE_CALL, b"execute")
        )
        called = refused(refusal, "__torch__.a.Backend.execute", str(handle)).encode()
        assert explained(called, opened)[1:] == (1, 0, [])
        for method in (f"{opened.qualified_top}.execute", "__torch__.a.Backend.compile"):
            other = refused(refusal, method, str(handle)).encode()
            assert explained(other, opened)[:3] == (other, 0, 1)


def test_only_a_method_of_a_model_is_refused() -> None:
    assert (
        refused_method("Declaration: __torch__.a.B.forward(__torch__.a.B self) -> Tensor")
        == "__torch__.a.B.forward"
    )
    for line in (
        "Declaration: aten::add(Tensor self, Tensor other) -> Tensor",
        "Declaration: aten::go(__torch__.a.B x) -> Tensor",
        "__torch__.a.B.forward(x)",
        "",
    ):
        assert refused_method(line) == ""
