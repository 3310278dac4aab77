"""Failures of ExecuTorch's runtime in logs, explained by ETRecords; nodes that came out of a region, too."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import archive
from archive.failures.explainer import LogExplainer, explain
from archive.failures.instructions import ERRORS
from archive.reader.lookups.instructions import InstructionNodes
from tests.support.commands import run
from tests.support.exported import RECORDS, changed_record, inspected, log, record

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = Path("include/executorch/runtime/core/error.h")
EDGE = "edge_dialect_exported_program/forward"
FAILED = b"KernelCall failed at instruction "
HEADS = (b"[method.cpp:1483] ", b"E 00:00:00.000061 executorch:method.cpp:1483] ", b"")
"""What the Python package, a host and Android put before a line."""


def explained(text: bytes, name: str) -> tuple[bytes, LogExplainer]:
    with archive.open(record(name)) as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([text])), explainer


def source(name: str, instruction: str) -> bytes:
    """What ``symbolicate`` prints of an instruction's only node."""
    with archive.open(record(name)) as opened:
        ((node,),) = (place.nodes for place in InstructionNodes(opened).named(instruction))
        return node.text.encode()


@pytest.mark.parametrize(("name", "instruction"), [("shop", "0:14"), ("xnnpack", "0:2")])
def test_the_source_of_the_instruction_is_written_below_its_line(name: str, instruction: str) -> None:
    out, explainer = explained(log(name), name)
    before, line, after = log(name).partition(b": 0x12\n[method.cpp:1493] arg 0")
    assert out == before + b": 0x12\n" + source(name, instruction) + line.removeprefix(b": 0x12") + after
    assert explainer.explained == 1
    assert explainer.caveat.startswith("nothing in the log names the model")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "shop",
            "Check failed (indices_ptr[i] < weight_height): indices_ptr[2] 9 >= weight.size(0) 6",
        ),
        ("xnnpack", "Index 7 out of range for tensor with size 3 at dimension 0"),
    ],
)
def test_a_cause_has_the_name_of_its_status_and_what_the_kernel_said_first(name: str, message: str) -> None:
    _, explainer = explained(log(name), name)
    (cause,) = explainer.causes.top()
    assert cause.message == f"Error::InvalidArgument: {message}"
    quiet = log(name)[log(name).index(b"[method.cpp:1483]") :]
    for status, said in (
        (b"0x12", "Error::InvalidArgument"),
        (b"0x20", "Error::NotFound"),
        (b"0x7f", "error 0x7f"),
    ):
        _, explainer = explained(quiet.replace(b"0x12", status), name)
        assert explainer.causes.top()[0].message == said


def test_failures_of_one_cause_have_its_wording() -> None:
    other = log("shop").replace(b"indices_ptr[2] 9", b"indices_ptr[0] 7")
    _, explainer = explained(log("shop") + other, "shop")
    (cause,) = explainer.causes.top()
    said = "Check failed (indices_ptr[i] < weight_height): indices_ptr# # >= weight.size# #"
    assert (cause.count, cause.message) == (2, f"Error::InvalidArgument: {said}")


def test_statuses_have_the_names_that_the_runtime_has() -> None:
    spec = importlib.util.find_spec("executorch")
    header = Path(*(spec.submodule_search_locations or ())) / HEADER if spec else Path("none")
    if not header.exists():
        pytest.skip("the headers of ExecuTorch's package are not here")
    found = re.findall(r"(?m)^  (\w+) = (0x\w+),$", header.read_text("utf-8"))
    assert {int(code, 16): name for name, code in found} == ERRORS


def test_an_explained_log_stays() -> None:
    once, _ = explained(log("shop"), "shop")
    again, explainer = explained(once, "shop")
    assert again == once
    assert (explainer.explained, explainer.unknown) == (0, 0)


@pytest.mark.parametrize("prefix", [b"2026-11-22T10:00:01.123Z worker-3 | ", b"E/ExecuTorch( 4711): "])
@pytest.mark.parametrize("head", HEADS)
def test_each_line_may_have_a_prefix(prefix: bytes, head: bytes) -> None:
    text = log("shop").replace(b"[method.cpp:1483] ", head).replace(b"[method.cpp:1493] ", head)
    plain, explainer = explained(text, "shop")
    assert explainer.explained == 1
    out, _ = explained(b"".join(prefix + line for line in text.splitlines(keepends=True)), "shop")
    assert out == b"".join(prefix + line for line in plain.splitlines(keepends=True))


def test_a_failure_in_a_record_of_json_is_explained_inside() -> None:
    text = b"".join(json.dumps({"log": line}).encode() + b"\n" for line in log("shop").decode().splitlines())
    out, _ = explained(text, "shop")
    plain, _ = explained(log("shop"), "shop")
    assert [json.loads(line)["log"] for line in out.splitlines()] == plain.decode().splitlines()


METHOD_SOURCES = {"forward": "forward/0:0", "words": "words/0:0", "later": "later/0:1"}


def test_the_method_that_is_named_behind_a_failure_explains() -> None:
    out, explainer = explained(log("methods"), "methods")
    assert (explainer.explained, explainer.unknown, explainer.notes) == (3, 0, [])
    for part, (method, instruction) in zip(out.split(b"RuntimeError"), METHOD_SOURCES.items(), strict=False):
        assert source("methods", instruction) in part, method
    assert source("methods", "forward/0:0") != source("methods", "words/0:0")


def test_of_methods_that_are_not_named_the_only_one_whose_operator_it_is_explains() -> None:
    text = b"".join(line for line in log("methods").splitlines(keepends=True) if b"RuntimeError" not in line)
    out, explainer = explained(text, "methods")
    assert (explainer.explained, explainer.unknown, explainer.ambiguous) == (1, 2, 2)
    first, second, third = out.split(b"Check failed")[1:]
    assert b"Module hierarchy" not in first + second
    assert source("methods", "later/0:1") in third
    (note,) = explainer.notes
    assert note == (
        "line 2: instruction 0:0, aten::embedding.out: may be "
        "edge_dialect_exported_program/forward:aten_embedding_default or "
        "edge_dialect_exported_program/words:aten_embedding_default, and nothing says which (2 times)"
    )


NAMING = {
    "Python": (
        b"Traceback (most recent call last):\n"
        b'  File "serve.py", line 12, in handle\n'
        b"    return program.run_method(name, inputs)\n"
        b"RuntimeError: Failed to execute method words, error: 0x12\n"
    ),
    "runner": (
        b"F 00:00:00.000103 executorch:executor_runner.cpp:280] In function main(), "
        b"assert failed (status == Error::Ok): Execution of method words failed with status 0x12\n"
    ),
    "Java 0.7": b"java.lang.Exception: Execution of method words failed with status 0x12\n",
    "Java 1.0": (
        b"org.pytorch.executorch.ExecutorchRuntimeException: [ExecuTorch Error 0x12] "
        b"Invalid argument: Execution failed for method: words\n"
    ),
}
"""What names a method, as releases of ExecuTorch print it."""


def named_by(naming: bytes) -> bytes:
    """The log of a failure in the methods' first instruction, and a text behind it."""
    return b"".join(log("methods").splitlines(keepends=True)[:9]) + naming


@pytest.mark.parametrize("naming", NAMING.values(), ids=NAMING)
def test_each_form_of_a_methods_name_is_read(naming: bytes) -> None:
    out, explainer = explained(named_by(naming), "methods")
    assert source("methods", "words/0:0") in out
    assert (explainer.explained, explainer.notes) == (1, [])


@pytest.mark.parametrize("prefix", [b"2026-11-22T10:00:01.123Z worker-3 | ", b"E/ExecuTorch( 4711): "])
def test_a_methods_name_stands_behind_the_same_prefix(prefix: bytes) -> None:
    lines = named_by(NAMING["Python"]).splitlines(keepends=True)
    out, explainer = explained(b"".join(prefix + line for line in lines), "methods")
    assert explainer.explained == 1
    assert prefix + source("methods", "words/0:0").splitlines(keepends=True)[0] in out
    # behind another prefix it is of another process
    others = [prefix + line for line in lines[:9]] + [b"worker-4 | " + line for line in lines[9:]]
    _, explainer = explained(b"".join(others), "methods")
    assert (explainer.explained, explainer.ambiguous) == (0, 1)


def test_a_board_of_arm_names_a_method() -> None:
    head = b"%c [executorch:%b.cpp:1348 %b()] "
    failed = head % (b"E", b"method", b"execute_instruction")
    naming = NAMING["runner"].partition(b"] ")[2]
    text = named_by(head % (b"F", b"arm_executor_runner", b"run_model") + naming)
    text = text.replace(b"[method.cpp:1483] ", failed).replace(b"[method.cpp:1493] ", failed)
    out, explainer = explained(text, "methods")
    assert source("methods", "words/0:0") in out
    assert explainer.explained == 1


@pytest.mark.parametrize(
    "naming",
    [
        b"RuntimeError: Failed to execute method words, error: 0x1\n",  # another failure's status
        b"RuntimeError: executing execution plan for method 'words' failed with error: 0x12\n",
        b"[method.cpp:1483] KernelCall failed at instruction 0:9 in operator aten::add.out: 0x12\n"
        + NAMING["Python"],
        b"request served\n" * 200 + NAMING["Python"],
    ],
)
def test_a_line_that_is_not_known_to_be_of_the_failure_names_no_method(naming: bytes) -> None:
    _, explainer = explained(named_by(naming), "methods")
    assert explainer.explained == 0
    assert explainer.ambiguous == 1
    assert "instruction 0:0, aten::embedding.out: may be" in explainer.notes[0]


def test_a_failure_of_a_method_that_the_model_lacks_is_another_models(tmp_path: Path) -> None:
    text = named_by(NAMING["Python"])
    out, explainer = explained(text, "shop")
    assert out == text
    assert (explainer.unknown, explainer.ambiguous) == (1, 0)
    (note,) = explainer.notes
    assert note == (
        "line 2: instruction words/0:0, aten::embedding.out: this archive has no method of that name: "
        "the failure is another model's"
    )
    # what no node is recorded for may be of any model but one without the method
    _, explainer = explained(text.replace(b"aten::embedding.out", b"aten::copy_."), "shop")
    assert explainer.ambiguous == 0
    for name in ("shop", "methods"):
        shutil.copy(record(name), tmp_path)
    plain, _ = explained(text, "methods")
    assert b"".join(archive.explain([text], tmp_path)) == plain != text


@pytest.mark.parametrize(
    ("name", "handles", "line"),
    [
        (
            "methods",
            {"forward": {"0": 1, "9": 1}, "words": {"0": 1}},
            b"0:5 in operator aten::add.out: 0x12\n",
        ),
        ("fork", {"forward": {"0": 1}, "words": {"0": 1}}, b"0:3 in operator aten::embedding.out: 0x12\n"),
    ],
    ids=["gap", "branch"],
)
def test_gaps_and_branches_are_those_of_the_named_method(
    name: str, handles: dict[str, dict[str, int]], line: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "changed.etrecord"
    path.write_bytes(changed_record(name, debug_handle_map=json.dumps(handles).encode()))
    ambiguous = {}
    for method in ("", "forward", "words"):
        naming = f"RuntimeError: Failed to execute method {method}, error: 0x12\n" if method else ""
        with archive.open(path) as opened:
            explainer = LogExplainer.of(opened)
            b"".join(explainer.explain([FAILED + line + naming.encode()]))
        assert explainer.unknown == 1
        ambiguous[method] = explainer.ambiguous
    assert ambiguous == {"": 1, "forward": 1, "words": 0}


@pytest.mark.parametrize(
    ("line", "why", "is_ambiguous"),
    [
        (b"0:14 in operator aten::add.out: 0x12", "the failure is another model's", False),
        (b"0:14 in operator dim_order_ops::embedding.out: 0x12", "the failure is another model's", False),
        (b"1:14 in operator aten::embedding.out: 0x12", "the failure is another model's", False),
        (b"0:99 in operator aten::embedding.out: 0x12", "the failure is another model's", False),
        (b"0:99 in operator executorch_prim::et_view.default: 0x12", "no node is recorded for it", True),
        (b"0:99 in operator aten::copy_.: 0x12", "no node is recorded for it", True),
    ],
)
def test_an_operator_that_no_node_of_the_instruction_has_is_not_explained(
    line: bytes, why: str, *, is_ambiguous: bool
) -> None:
    text = FAILED + line + b"\n"
    out, explainer = explained(text, "shop")
    assert out == text
    assert why in explainer.notes[0]
    assert explainer.ambiguous == is_ambiguous


def test_an_instruction_between_recorded_ones_may_have_failed() -> None:
    _, explainer = explained(FAILED + b"0:5 in operator aten::view_copy.out: 0x12\n", "sized")
    assert "no node is recorded for it, as for instructions of `cond`" in explainer.notes[0]
    assert explainer.ambiguous == 1


def test_an_instruction_in_a_branch_behind_the_last_recorded_one_may_have_failed() -> None:
    out, explainer = explained(log("fork"), "fork")
    assert out == log("fork")
    assert "no node is recorded for it, as for instructions of `cond`" in explainer.notes[0]
    assert explainer.ambiguous == 1


@pytest.mark.parametrize("line", [b"0:0 in operator aten::sin.out", b"0:3 in operator aten::cos.out"])
def test_no_branch_has_an_instruction_that_is_recorded_or_another_operator(line: bytes) -> None:
    _, explainer = explained(FAILED + line + b": 0x12\n", "fork")
    assert "the failure is another model's" in explainer.notes[0]


def test_an_instruction_whose_handle_no_node_has_may_have_failed(tmp_path: Path) -> None:
    path = tmp_path / "lost.etrecord"
    path.write_bytes(changed_record("shop", debug_handle_map=b'{"forward": {"0": 99}}'))
    with archive.open(path) as opened:
        explainer = LogExplainer.of(opened)
        b"".join(explainer.explain([FAILED + b"0:0 in operator aten::embedding.out: 0x12\n"]))
    assert "no node is recorded for it" in explainer.notes[0]


def test_of_the_nodes_of_a_handle_the_operator_tells_which() -> None:
    for operator in (b"permute_copy", b"addmm"):
        out, _ = explained(FAILED + b"0:6 in operator aten::" + operator + b".out: 0x12\n", "shop")
        assert b"towers.0(Sequential).0(Linear).aten." + operator + b".default\n" in out


def test_a_call_of_a_backend_that_took_several_nodes_is_not_guessed() -> None:
    text = b"CALL_DELEGATE execute failed at instruction 1: 0x1\n"
    out, explainer = explained(text, "xnnpack")
    assert out == text
    assert (
        "may be edge_dialect_exported_program/forward:aten_linear_default or "
        "edge_dialect_exported_program/forward:aten_add_tensor or " in explainer.notes[0]
    )


def test_a_call_of_a_backend_that_took_one_node_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "one.etrecord"
    path.write_bytes(changed_record("mapped", debug_handle_map=b'{"forward": {"4": [2]}}'))
    text = b"CALL_DELEGATE execute failed at instruction 4: 0x1\n"
    with archive.open(path) as opened:
        out = b"".join(explain([text], opened))
    assert out.startswith(text + b"Module hierarchy:top(Scores).aten.add.Tensor\nOriginal traceback:\n")


def test_a_call_of_a_backend_is_none_of_an_operator() -> None:
    lines = (
        b"0:1 in operator aten::linear.out: 0x12\n",
        b"CALL_DELEGATE execute failed at instruction 0: 0x1\n",
    )
    for line in (FAILED + lines[0], lines[1]):
        out, explainer = explained(line, "xnnpack")
        assert out == line
        assert "the failure is another model's" in explainer.notes[0]


def test_of_several_records_the_only_one_that_fits_explains(tmp_path: Path) -> None:
    for path in set(RECORDS.glob("*.etrecord")) - {record("fork")}:
        shutil.copy(path, tmp_path)
    shutil.copy(RECORDS.parent / "exported" / "shop.pt2", tmp_path)
    plain, _ = explained(log("shop"), "shop")
    assert b"".join(archive.explain([log("shop")], tmp_path)) == plain
    shutil.copy(record("fork"), tmp_path)  # an embedding is in its branch
    assert b"".join(archive.explain([log("shop")], tmp_path)) == log("shop")


def of_rows(rows: int) -> bytes:
    """The record of the shop, with another number of rows in its only embedding, and its source elsewhere."""
    program = zipfile.ZipFile(record("shop")).read(EDGE).decode()
    table = f'"p_goods_rows_weight": {{"dtype": 7, "sizes": [{{"as_int": {rows}}}'
    assert table.replace(f" {rows}}}", " 6}") in program
    changed = program.replace(table.replace(f" {rows}}}", " 6}"), table)
    return changed_record(
        "shop", **{EDGE: changed.replace("models/shop.py", f"models/shop{rows}.py").encode()}
    )


def test_of_records_of_other_sizes_the_one_that_has_the_logs_explains(tmp_path: Path) -> None:
    for rows in range(4, 14):
        (tmp_path / f"{rows}.etrecord").write_bytes(of_rows(rows))
    plain, _ = explained(log("shop"), "shop")
    out = b"".join(archive.explain([log("shop")], tmp_path))
    assert out == plain.replace(b"models/shop.py", b"models/shop6.py")
    (tmp_path / "6.etrecord").unlink()
    assert b"".join(archive.explain([log("shop")], tmp_path)) == log("shop")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"weight.size(0) 6", b"weight.size(0) 50", "weight.size(0) 50 isn't so of edge_dialect_"),
        (b"weight.size(0) 6", b"weight.dim() 3", "weight.dim() 3 isn't so of edge_dialect_"),
        (b"arg 1 with type id 1", b"arg 1 with type id 0", "arg 1 with type id 0 isn't so of edge_dialect_"),
        (b"Check failed", b"Tensors do not match: dtype={Half, Float} (", "dtype={Half, Float} isn't so of"),
    ],
)
def test_what_the_log_shows_of_the_operands_is_the_nodes(old: bytes, new: bytes, why: str) -> None:
    text = log("shop").replace(old, new)
    assert text != log("shop")
    out, explainer = explained(text, "shop")
    assert out == text
    assert why in explainer.notes[0]
    assert "the failure is another model's" in explainer.notes[0]


def test_lines_of_others_say_nothing_of_the_operands() -> None:
    other = b"[op_embedding.cpp:43] Check failed (x): indices_ptr[2] 99 >= weight.size(0) 50\n"
    before = other + b"[method.cpp:900] another call failed\n"
    out, explainer = explained(before + log("shop"), "shop")
    assert out == before + explained(log("shop"), "shop")[0]
    assert explainer.explained == 1


def test_other_archives_leave_it() -> None:
    with archive.open(RECORDS.parent / "exported" / "shop.pt2") as opened:
        assert b"".join(explain([log("shop")], opened)) == log("shop")


# --- Nodes of an ETRecord that came out of a region, whose stack traces are of generated code


EXPORTED, EDGE = "exported_program", "edge_dialect_exported_program/forward"
LINES = {"aten_embedding_default": 38, "aten_embedding_default_1": 39}


def lines(file: bytes) -> dict[str, int | None]:
    """The line of the model's own frame of each node of the region."""
    with archive.open(file) as opened:
        (place,) = InstructionNodes(opened).named("0:0")
        found = {}
        for node in place.nodes:
            frames = node.site.frames.frames if node.site.frames else ()
            found[node.site.name] = next(
                (one.line for one in frames if one.file == "models/methods.py"), None
            )
        return found


def rewritten(name: str, change: Callable[[str], str]) -> bytes:
    """The record with another text in one of its programs."""
    with zipfile.ZipFile(record("region")) as source:
        text = source.read(name).decode()
    assert change(text) != text
    return changed_record("region", **{name: change(text).encode()})


def test_a_node_has_the_line_of_the_exported_programs_node() -> None:
    assert all(
        trace.startswith('File "<eval_with_key>') for trace in inspected("region")[0]["traces"].values()
    )
    assert lines(record("region").read_bytes()) == LINES
    done = run("symbolicate", record("region"), "aten_embedding_default_1")
    assert done.stdout.decode().splitlines()[:4] == [
        "Module hierarchy:top(Region).words(Embedding).aten.embedding.default",
        "Original traceback:",
        'File "models/methods.py", line 39, in forward',
        "    b = self.words(second)",
    ]


def test_operators_of_one_name_and_handle_are_not_told_apart() -> None:
    done = run("symbolicate", record("region"), stdin=log("region"))
    assert done.stdout == log("region")
    assert b"aten_embedding_default or edge_dialect" in done.stderr
    assert b"nothing says which" in done.stderr


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("export_graph_id", "", "1"),
        (EXPORTED, '"torch.ops.aten.embedding.default"', '"torch.ops.aten.embedding_bag.default"'),
        (EXPORTED, '"name": "embedding', '"name": "other'),
        (EXPORTED, '"second"', '"third"'),
        (EXPORTED, '"wrap_with_set_grad_enabled"', '"another"'),
        (EDGE, "= torch.ops.aten.embedding.default(", "is torch.ops.aten.embedding.default("),
    ],
)
def test_a_node_that_is_not_proved_keeps_its_trace(name: str, old: str, new: str) -> None:
    file = rewritten(name, lambda text: text.replace(old, new) if old else text + new)
    assert lines(file)["aten_embedding_default_1"] is None


def test_a_statement_in_two_graphs_of_one_node_is_not_guessed() -> None:
    def doubled(text: str) -> str:
        tree = json.loads(text)
        (node,) = (one for one in tree["graph_module"]["graph"]["nodes"] if one["name"].startswith("wrap"))
        (held,) = (one for one in node["inputs"] if "as_graph" in one["arg"])
        again = json.loads(json.dumps(held))
        again["arg"]["as_graph"]["name"] = "other_graph"
        node["inputs"].append(again)
        return json.dumps(tree)

    assert lines(rewritten(EXPORTED, doubled)) == dict.fromkeys(LINES)


def test_a_node_is_sought_in_few_graphs() -> None:
    def many(text: str) -> str:
        tree = json.loads(text)
        (node,) = (one for one in tree["graph_module"]["graph"]["nodes"] if one["name"].startswith("wrap"))
        (held,) = (one for one in node["inputs"] if "as_graph" in one["arg"])
        for number in range(20):
            other = json.loads(json.dumps(held).replace("aten.embedding.default", "aten.relu.default"))
            other["arg"]["as_graph"]["name"] = f"other_{number}"
            node["inputs"].append(other)
        return json.dumps(tree)

    assert lines(rewritten(EXPORTED, many)) == dict.fromkeys(LINES)


def test_a_trace_that_has_a_line_of_the_model_stays() -> None:
    own = 'File \\"models/other.py\\", line 1, in forward\\n  '
    file = rewritten(EDGE, lambda text: text.replace('"File \\"<eval', f'"{own}File \\"<eval'))
    assert lines(file) == dict.fromkeys(LINES)


def test_a_broken_id_of_the_graph_is_told(tmp_path: Path) -> None:
    path = tmp_path / "broken.etrecord"
    path.write_bytes(changed_record("region", export_graph_id=b"{"))
    done = run("symbolicate", path, "0:0")
    assert done.returncode == 2
    assert b"export_graph_id" in done.stderr


@pytest.mark.parametrize("words", [("shop.etrecord", "shop.pte"), ("shop.pte", "shop.etrecord"), (".",)])
def test_programs_are_passed_over_beside_their_etrecords(words: tuple[str, ...], tmp_path: Path) -> None:
    """A `.pte` has no source of a log's failures; given by itself, it is refused with the way out."""
    for name in ("shop.etrecord", "shop.pte"):
        shutil.copy(RECORDS / name, tmp_path)
    log = (RECORDS / "shop.log.txt").read_bytes()
    done = run("symbolicate", *(tmp_path / word for word in words), stdin=log)
    assert done.stdout == run("symbolicate", RECORDS / "shop.etrecord", stdin=log).stdout != log
    assert b"passed over: 1 program of ExecuTorch (.pte)" in done.stderr
    (tmp_path / "shop.etrecord").unlink()
    for given in (tmp_path / "shop.pte", tmp_path):
        done = run("symbolicate", given, stdin=log)
        assert done.returncode == 2
        assert b"ExecuTorch program" in done.stderr


def test_a_handle_leads_to_the_instructions_that_have_it() -> None:
    path = RECORDS / "shop.etrecord"
    said = {number: run("symbolicate", path, str(number)).stderr.decode() for number in (5, 100_000_000)}
    assert "has the debug handle 5 in forward/0:5, forward/0:6: give an instruction in its place" in said[5]
    assert "its instructions have 1-26; give one, like forward/0:0" in said[100_000_000]
