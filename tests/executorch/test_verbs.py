"""What each command says of programs of ExecuTorch, as ExecuTorch's own reader says it of the same files.

Nothing here reads a ``.pte``: ``NAME.pte.json`` has what ExecuTorch's reader finds.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.page.test_facts import facts_of
from tests.support.commands import run, told, well
from tests.support.documents import file_of, files_of
from tests.support.executorch import PROGRAMS, program_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

KINDS = {
    "perceptron": "mlp",
    "convolutions": "cnn",
    "attention": "attention",
    "sizes that vary": "sized",
    "a branch": "fork",
    "several methods": "methods",
    "quantised": "int8",
    "delegated": "xnnpack",
}
"""The kinds of programs that every command is tested with."""
DTYPES = {"FLOAT": "float32", "LONG": "int64", "INT": "int32", "BOOL": "bool"}
WIDTHS = {"float32": 4, "int64": 8, "int32": 4, "bool": 1}
REFUSED = 2
"""The exit status; runs of instructions without source have another."""
FRAMED = {"framed"}
"""Programs with the frames of instructions, of which ExecuTorch's reader says nothing."""
SAME_MODEL = {"framed": "shop"}
"""A program with the same instructions, which fits the record of the other."""


# --- what ExecuTorch's reader says, in the words of commands


class Constant(NamedTuple):
    """A tensor in the file; ``elements`` is its sha256."""

    dtype: str
    shape: list[int]
    elements: str


class Method(NamedTuple):
    """A method."""

    inputs: list[str]
    outputs: list[str]
    callees: list[str]
    planned: list[int]
    constants: dict[str, Constant]
    backends: list[str]

    @property
    def calls(self) -> dict[str, int]:
        """How often it calls each operator and backend; what calls nothing is left out."""
        return dict(Counter(callee for callee in self.callees if not callee.endswith("Call")))


@cache
def methods(name: str) -> dict[str, Method]:
    """The methods of a program."""
    return {one["name"]: _method(one) for one in _oracle(name)["methods"]}


def _oracle(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(program_file(name).with_suffix(".pte.json").read_text("utf-8"))
    return facts


def _method(facts: dict[str, Any]) -> Method:
    operators = [".".join(filter(None, parts)) for parts in facts["operators"]]
    callees = {
        "KernelCall": operators,
        "DelegateCall": [backend for backend, _ in facts["backends"]],
    }
    return Method(
        [_type_of(facts, number) for number in facts["inputs"]],
        [_type_of(facts, number) for number in facts["outputs"]],
        [callees[kind][target[0]] if kind in callees else kind for kind, *target in facts["instructions"]],
        facts["planned"][1:],
        {
            tensor["name"] or f"{facts['name']}.values.{number}": Constant(
                DTYPES[tensor["type"]], tensor["sizes"], tensor["elements"]
            )
            for number, tensor in facts["tensors"].items()
            if tensor["elements"] is not None
        },
        [backend for backend, _ in facts["backends"]],
    )


def _type_of(facts: dict[str, Any], number: int) -> str:
    """The type of a value."""
    tensor = facts["tensors"].get(str(number))
    if tensor is None:
        return str(facts["kinds"][number])
    most = "" if tensor["dynamism"] == "STATIC" else "<="
    return f"{DTYPES[tensor['type']]}[{'x'.join(f'{most}{size}' for size in tensor['sizes'])}]"


def constants(name: str) -> dict[str, Constant]:
    """The tensors in a file."""
    return {label: tensor for one in methods(name).values() for label, tensor in one.constants.items()}


def compiled(name: str) -> list[str]:
    """The records of what backends compiled, and of their data."""
    backends = [backend for one in methods(name).values() for backend in one.backends]
    blobs = [f"blobs/{number}.{backend}" for number, backend in enumerate(backends)]
    return blobs + [f"named/{key}" for key in _oracle(name)["named"]]


def bytes_of(tensors: Iterable[Constant]) -> int:
    """How many bytes tensors have, each once for itself."""
    return sum(prod(one.shape) * WIDTHS[one.dtype] for one in tensors)


def test_the_eight_kinds_are_what_they_are_called() -> None:
    plans = {kind: methods(name) for kind, name in KINDS.items()}
    calls = {kind: set(plan["forward"].calls) for kind, plan in plans.items()}
    assert "aten::addmm.out" in calls["perceptron"]
    assert "aten::convolution.out" in calls["convolutions"]
    assert {"aten::bmm.out", "aten::_softmax.out"} <= calls["attention"]
    assert any("<=" in one for one in plans["sizes that vary"]["forward"].inputs)
    assert "JumpFalseCall" in plans["a branch"]["forward"].callees
    assert len(plans["several methods"]) == 3
    assert calls["quantised"] == {"XnnpackBackend"}
    assert len(plans["delegated"]["forward"].backends) == 2


# --- of one program


@pytest.mark.parametrize("name", PROGRAMS)
def test_inspect_says_what_executorchs_reader_says(name: str) -> None:
    check_inspected(told("inspect", program_file(name)), name)


def check_inspected(facts: dict[str, Any], name: str) -> None:
    """Compare the facts that `inspect` prints."""
    assert facts["executorch_methods"].keys() == methods(name).keys()
    for method, found in facts["executorch_methods"].items():
        expected = methods(name)[method]
        assert found["inputs"] == expected.inputs
        assert found["outputs"] == expected.outputs
        assert found["instructions"] == len(expected.callees)
        assert found["framed"] == (len(expected.callees) if name in FRAMED else 0)
        assert found["operators"] | found["backends"] == expected.calls
        assert found["backends"].keys() == set(expected.backends)
        assert found["planned_bytes"] == expected.planned
    assert {label: (one["dtype"], one["shape"]) for label, one in facts["tensors"].items()} == {
        label: (one.dtype, one.shape) for label, one in constants(name).items()
    }
    assert [record for record in facts["records"] if record.startswith(("blobs/", "named/"))] == compiled(
        name
    )


def test_an_inventory_has_a_row_for_each_program() -> None:
    document = run("inspect", program_file("mlp").parent, "--json")
    assert document.returncode == 0
    found = {
        one["file"].rpartition("/")[2].removesuffix(".pte"): one
        for one in files_of(document.stdout)
        if one.get("kind") == "ExecuTorch program"
    }
    assert sorted(found) == PROGRAMS
    for name, facts in found.items():
        check_inspected(facts, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_verify_finds_nothing(name: str) -> None:
    line = well("verify", program_file(name)).removeprefix(f"{program_file(name)}: ")
    assert line.startswith("well: ")
    assert line.endswith("; not looked at: the bits of its data, for which the format has no checksums\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_leaks_finds_source_only_where_there_are_frames(name: str) -> None:
    done = run("leaks", program_file(name), "--json")
    kinds = {one["kind"] for one in file_of(done.stdout)["findings"]}
    assert b".py" in program_file(name).read_bytes() if name in FRAMED else not kinds
    assert (done.returncode, "source text" in kinds) == (1, True) if name in FRAMED else (0, False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_has_each_tensor_and_what_backends_compiled(name: str) -> None:
    facts: dict[str, Any] = told("sizes", program_file(name), "--by", "record")
    stored = {label: row["stored"] for label, row in facts["labels"].items()}
    assert sum(stored.values()) == program_file(name).stat().st_size
    # Equal bytes of several tensors are in the file once.
    different = {one.elements: one for one in constants(name).values()}.values()
    assert sum(size for label, size in stored.items() if label.startswith("data/")) <= bytes_of(
        constants(name).values()
    )
    assert sum(size for label, size in stored.items() if label.startswith("data/")) >= bytes_of(different)
    assert {label for label in stored if label.startswith(("blobs/", "named/"))} == {*compiled(name)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_report_has_its_methods_and_instructions(name: str) -> None:
    tables = {one["title"]: one["rows"] for one in facts_of(program_file(name))["tables"]}
    plans = methods(name)
    assert tables["Methods"][:4] == [
        [*plans],
        [", ".join(one.inputs) for one in plans.values()],
        [", ".join(one.outputs) for one in plans.values()],
        [len(one.callees) for one in plans.values()],
    ]
    callees, _, of, counts = tables["Calls"]
    expected = {(method, callee): count for method in plans for callee, count in plans[method].calls.items()}
    assert dict(zip(zip(of, callees, strict=True), counts, strict=True)) == expected
    rows = [
        (method, number, callee) for method, one in plans.items() for number, callee in enumerate(one.callees)
    ]
    assert list(zip(*tables["Instructions"][:3], strict=True)) == rows


@pytest.mark.parametrize("name", PROGRAMS)
def test_symbolicate_knows_each_instruction_and_no_other(name: str) -> None:
    plans = methods(name)
    words = [f"{method}/0:{number}" for method, one in plans.items() for number in range(len(one.callees))]
    done = run("symbolicate", program_file(name), *words, "--json")
    assert [(one["instruction"], one["operation"]) for one in file_of(done.stdout)["instructions"]] == list(
        zip(words, (callee for one in plans.values() for callee in one.callees), strict=True)
    )
    assert done.returncode == (0 if name in FRAMED else 1)
    assert (b"the program has no frames" in done.stderr) == (name not in FRAMED)
    for method, one in plans.items():
        past = f"{method}/0:{len(one.callees)}"
        missing = run("symbolicate", program_file(name), past)
        assert (missing.returncode, missing.stdout) == (1, b"")
        assert f"no instruction '{past}'" in missing.stderr.decode()


# --- of several


def test_digests_are_equal_only_where_models_are() -> None:
    """Of the model, and of its weights: tensors with the same names, types and elements."""
    digests = {name: told("digest", program_file(name))["digest"] for name in PROGRAMS}
    assert len(set(digests.values())) == len(PROGRAMS)
    by_weights: dict[str, list[str]] = {}
    for name in PROGRAMS:
        done = run("digest", "--of", "weights", program_file(name), "--json")
        if compiled(name) or not constants(name):
            assert done.returncode == REFUSED
            why = b"whose weights have no names" if compiled(name) else b"has no weights"
            assert why in done.stderr
            continue
        by_weights.setdefault(file_of(done.stdout)["digest"], []).append(name)
    assert all(constants(name) == constants(same[0]) for same in by_weights.values() for name in same)
    assert len(by_weights) == len({str(constants(same[0])) for same in by_weights.values()})


PAIRS = [
    *pairwise(KINDS.values()),
    *(("mlp", "int8"), ("int8", "mlp"), ("shop", "framed"), ("mapped", "xnnpack"), ("mlp", "twice")),
    *((name, name) for name in KINDS.values()),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_diff_lists_what_executorchs_reader_says_otherwise(old: str, new: str) -> None:
    done = run("diff", program_file(old), program_file(new), "--json")
    facts = file_of(done.stdout)
    assert (done.returncode, facts["identical"], facts["same_model"]) == (
        (0, True, True) if old == new else (1, False, False)
    )
    rows = {
        (row["what"], row["name"]): (row["old"], row["new"])
        for row in facts["changes"]
        if row["level"] == "model" and row["what"] not in {"graph", "tensor"}
    }
    assert rows.keys() - changed_data(old, new).keys() == changed_methods(old, new).keys()
    assert {key: rows[key] for key in changed_methods(old, new)} == changed_methods(old, new)
    assert rows.keys() >= changed_data(old, new).keys()
    tensors = {row["name"]: row["status"] for row in facts["changes"] if row["what"] == "tensor"}
    was, now = constants(old), constants(new)
    assert {name for name, status in tensors.items() if status == "gone"} == was.keys() - now.keys()
    assert {name for name, status in tensors.items() if status == "added"} == now.keys() - was.keys()
    other = {name for name in was.keys() & now.keys() if was[name] != now[name]}
    assert {name for name, status in tensors.items() if status == "changed"} == other


def changed_methods(old: str, new: str) -> dict[tuple[str, str], tuple[str, str]]:
    """The rows about methods."""
    rows, was, now = {}, methods(old), methods(new)
    for name in was.keys() | now.keys():
        if name not in was or name not in now:
            rows["method", name] = _count(was.get(name)), _count(now.get(name))
            continue
        before, after = _in_words(was[name]), _in_words(now[name])
        for what in before:
            if before[what] != after[what]:
                rows[what, name] = before[what] or "none", after[what] or "none"
        calls, others = was[name].calls, now[name].calls
        for callee in calls.keys() | others.keys():
            if calls.get(callee) != others.get(callee):
                rows["calls", f"{name}: {callee}"] = str(calls.get(callee, 0)), str(others.get(callee, 0))
    return rows


def changed_data(old: str, new: str) -> dict[tuple[str, str], None]:
    """The rows about what backends compiled, and their data."""
    kinds = {"blobs": "compiled model", "named": "named data"}
    was, now = (_data(name) for name in (old, new))
    names = [name for name in was.keys() | now.keys() if was.get(name) != now.get(name)]
    return {(kinds[name.partition("/")[0]], name): None for name in names}


def _data(name: str) -> dict[str, str]:
    """The sha256 of what backends compiled, and of their data."""
    facts = _oracle(name)
    digests = [digest for one in facts["methods"] for _, digest in one["backends"]]
    return dict(zip(compiled(name), [*digests, *facts["named"].values()], strict=True))


def _count(method: Method | None) -> str:
    if method is None:
        return ""
    count = len(method.callees)
    return f"{count} instruction{'s' * (count != 1)}"


def _in_words(method: Method) -> dict[str, str]:
    return {
        "inputs": ", ".join(method.inputs),
        "outputs": ", ".join(method.outputs),
        "instructions": str(len(method.callees)),
        "planned bytes": ", ".join(f"{size:,}" for size in method.planned),
    }


# --- beside runs and records


def test_a_program_itself_has_no_times() -> None:
    for name in KINDS.values():
        done = run("profile", program_file(name))
        assert (done.returncode, done.stdout) == (REFUSED, b"")
        assert b"`inspect`, `symbolicate`, `report`, `verify`, `leaks`, `sizes`, `diff`" in done.stderr


RUNS = sorted(
    path.stem
    for path in program_file("mlp").parent.glob("*.etdp")
    if path.with_suffix(".etrecord").exists() and path.with_suffix(".pte").exists()
)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_shown_by_its_own_record_and_program_only(name: str) -> None:
    """Another model's record or program is refused, the quantised one beside the floats, too."""
    dump, record = (program_file(name).with_suffix(suffix) for suffix in (".etdp", ".etrecord"))
    for program in PROGRAMS:
        done = run("profile", dump, "-c", record, "--program", program_file(program))
        is_own = SAME_MODEL.get(program, program) == name
        assert (done.returncode != REFUSED) == is_own, program
        assert is_own or (done.stdout, b"it was not made with" in done.stderr) == (b"", True)
    for other in RUNS:
        done = run("profile", dump, "-c", program_file(other).with_suffix(".etrecord"))
        assert (done.returncode != REFUSED) == (other == name), other
        assert other == name or b"the ETDump is not of the program of" in done.stderr
    assert {"xnnpack", "quantised"} <= set(RUNS)


# --- files that were damaged

COMMANDS = ("inspect", "verify", "leaks", "sizes", "digest", "symbolicate", "diff", "report")


def damaged(name: str) -> dict[str, bytes]:
    """A program that is cut short, and two with other bytes in the FlatBuffer."""
    data = program_file(name).read_bytes()
    half = len(data) // 2
    return {
        "cut": data[:half],
        "root": b"\xff\xff\xff\x7f" + data[4:],
        "vectors": data[:64] + b"\xf0" * (half - 64) + data[half:],
    }


@pytest.mark.parametrize("name", KINDS.values())
@pytest.mark.parametrize("how", ["cut", "root", "vectors"])
def test_a_damaged_program_is_one_error_for_every_command(name: str, how: str, tmp_path: Path) -> None:
    file = tmp_path / "m.pte"
    file.write_bytes(damaged(name)[how])
    more: dict[str, list[object]] = {
        "symbolicate": ["0:0"],
        "diff": [program_file(name)],
        "report": ["-o", tmp_path / "out.html"],
    }
    said = set()
    for command in COMMANDS:
        done = run(command, file, *more.get(command, []))
        text = done.stdout.decode() if command == "verify" else done.stderr.decode()
        lines = [line for line in text.splitlines() if str(file) in line]
        assert (done.returncode, len(lines)) == (1 if command == "verify" else REFUSED, 1), (command, text)
        said.add(lines[0].removeprefix("debug-archive: ").replace(": error: ", ": "))
    assert len(said) == 1, said
    assert not (tmp_path / "out.html").exists()
