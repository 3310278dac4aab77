"""Failures of exported programs in logs: the interpreter's messages, tracebacks through graph modules."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

import archive
from archive.failures.eval_frames import Fit, fit, is_line
from archive.failures.explainer import LogExplainer, explain
from archive.formats.exported.printed import FIRST_LINE
from archive.formats.exported.program import Program
from archive.formats.exported.sites import NodeSite, Scope
from archive.reader.lookups.nodes import ProgramNode
from tests.support.commands import run
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAILING = sorted(path.name.removesuffix(".module.txt") for path in EXPORTED.glob("*.module.txt"))
INNER = {
    "choice": "cond.true_graph_0/cond.true_graph_0/embedding",
    "walk": "while_loop.while_loop_body_graph_0/embedding",
    "sums": "scan.scan_combine_graph_0/embedding",
    "regions": "exp.submod_3/embedding",
    "regions_strict": "embedding",
}
"""Where the failing node is in an inner graph; by the sample, or by all that are made of its model."""
OUTER = {"shop": "embedding_1", "decoder": "embedding_1", "own": "discount", "picked": "select"}


def text(name: str, kind: str) -> bytes:
    return (EXPORTED / f"{name}.{kind}.txt").read_bytes()


def failing_node(name: str) -> str:
    model = name.partition("_")[0]
    return INNER.get(name) or INNER.get(model) or OUTER.get(model, "embedding")


def explained(log: bytes, name: str) -> tuple[bytes, LogExplainer]:
    with archive.open(EXPORTED / f"{name}.pt2") as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([log])), explainer


def test_there_are_failures_of_many_programs() -> None:
    assert len(FAILING) == 30


@pytest.mark.parametrize("name", FAILING)
def test_the_interpreters_message_without_metadata_becomes_that_with_it(name: str) -> None:
    out, _ = explained(text(name, "interpreter.stripped"), name)
    assert out == text(name, "interpreter")


@pytest.mark.parametrize("name", FAILING)
def test_a_message_that_has_its_source_stays(name: str) -> None:
    log = text(name, "interpreter")
    assert explained(log, name)[0] == log


@pytest.mark.parametrize("name", FAILING)
def test_a_traceback_through_graph_modules_gets_the_source_of_the_failing_node(name: str) -> None:
    log = text(name, "module")
    with archive.open(EXPORTED / f"{name}.pt2") as opened:
        site = opened.programs["model"].sites[failing_node(name)]
        out = b"".join(explain([log], opened))
    *frames, error, _ = log.decode().split("\n")
    *before, traced = out.decode().split("\nOriginal traceback:\n")
    assert len(before) == 1
    assert traced == f"{(site.trace or '').removesuffix(chr(10))}\n{error}\n"
    kept, _, hierarchy = before[0].rpartition("\nModule hierarchy:")
    assert kept == "\n".join(frames)
    assert hierarchy.startswith("top(")
    assert hierarchy.endswith(site.target.removeprefix("torch.ops."))


@pytest.mark.parametrize("name", ["choice", "choice_decomposed", "walk", "sums"])
def test_the_cause_is_a_line_of_the_model_where_frames_of_generated_code_are_inside(name: str) -> None:
    with archive.open(EXPORTED / f"{name}.pt2") as opened:
        trace = opened.programs["model"].sites[failing_node(name)].frames
    assert trace is not None
    assert trace.frames[-1].file.startswith("<eval_with_key>")
    _, explainer = explained(text(name, "interpreter.stripped"), name)
    (group,) = explainer.causes.top()
    assert group.cause.file == "models/branches.py"


@pytest.mark.parametrize("kind", ["module", "interpreter.stripped"])
def test_a_failure_of_another_model_is_left_and_told(kind: str) -> None:
    log = text("shop", kind)
    out, explainer = explained(log, "choice")
    assert out == log
    assert explainer.unknown == 1
    assert "the failure is another model's" in explainer.notes[0]


def test_a_node_in_two_graphs_is_not_guessed() -> None:
    statement = b"embedding.default(p_goods_rows_weight, ids);  p_goods_rows_weight = ids = None"
    assert statement in text("choice", "module")
    log = text("choice", "module").replace(statement, b"embedding.default(arg0_1, arg1_1)")
    assert b"return true_fn(*operands)" in log
    log = log.replace(b"true_fn(", b"function(")  # else the log shows which one it is
    out, explainer = explained(log, "choice")
    assert out == log
    assert (
        "may be cond.true_graph_0/cond.true_graph_0/embedding or cond.true_graph_0/cond.false"
        in explainer.notes[0]
    )


def test_a_failure_that_names_no_model_is_explained_with_a_caveat() -> None:
    _, explainer = explained(text("shop", "module"), "shop")
    assert explainer.caveat == (
        "nothing in the log names the model: 1 failure is explained because nothing contradicts it"
    )


@pytest.mark.parametrize("kind", ["module", "interpreter.stripped"])
def test_each_line_may_have_a_prefix(kind: str) -> None:
    prefix = b"2026-11-22T10:00:01.123Z worker-3 | "
    log = text("own", kind)
    out, _ = explained(b"".join(prefix + line for line in log.splitlines(keepends=True)), "own")
    plain, _ = explained(log, "own")
    assert out == b"".join(prefix + line for line in plain.splitlines(keepends=True))


def test_of_several_programs_the_only_one_that_fits_explains(tmp_path: Path) -> None:
    for name in ("shop", "choice", "own", "steps"):
        (tmp_path / f"{name}.pt2").write_bytes((EXPORTED / f"{name}.pt2").read_bytes())
    log = b"".join(
        text(name, kind) for name in ("shop", "own") for kind in ("module", "interpreter.stripped")
    )
    out = archive.explain([log], tmp_path)
    expected = b"".join(
        explained(text(name, kind), name)[0]
        for name in ("shop", "own")
        for kind in ("module", "interpreter.stripped")
    )
    assert b"".join(out) == expected


def test_the_same_node_of_two_programs_is_not_guessed(tmp_path: Path) -> None:
    for name in ("shop", "shop_strict"):
        (tmp_path / f"{name}.pt2").write_bytes((EXPORTED / f"{name}.pt2").read_bytes())
    done = run("symbolicate", tmp_path, stdin=text("shop", "module"))
    assert done.stdout == text("shop", "module")
    assert b": ambiguous: fits " in done.stderr
    assert b"; give the FILE that failed, or --id or --model for its name in the log\n" in done.stderr


def test_a_log_of_programs_is_nothing_to_a_torchscript_archive() -> None:
    log = text("shop", "module") + text("shop", "interpreter.stripped")
    with archive.open(EXPORTED.parent / "oracles" / "plain_stack.ptl") as opened:
        assert b"".join(explain([log], opened)) == log


def test_a_graph_that_pytorch_traced_anew_is_explained_where_inputs_and_arguments_agree() -> None:
    log = text("sums", "module")
    assert b"embedding.default(primals_2, primals_1)" in log
    out, explainer = explained(log, "sums")
    assert out != log
    log = log.replace(b"primals_2", b"primals_0")
    out, explainer = explained(log, "sums")
    assert out == log
    assert "PyTorch may have traced its graph again" in explainer.notes[0]
    assert explainer.ambiguous == 1


def test_a_name_that_a_graph_has_only_when_traced_anew_is_not_called_another_models() -> None:
    log = text("sums", "module").replace(b" embedding = ", b" embedding_1 = ")
    out, explainer = explained(log, "sums")
    assert out == log
    assert "PyTorch may have traced its graph again" in explainer.notes[0]


def test_a_companion_alone_does_not_explain_graphs_that_pytorch_traced_anew(tmp_path: Path) -> None:
    log = text("sums", "module")
    archive.split(EXPORTED / "sums.pt2", tmp_path / "small.pt2", tmp_path / "sums.ptdbg")
    done = run("symbolicate", tmp_path / "sums.ptdbg", stdin=log)
    assert done.stdout == log
    assert b"PyTorch may have traced its graph again" in done.stderr


def test_frames_of_generated_code_without_a_statement_are_not_skipped() -> None:
    log = text("shop", "module")
    compiled = b'  File "<eval_with_key>.3", line 4, in forward\n    def forward(self, x):\n'
    assert log.count(b'  File "<eval_with_key>') == 1
    log = log.replace(b'  File "<eval_with_key>', compiled + b'  File "<eval_with_key>')
    out, explainer = explained(log, "shop")
    assert out == log
    assert "does not show its statement" in explainer.notes[0]


def test_a_program_within_another_graph_module_is_explained() -> None:
    log, outer = (
        text("shop", "module"),
        b'  File "<eval_with_key>.3", line 4, in forward\n    shop = self.shop(x)\n',
    )
    out, _ = explained(log.replace(b'  File "<eval_with_key>', outer + b'  File "<eval_with_key>'), "shop")
    assert out == explained(log, "shop")[0].replace(
        b'  File "<eval_with_key>', outer + b'  File "<eval_with_key>'
    )


def test_what_is_no_node_of_a_program_is_no_failure_of_one() -> None:
    log = (
        b'Traceback (most recent call last):\n  File "<eval_with_key>.3", line 5, in forward\n'
        b"    words = self.words(x);  x = None\nValueError: no such word\n"
    )
    out, explainer = explained(log, "shop")
    assert out == log
    assert not explainer.unknown


@pytest.mark.parametrize("kind", ["module", "interpreter.stripped"])
def test_the_cause_has_the_message_of_the_exceptions_line(kind: str) -> None:
    _, explainer = explained(text("shop", kind), "shop")
    (group,) = explainer.causes.top()
    assert group.message == group.cause.message == "index out of range in self"


@pytest.mark.parametrize("kind", ["module", "interpreter.stripped"])
def test_a_failure_is_asked_of_all_models_whatever_the_one_before_was_called_with(
    kind: str, tmp_path: Path
) -> None:
    for name in ("choice", "walk_strict", "shop"):
        (tmp_path / f"{name}.pt2").write_bytes((EXPORTED / f"{name}.pt2").read_bytes())
    log = text("shop", kind)
    other = log.replace(b"second", b"stranger")
    assert other != log
    assert b"".join(archive.explain([other + log], tmp_path)) == other + explained(log, "shop")[0]


def test_a_node_with_other_arguments_may_be_of_a_graph_that_pytorch_traced_anew() -> None:
    _, explainer = explained(text("own", "module").replace(b"(sub, 0.25)", b"(sub_1, 0.25)"), "own")
    assert explainer.notes[0].endswith(
        "the node of that name has other arguments here: the failure is another model's, "
        "or PyTorch traced the graph again"
    )


def test_a_node_with_another_argument_is_another_models() -> None:
    log = text("shop", "interpreter.stripped")
    other = log.replace(b"%second)", b"%second, %mask)")
    assert other != log
    out, explainer = explained(other, "shop")
    assert out == other
    assert "the failure is another model's" in explainer.notes[0]


@pytest.mark.parametrize(("name", "is_end"), [("weight", True), ("rows_weight", True), ("ows_weight", False)])
def test_a_module_of_an_unflattened_program_knows_a_parameter_by_the_end_of_its_path(
    name: str, *, is_end: bool
) -> None:
    log = text("shop", "interpreter.stripped")
    inner = log.replace(b"%goods_rows_weight", b"%" + name.encode())
    assert inner != log
    out, explainer = explained(inner, "shop")
    assert (out != inner) == (explainer.explained == 1) == is_end


@pytest.mark.parametrize(("rows", "columns", "is_own"), [(4, 4, True), (4, 5, False), (5, 4, False)])
@pytest.mark.parametrize("kind", ["module", "interpreter.stripped"])
def test_the_sizes_that_the_message_names_are_those_of_the_programs_own_tensors(
    kind: str, rows: int, columns: int, *, is_own: bool
) -> None:
    """The failing node becomes a product; its factor is what the program holds."""
    with archive.open(EXPORTED / "shop.pt2") as opened:
        site = opened.programs["model"].forms[0].sites["linear"]
        line = (
            FIRST_LINE
            + opened.programs["model"].forms[0].lines["linear"]
            + (opened.programs["model"].lifted or 0)
        )
    message = f"mat1 and mat2 shapes cannot be multiplied (3x9 and {rows}x{columns})".encode()
    values = ", ".join(name.removeprefix("p_") for name in site.arguments or ())
    if kind == "module":
        log = b'  File "<eval_with_key>.9", line %d, in forward\n' % (line + 2)
        log += (
            f"    linear = torch.ops.aten.linear.default({values})\nRuntimeError: ".encode() + message + b"\n"
        )
    else:
        values = ", ".join(f"%{value}" for value in values.split(", "))
        log = (
            message
            + b"\n\nWhile executing %linear : [num_users=1] = call_function[target=torch.ops.aten.linear."
        )
        log += f"default](args = ({values}), kwargs = {{}})\nOriginal traceback:\nNone\n".encode()
    out, explainer = explained(log, "shop")
    assert explainer.explained == is_own
    if not is_own:
        assert out == log
        assert (
            f"({'3x9'} and {rows}x{columns}) isn't so of linear: the failure is another" in explainer.notes[0]
        )


def test_a_failure_in_an_inner_graph_below_the_interpreter_is_not_called_another_models() -> None:
    head, frame, rest = text("sums", "module").partition(b'  File "<eval_with_key>')
    inner = frame + rest.partition(frame)[2]
    out, explainer = explained(head + inner, "sums")
    assert out == head + inner
    assert "no frame shows the node that holds the graph" in explainer.notes[0]
    assert explainer.ambiguous == 1


def test_a_traceback_in_a_string_of_json_is_explained() -> None:
    log = text("shop", "module")
    out, _ = explained(json.dumps({"level": "ERROR", "exc_info": log.decode()}).encode() + b"\n", "shop")
    assert json.loads(out)["exc_info"].encode() == explained(log, "shop")[0]


@pytest.mark.parametrize("kind", ["module", "interpreter.stripped"])
@pytest.mark.parametrize("name", FAILING)
def test_an_explained_log_stays(name: str, kind: str) -> None:
    once, _ = explained(text(name, kind), name)
    again, explainer = explained(once, name)
    assert again == once
    assert explainer.explained == 0
    if name != "regions":  # the node has no source
        assert explainer.unknown == 0


@pytest.mark.parametrize(
    ("name", "kind", "printed", "other"),
    [
        ("own", "module", b"(sub, 0.25)", b"(sub, 0.5)"),
        ("own", "module", b"(sub, 0.25)", b"(0.25, sub)"),
        ("own", "module", b"(sub, 0.25)", b"(sub, 0.25, 1)"),
        ("own", "interpreter.stripped", b"(%sub, 0.25)", b"(%sub, 0.5)"),
        ("shop", "interpreter.stripped", b"(%goods_rows_weight, %second)", b"(%second, %goods_rows_weight)"),
        ("picked", "module", b"(x, 0, item)", b"(x, 1, item)"),
    ],
)
def test_a_node_with_another_number_or_order_is_another_models(
    name: str, kind: str, printed: bytes, other: bytes
) -> None:
    log = text(name, kind)
    assert printed in log
    log = log.replace(printed, other)
    out, explainer = explained(log, name)
    assert out == log
    assert "the failure is another model's" in explainer.notes[0]


def test_a_value_in_the_middle_of_a_graph_needs_the_line_of_the_node() -> None:
    log = text("own", "module")
    heading = re.search(rb'<eval_with_key>\.\d+", line (\d+)', log)
    assert heading is not None
    number = heading[1]
    for other, is_explained in ((number, True), (b"%d" % (int(number) + 7), False)):
        moved = log.replace(heading[0], heading[0][: -len(number)] + other)
        out, explainer = explained(moved, "own")
        assert (out != moved) == is_explained
    assert "PyTorch may have traced its graph again" in explainer.notes[0]


def test_frames_that_tell_where_pytorch_traced_their_code_are_not_skipped() -> None:
    log = text("choice", "module")
    inner = log.rindex(b'", line 5, in forward\n    embedding')
    log = log[:inner] + b" from /torch/fx/experimental/proxy_tensor.py:1738 in wrapped" + log[inner:]
    out, explainer = explained(log, "choice")
    assert out == log
    assert "PyTorch may have traced its graph again" in explainer.notes[0]


def test_a_node_that_two_graphs_have_is_not_guessed_by_its_message() -> None:
    log = b"While executing %tanh : [num_users=1] = call_function[target=torch.ops.aten.tanh.default]"
    log += b"(args = (%embedding,), kwargs = {})\nOriginal traceback:\nNone\n"
    out, explainer = explained(log, "choice_strict")
    assert out == log
    assert "cond.true_graph_0/cond.false_graph_0/tanh, and nothing says which" in explainer.notes[0]


def uncaught(log: bytes) -> bytes:
    """A traceback as Python 3.11 prints it where nobody catches it: without statements, and marks below."""
    return re.sub(rb'(  File "<eval_with_key>[^\n]*\n)(?:    [^\n]*\n){1,2}', rb"\1", log)


@pytest.mark.parametrize("name", FAILING)
def test_what_the_message_leaves_of_a_line_is_explained_as_with_its_statement(name: str) -> None:
    log = text(name, "module")
    out, explainer = explained(uncaught(log), name)
    if "own" in name:  # an operator of its own may print anything
        assert out == uncaught(log)
        return
    added = explained(log, name)[0].partition(b"\nModule hierarchy:")[2]
    assert out.partition(b"\nModule hierarchy:")[2] == added != b""
    (note,) = explainer.notes
    assert "by its line and the message: no statement is shown" in note
    assert explainer.caveat


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"IndexError: index out of range in self", b"RuntimeError: mat1 and mat2 must have the same dtype"),
        (b"IndexError: index out of range in self", b"ValueError: no such word"),
        (b"Traceback (most recent call last):\n", b""),
        (b', in forward\n  File "', b' from /torch/fx.py:1738 in wrapped", line 26, in forward\n  File "'),
    ],
    ids=["no node of the line prints it", "anybody's", "beginning", "traced again"],
)
def test_what_the_message_does_not_leave_alone_is_not_taken(old: bytes, new: bytes) -> None:
    log = uncaught(text("shop", "module"))
    if b"from" in new:
        old = re.search(rb'", line 26, in forward\n  File "', log)[0]  # type: ignore[index]
    assert old in log
    log = log.replace(old, new)
    assert explained(log, "shop")[0] == log


def test_a_traceback_of_an_error_that_nobody_caught_is_told_with_the_nodes_of_its_line() -> None:
    log = uncaught(text("own", "module"))
    out, explainer = explained(log, "own")
    assert out == log
    assert "line 8 of generated code: may be discount or add or discount_1, but" in explainer.notes[0]
    assert "Python before 3.13 shows none for errors that nobody catches" in explainer.notes[0]
    assert explainer.ambiguous == 1


def coloured(log: bytes) -> bytes:
    """A traceback as Python 3.13 prints it to a terminal."""
    heading = rb'  File ("[^"]*"), line (\d+), in (\S+)'
    log = re.sub(heading, b"  File \x1b[35m\\1\x1b[0m, line \x1b[35m\\2\x1b[0m, in \x1b[35m\\3\x1b[0m", log)
    return re.sub(rb"(torch\.ops\.[\w.]+)(\(.*?\));", b"\x1b[31m\\1\x1b[0m\x1b[1;31m\\2\x1b[0m;", log)


def windows(log: bytes) -> bytes:
    return log.replace(b"\n", b"\r\n")


def grouped(log: bytes) -> bytes:
    """A traceback in that of an exception group."""
    return b"".join(b"    | " + line for line in log.splitlines(keepends=True))


@pytest.mark.parametrize("form", [coloured, windows, grouped])
@pytest.mark.parametrize("name", ["own", "choice", "regions_strict"])
def test_a_traceback_is_found_in_any_form(form: Callable[[bytes], bytes], name: str) -> None:
    log = text(name, "module")
    assert form(log) != log
    out, plain = explained(form(log), name)[0], explained(log, name)[0]
    if form is coloured:  # what is added has no colours
        assert out.startswith(form(log[: log.rindex(b"  File ")]))
        assert re.sub(rb"\x1b\[[\d;]*m", b"", out) == plain
    else:
        assert out == form(plain)


def test_lines_of_processes_may_be_mixed() -> None:
    log = text("choice", "module").splitlines(keepends=True)
    mixed = b"".join(b"[rank0]: %b[rank1]: %b" % (line, line) for line in log)
    out, explainer = explained(mixed, "choice")
    assert explainer.explained == 2
    for rank in (b"[rank0]: ", b"[rank1]: "):
        lines = (line.removeprefix(rank) for line in out.splitlines(keepends=True) if line.startswith(rank))
        assert b"".join(lines) == explained(text("choice", "module"), "choice")[0]


@pytest.mark.parametrize("name", [name for name in FAILING if name not in {"sums", "sums_strict"}])
def test_a_node_is_known_to_stand_in_the_line_of_its_statement(name: str) -> None:
    shown = re.findall(rb'<eval_with_key>[^"]*", line (\d+), in forward\n    (\w+) = ', text(name, "module"))
    with archive.open(EXPORTED / f"{name}.pt2") as opened:
        program = opened.programs["model"]
        nodes = [ProgramNode(program.forms[0], site) for site in program.forms[0].sites.values()]
        for line, statement in shown:
            known = {node.site.name for node in nodes if is_line(int(line), node)}
            assert statement.decode() in known


@pytest.mark.parametrize(("numbers", "found"), [((1, 0), Fit.YES), ((2, 1), Fit.MAYBE), ((3, 2), Fit.MAYBE)])
def test_numbers_of_inputs_that_may_count_from_0_or_1_prove_a_node_if_both_lead_to_it_alone(
    numbers: tuple[int, int], found: Fit
) -> None:
    inputs, scope = ("a", "b", "c", "d"), (Scope("scan", "graph_0"),)
    taken = {"f": ("b", "a"), "f_1": ("c", "b"), "f_2": ("d", "c")}
    sites = [
        NodeSite(name, "torch.ops.x.f.default", scope, names, {}, inputs, {"inputs": [*map(tensor, names)]})
        for name, names in taken.items()
    ]
    program = Program("model", "", lambda: {site.key: site for site in sites})
    node = next(
        ProgramNode(program, site)
        for site in sites
        if site.arguments == tuple(inputs[number] for number in numbers)
    )
    first, second = numbers
    code = f"torch.ops.x.f.default(primals_{first}, primals_{second})"
    assert fit(code, 99, node, is_traced=False) is found


def tensor(name: str) -> dict[str, object]:
    return {"name": "x", "arg": {"as_tensor": {"name": name}}, "kind": 1}
