"""Generated code that PyTorch doesn't compile is found, and none that it compiles; PyTorch is the oracle."""

from __future__ import annotations

import io
import random
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.limits import Limits
from archive.check import registered
from archive.check.code import DEEP, UNCHECKED
from archive.check.registered import is_unknown
from archive.check.verify import verification, verify
from archive.formats.bytecode import parse_operators
from tests.support.corpus import ARCHIVES, FIXTURES, ORACLES, RELEASES
from tests.support.sampling import sampled
from tests.support.tampering import PLAIN, STACK, tampered

if TYPE_CHECKING:
    from archive.base.diagnostics import Diagnostic
    from tests.support.tampering import Change

SCRIPTED = ORACLES / "plain_stack.pt"
WORD = re.compile(rb"torch\.(\w+)\(")
TOKEN = re.compile(rb"\w+|[^\w\s]|\n +")
ALL = sorted(path for path in FIXTURES.rglob("*.pt*") if zipfile.is_zipfile(path))
OF_CODE = re.compile("expected (TorchScript|an operator of PyTorch)")


def of_code(source: bytes | Path) -> list[Diagnostic]:
    """What verification says of syntax and operators."""
    return [finding for finding in verify(source) if OF_CODE.match(finding.message)]


def mistyped(code: bytes) -> bytes:
    return WORD.sub(rb"torch.\1x(", code, count=1)


@pytest.mark.parametrize("path", sampled(ALL, 120), ids=lambda path: path.stem)
def test_no_real_file_has_such_faults(path: Path) -> None:
    assert not of_code(path)


def test_what_was_looked_at_is_said_and_what_was_not() -> None:
    found = verification(SCRIPTED)
    assert "6 code records checked for syntax and for names of PyTorch's operators" in found.checked
    assert found.unchecked == [UNCHECKED]
    assert any(re.match(r"\d+ operators of bytecode looked for", one) for one in verification(STACK).checked)


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (lambda code: code + b"def f(x\n", 0),
        (lambda code: code.replace(b"return", b"retrun x", 1), 0),
        (lambda code: code.replace(b"(self", b"(self self", 1), 0),
        (lambda code: b"\0" + code, 1),
        (lambda code: b"class A:\n  x = 1\n y\n" + code, 3),
    ],
)
@pytest.mark.parametrize(("path", "severity"), [(SCRIPTED, "error"), (STACK, "warning")])
def test_broken_syntax_is_found_at_its_line(broken: Change, line: int, path: Path, severity: str) -> None:
    (finding,) = of_code(tampered(path, {PLAIN: broken}))
    assert (finding.severity, finding.record) == (severity, PLAIN)
    assert finding.place == f"line {line}" or not line
    assert finding.message.endswith("; PyTorch 2.13's torch.jit.load refuses it")


@pytest.mark.torch
@pytest.mark.parametrize("path", sampled(sorted(ORACLES.glob("*.pt")), 4), ids=lambda path: path.stem)
def test_what_is_called_broken_pytorch_refuses(path: Path) -> None:
    torch = pytest.importorskip("torch")
    chance = random.Random(path.name)  # noqa: S311 (no secret)
    with archive.open(path) as opened:
        names = [name for name, record in opened.records.items() if name.endswith(".py") and record.size]
    refused = 0
    for _ in range(25):
        name = chance.choice(names)

        def changed(code: bytes) -> bytes:
            token = chance.choice(list(TOKEN.finditer(code)))
            return code[: token.start()] + chance.choice([b"", b"(", b"torch", b" x "]) + code[token.end() :]

        data = tampered(path, {name: changed})
        if of_code(data):
            refused += 1
            with pytest.raises((RuntimeError, ValueError)):
                torch.jit.load(io.BytesIO(data))
    assert refused > 5


@pytest.mark.torch
def test_pytorch_has_the_operators_that_are_listed() -> None:
    pytest.importorskip("torch")
    from tools.registered import text  # noqa: PLC0415 (needs PyTorch)

    assert Path(registered.__file__).with_name(registered.OPERATORS_FILE).read_text() == text()


def test_a_mistyped_operator_is_found_wherever_operators_stand() -> None:
    (finding,) = of_code(tampered(SCRIPTED, {PLAIN: mistyped}))
    assert (finding.severity, finding.record) == ("error", PLAIN)
    assert re.search(r"found (aten::\w+x); .* refuses it: \"Unknown builtin op: \1\"", finding.message)
    bytecode = tampered(STACK, {"bytecode.pkl": lambda data: data.replace(b"aten::relu", b"aten::rela")})
    (finding,) = of_code(bytecode)
    assert (finding.severity, finding.record) == ("error", "bytecode.pkl")
    assert finding.place.startswith("method ")
    in_text = tampered(
        SCRIPTED, {PLAIN: lambda code: code + b'\n# torch.ad(\ndef f() -> str:\n  return "ops.aten.ad("\n'}
    )
    assert not of_code(in_text)


def test_earlier_releases_may_have_had_the_operator() -> None:
    (finding,) = of_code(
        tampered(RELEASES / "torch-1.4.0" / "nested.pt", {"code/__torch__/models.py": mistyped})
    )
    assert finding.severity == "note"


@pytest.mark.parametrize("path", sampled([one for one in ARCHIVES if one.suffix == ".ptl"], 20), ids=str)
def test_each_operator_of_bytecode_is_pytorchs(path: Path) -> None:
    with archive.open(path) as opened:
        methods = parse_operators(opened.tree(["bytecode.pkl"]), 0)
    names = {name.decode() for called in methods.values() for name in called if name}
    assert names
    assert not [name for name in names if is_unknown(*name.split("::"))]
    assert all(is_unknown(space, f"{name}x") for space, name in (name.split("::") for name in names))


def test_code_that_is_too_deep_or_long_is_not_called_broken() -> None:
    deep = tampered(SCRIPTED, {PLAIN: lambda code: code + b"def f():\n  return " + b"(" * 300 + b")" * 300})
    found = verification(deep)
    assert not found.diagnostics
    assert found.unchecked == [DEEP, UNCHECKED]
    with archive.open(SCRIPTED) as opened:
        taken = opened.allowance.taken
    assert any(
        DEEP in verification(SCRIPTED, limits=Limits(memory=taken + more)).unchecked
        for more in range(0, 400_000, 4_000)
    )
