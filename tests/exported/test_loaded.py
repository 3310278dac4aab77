"""Nodes and names that PyTorch makes when it loads a program, and when it makes a module of it."""

from __future__ import annotations

import contextlib
import re
import traceback
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._export.serde import serialize
from torch._higher_order_ops.while_loop import while_loop
from torch._library.effects import EffectType
from torch.export.pt2_archive import _package

import archive
from archive.base.errors import ArchiveError
from archive.failures.eval_frames import is_line
from archive.failures.explainer import LogExplainer
from archive.formats.exported.loaded import Names
from archive.formats.exported.program import Program
from archive.reader.lookups.nodes import ProgramNode, found_nodes
from tests.support.exported import PROGRAMS
from tests.support.running_exported import registered
from tests.support.sampling import crossed, sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch.export import ExportedProgram


pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # PyTorch's own

# --- Models whose programs have other nodes once PyTorch has loaded them, or run them as modules


class Solve(nn.Module):
    """Decomposed, a check stands under a token."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        found: Tensor = torch.linalg.solve(a + 0, b) * 2
        return found


class Factor(nn.Module):
    """The same behind a parameter, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        mixed = self.mix(b)
        first: Tensor = torch.linalg.cholesky(b @ b.mT + torch.eye(3))
        return first @ torch.linalg.cholesky(a) @ mixed


class Effects(nn.Module):
    """Operators with effects whose results are one tensor, several, or a list."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        one = torch.ops.loaded_programs.one(a)
        _, two = torch.ops.loaded_programs.two(one)
        _, three = torch.ops.loaded_programs.listed(two)
        last: Tensor = torch.ops.loaded_programs.one(one - 2 + three * 0)
        return last + b


class Results(nn.Module):
    """Results that are lists, that nothing uses, and names that Python has taken."""

    def forward(self, input: Tensor, max: Tensor) -> tuple[Tensor, ...]:  # noqa: A002 (the names matter)
        value, (_, second, _) = torch.ops.loaded_programs.mixed(input, 3)
        (_, other), third = torch.ops.loaded_programs.first_listed(max)
        only, _ = torch.ops.loaded_programs.mixed(max, 2)
        place = torch.max(input, 0)[1]
        rows: Tensor = torch.embedding(max, input.long())
        return value + second, third + other, only, place, rows


class Branches(nn.Module):
    """Graphs inside of the program's own, with results that nothing uses."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        def ordered(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            _, second, _ = b.split(1)
            return a.sort()[0] + second, torch.embedding(a, b.long()).sum(1)

        def added(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            return a + b, b * 2

        first, _ = torch.cond(a.sum() > 0, ordered, added, (a, b))
        start = torch.zeros((), dtype=torch.int64)
        _, last = while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x.sort()[0] + 1), (start, first))
        return last + torch.func.vmap(lambda row: row.sort()[0])(a)


class Regions(nn.Module):
    """Graphs that set a mode, which gives nothing."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        with torch.no_grad():
            ordered = a.sort()[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return ordered + torch.embedding(a, b.long()).sum(1)


GOOD = torch.eye(3) + 0.1, torch.eye(3) + 0.5
BAD = {
    Solve: (torch.zeros(3, 3), torch.zeros(3, 3)),
    Factor: (-torch.eye(3), torch.eye(3)),
    Effects: (torch.zeros(3, 3), torch.zeros(3, 3)),
    Results: (torch.full((3, 3), 9.0), torch.ones(3, 3)),
    Branches: (torch.ones(3, 3), torch.full((3, 3), 9.0)),
    Regions: (torch.ones(3, 3), torch.full((3, 3), 9.0)),
}
"""The models, with inputs for which they fail; :data:`GOOD` are some for which none does."""


def _one(x: Tensor) -> Tensor:
    is_real = type(x) is Tensor and x.device.type == "cpu"
    if is_real and float(x.reshape(-1)[0]) < -0.5:
        raise ValueError("below")
    return x + 1


_LIBRARY = torch.library.Library("loaded_programs", "DEF")
for _schema, _function in {
    "one(Tensor x) -> Tensor": _one,
    "two(Tensor x) -> (Tensor, Tensor)": lambda x: (x + 1, x + 2),
    "listed(Tensor x) -> Tensor[]": lambda x: [x + 1, x + 2],
    "mixed(Tensor x, int n) -> (Tensor, Tensor[])": lambda x, n: (x + 1, [x * i for i in range(n)]),
    "first_listed(Tensor x) -> (Tensor[], Tensor)": lambda x: ([x + 1, x + 2], x + 3),
}.items():
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeExplicitAutograd")
for _name in ("one", "two", "listed"):
    torch.library._register_effectful_op(f"loaded_programs::{_name}", EffectType.ORDERED)


# --- what is tested


FAILURES = (torch.linalg.LinAlgError, IndexError, ValueError)


def saved(model: type[torch.nn.Module], path: Path, trace: str, dialect: str) -> Path:
    program = torch.export.export(model(), GOOD, strict=trace == "strict")
    torch.export.save(program.run_decompositions() if dialect == "decomposed" else program, path)
    return path


def graphs(module: torch.fx.GraphModule, path: str = "") -> Iterator[tuple[str, torch.fx.GraphModule]]:
    """All graphs of a module, by what stands before the names of their nodes."""
    yield path, module
    for node in module.graph.nodes:
        for given_ in node.all_input_nodes if node.op == "call_function" else ():
            inner = getattr(module, str(given_.target), None) if given_.op == "get_attr" else None
            if isinstance(inner, torch.fx.GraphModule):
                yield from graphs(inner, f"{path}{node.name}.{given_.target}/")


def calls(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes that come from nodes of the file."""
    inner = {name for name, one in module.named_children() if isinstance(one, torch.fx.GraphModule)}
    made = [node for node in module.graph.nodes if node.op == "call_function" or node.target in inner]
    return [node for node in made if not node.name.startswith("copy__default")]  # a buffer's new value


def check(opened: archive.Archive, programs: Mapping[str, ExportedProgram]) -> None:
    """Compare names, sources and lines with those in PyTorch."""
    for name, exported in programs.items():
        program = opened.programs[name]
        check_form(program, program.forms[-1], exported.graph_module)
        check_form(program, program.forms[0], exported.module())


def check_form(program: Program, form: Program, module: torch.fx.GraphModule) -> None:
    for path, graph in graphs(module):
        nodes = calls(graph)
        sites = [key for key in form.sites if key.rpartition("/")[0] == path.removesuffix("/")]
        assert sites == [f"{path}{node.name}" for node in nodes]
        for key, node in zip(sites, nodes, strict=True):
            traces = {found.site.trace for found in found_nodes({program.name: program}, key)}
            assert traces == {node.meta.get("stack_trace")}
        if not path and len(program.forms) == 1 and "in_spec" not in graph.code:
            continue  # lines of the program's own graph are those of its module
        for number, line in enumerate(graph.code.split("\n"), 1):
            shown = re.match(r"    (\w+) = torch\.ops", line)
            if shown:
                assert is_line(number, ProgramNode(form, form.sites[path + shown[1]]))


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_nodes_of_a_loaded_program_have_pytorchs_names_sources_and_lines(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered()
    monkeypatch.setattr(serialize.log, "disabled", True)  # a message of it lacks an argument
    with archive.open(path) as opened:
        check(opened, _package.load_pt2(path).exported_programs)


NO_SOURCE = "Original traceback:\nNone\n"
CASES = crossed(BAD, ["free", "strict"], ["decomposed", "training"], most=len(BAD))


@pytest.mark.parametrize(("model", "trace", "dialect"), CASES)
def test_failures_of_made_nodes_are_explained_as_pytorch_does(
    model: type[torch.nn.Module], trace: str, dialect: str, tmp_path: Path
) -> None:
    whole = saved(model, tmp_path / "whole.pt2", trace, dialect)
    small = tmp_path / "small.pt2"
    archive.split(whole, small, tmp_path / "model.ptdbg")
    program = torch.export.load(whole)
    with archive.open(whole) as opened:
        check(opened, {"model": program})  # before .module(), which takes nodes out of inner graphs
        before, after = program.module(), torch.export.load(small).module()
        expected = printed(torch.fx.Interpreter(before), BAD[model])
        log = printed(torch.fx.Interpreter(after), BAD[model])
        assert failure(explained(opened, log)) == failure(expected)
        if NO_SOURCE in expected:  # PyTorch makes some nodes without a source
            return
        assert failure(expected) != failure(log)
        source = expected.partition("Original traceback:\n")[2].partition("Use tlparse")[0].rstrip("\n")
        assert f"Original traceback:\n{source}\n" in explained(opened, printed(after, BAD[model]))


def printed(module: object, inputs: tuple[torch.Tensor, ...]) -> str:
    try:
        (module.run if isinstance(module, torch.fx.Interpreter) else module)(*inputs)  # type: ignore[operator]
    except FAILURES:
        return traceback.format_exc()
    raise AssertionError("does not fail")


def failure(log: str) -> str:
    """What the interpreter says of the node; frames above differ from run to run."""
    return log[log.index("While executing") :]


def explained(opened: archive.Archive, log: str) -> str:
    return b"".join(LogExplainer.of(opened).explain([log.encode()])).decode()


def test_a_call_under_a_token_that_another_check_makes_is_another_models(tmp_path: Path) -> None:
    path = saved(Solve, tmp_path / "solve.pt2", "free", "decomposed")
    log = printed(torch.export.load(path).module(), BAD[Solve])
    other = log.replace("'torch.linalg.solve', is_matrix", "'torch.linalg.inv', is_matrix")
    with archive.open(path) as opened:
        assert explained(opened, log) != log != other == explained(opened, other)


def test_a_companion_alone_does_not_call_a_call_under_a_token_another_models(tmp_path: Path) -> None:
    path = saved(Effects, tmp_path / "effects.pt2", "free", "decomposed")
    log = printed(torch.export.load(path).module(), BAD[Effects])
    archive.split(path, tmp_path / "small.pt2", tmp_path / "model.ptdbg")
    with archive.open(tmp_path / "model.ptdbg") as opened:
        explainer = LogExplainer.of(opened)
        assert b"".join(explainer.explain([log.encode()])).decode() == log
        assert "the companion by itself doesn't show" in explainer.notes[0]
        assert not any("another model" in note for note in explainer.notes)


@given(st.lists(st.sampled_from(["a", "a_1", "a_2", "a_02", "a_9", "max", "max_1", "torch", "A.b", "9", ""])))
def test_names_are_made_as_pytorch_makes_them(wanted: list[str]) -> None:
    names, namespace = Names(), torch.fx.graph._Namespace()
    assert [names.made(name) for name in wanted] == [namespace.create_name(name, object()) for name in wanted]


KEYS = ["name", "arg", "as_none", "as_tensor", "as_tensors", "as_name", "as_graph", "as_operator"]
JSON = st.recursive(
    st.none() | st.integers() | st.text("ab_1", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2),
    max_leaves=8,
)
ANY = st.lists(JSON, max_size=4)


@given(ANY, ANY, st.sampled_from(["with_effects", "invoke_subgraph", "x"]))
def test_nodes_of_any_json_are_loaded_or_refused(inputs: list[Any], outputs: list[Any], called: str) -> None:
    target = f"torch.ops.higher_order.{called}"
    node = {"name": "a", "target": target, "inputs": inputs, "outputs": outputs, "metadata": {}}
    tree = {"graph_module": {"graph": {"nodes": [node]}}, "verifiers": ["ATEN"]}
    with contextlib.suppress(ArchiveError):
        assert all(form.sites for form in Program.of("model", tree).forms)
