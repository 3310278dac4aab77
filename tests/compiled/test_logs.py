"""Logs that name compiled code or kernels, explained by the package."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.explainer import LogExplainer
from archive.failures.kernels import NO_CODE
from archive.reader.lookups.kernels import WITHOUT_RECORD
from tests.support.commands import run
from tests.support.cost import loops_below
from tests.support.exported import COMPILED, changed_package, member, package, package_halves, written

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KERNELS = "data/aotinductor/model/kernel_information.json"
LEFT, RIGHT = "aoti_torch_cpu_addmm_out:2", "aoti_torch_cpu_addmm_out:3"
IDS, SUM = "cpp_fused__softmax_add_embedding_mul_relu_sub_1:4", "cpp_fused__softmax_sum_2:6"


def text(name: str) -> bytes:
    return (COMPILED / f"{name}.txt").read_bytes()


def explained(log: bytes, name: str) -> tuple[bytes, LogExplainer]:
    with archive.open(package(name)) as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([log])), explainer


def source(name: str, *keys: str) -> bytes:
    """What explains kernels, of the package's JSON."""
    kernels = json.loads(member(name, KERNELS))
    parts = []
    for key in keys:
        traces = [f"Original traceback:\n{trace}\n" for trace in kernels[key]["stack_traces"]]
        parts += [f"Kernel {key}, of {', '.join(kernels[key]['pre_grad_nodes'])}\n", *traces]
    return "".join(parts).encode()


def below(log: bytes, sources: Mapping[bytes, bytes]) -> bytes:
    """A log with sources below the lines that have some words."""
    lines = log.splitlines(keepends=True)
    return b"".join(line + b"".join(one for words, one in sources.items() if words in line) for line in lines)


@pytest.mark.parametrize(
    ("log", "name", "words", "key"),
    [
        ("compiled.left", "compiled", b" API call failed at ", LEFT),
        ("compiled.right", "compiled", b" API call failed at ", RIGHT),
        ("profiled.right", "profiled", b" API call failed at ", RIGHT),
        ("compiled.ids", "compiled", b"Exception raised from cpp_fused__softmax_add", IDS),
    ],
)
def test_the_line_of_a_failure_leads_to_the_kernels_source(
    log: str, name: str, words: bytes, key: str
) -> None:
    out, explainer = explained(text(log), name)
    assert out == below(text(log), {words: source(name, key)})
    assert (explainer.explained, explainer.unknown, explainer.caveat) == (text(log).count(words), 0, "")
    assert explained(out, name)[0] == out
    (group,) = explainer.causes.top()
    line = {LEFT: 20, RIGHT: 21, IDS: 0}[key]
    assert (group.cause.line, group.cause.where) == (line, key)


@pytest.mark.parametrize("width", ["table", "narrow"])
def test_rows_of_a_profile_lead_to_the_kernels_source(width: str) -> None:
    out, explainer = explained(text(f"profiled.{width}"), "profiled")
    rows = {b"graph_2_cpp_fused__softmax_add_": source("profiled", IDS)}
    rows[b"graph_2_cpp_fused__softmax_sum_2 "] = source("profiled", SUM)
    rows[b"aoti_torch_cpu_addmm_out "] = b"2 places call this kernel:\n" + source("profiled", LEFT, RIGHT)
    rows[b"aoti_torch_cpu_cumsum "] = source("profiled", "aoti_torch_cpu_cumsum:5")
    assert out == below(text(f"profiled.{width}"), rows)
    assert explainer.notes == ["line 4: graph_2_cpp_fused_0: no source is recorded for cpp_fused_0:1"]
    assert "nothing in the log names the model: 4 failures" in explainer.caveat
    assert explained(out, "profiled")[0] == out


def test_kernels_of_a_branch_name_themselves_without_the_number_of_a_graph(tmp_path: Path) -> None:
    """PyTorch numbers a module's own graph alone, so that ``cond`` has ``cpp_fused_add_gt_mul_relu_1``."""
    (path,) = (one for one in _records("profiled") if one.endswith(".kernel.cpp"))
    code = member("profiled", path).replace(b"graph_2_cpp_fused__softmax_sum_2", b"cpp_fused__softmax_sum_2")
    with archive.open(changed_package("profiled", {path: code}, tmp_path)) as opened:
        row = b"        cpp_fused__softmax_sum_2         0.01%       0.641us         0.01%       0.641us\n"
        assert b"".join(LogExplainer.of(opened).explain([row])) == row + source("profiled", SUM)
        others = row.replace(b"cpp_", b"graph_2_cpp_") + row.replace(b"cpp_", b"llama_cpp_")
        assert b"".join(LogExplainer.of(opened).explain([others])) == others


def test_a_row_whose_name_is_cut_may_be_of_several_kernels() -> None:
    row = b"   graph_2_cpp_fused__softmax_...   0.00%   0.080us\n"
    out, explainer = explained(row, "profiled")
    kernels = " or ".join(sorted(key.partition(":")[0] for key in (IDS, SUM)))
    assert (out, explainer.notes) == (row, [f"line 1: graph_2_cpp_fused__softmax_...: may be {kernels}"])


def test_all_places_that_call_a_failing_kernel_are_told() -> None:
    (path,) = (one for one in _records("several") if "/tower/" in one and one.endswith(".cpp"))
    head, file = b'extern "C"  void  cpp_fused_add_relu_2(', path.rpartition("/")[2].encode()
    lines = enumerate(member("several", path).splitlines(), 1)
    *_, defined = (at for at, line in lines if line.startswith(head))
    log = b"Exception raised from cpp_fused_add_relu_2 at /tmp/%b:%d (most recent call first):\n"
    out, _ = explained(log % (file, defined + 5), "several")
    told = [line for line in out.decode().splitlines() if line.startswith(("Kernel", "3 places"))]
    assert [line.partition(",")[0] for line in told] == [
        "3 places call this kernel:",
        *(f"Kernel tower:cpp_fused_add_relu_2:{handle}" for handle in (5, 7, 9)),
    ]
    for other in (defined - 5, defined - 1, 10_000):  # in the kernel above, between both, in none
        assert explained(log % (file, other), "several")[1].explained == 0


# --- never by guess


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"line 978", b"line 986"),
        (b"line 978", b"line 977"),
        (b"line 978", b"line 999999999"),
        (b"buf1, buf0", b"buf1, buf2"),
        (b"a4ollx2k.wrapper", b"a4ollx2l.wrapper"),
    ],
)
def test_another_line_call_or_file_is_another_models(old: bytes, new: bytes) -> None:
    log = text("compiled.left")
    assert old in log
    out, explainer = explained(log.replace(old, new), "compiled")
    assert out == log.replace(old, new)
    assert (explainer.unknown, explainer.ambiguous) == (1, 0)
    assert explainer.notes[0].endswith(": this archive has none: the line is of another model")


def test_a_call_that_is_no_kernels_has_no_source() -> None:
    (path,) = (one for one in _records("compiled") if one.endswith("wrapper.cpp"))
    lines = member("compiled", path).splitlines()
    (at, *_) = (
        number
        for number, line in enumerate(lines, 1)
        if b"aoti_torch_empty_strided" in line and b"Provenance" in b"".join(lines[:number])
    )
    call = lines[at - 1].strip().removeprefix(b"AOTI_TORCH_ERROR_CODE_CHECK(").removesuffix(b");")
    log = b"Error: %b API call failed at /x/%b, line %d\n" % (call, path.rpartition("/")[2].encode(), at)
    out, explainer = explained(log, "compiled")
    assert out == log
    assert explainer.notes[0].endswith("no kernel is called there, so that no source is recorded")


def test_without_provenance_the_nodes_are_told() -> None:
    out, explainer = explained(text("plain.left"), "plain")
    assert out == text("plain.left")
    (note,) = explainer.notes
    assert note.startswith("line 1: aoti_torch_cpu_addmm_out in line 976 of cr2vcpb")
    assert note.endswith(f"a call for linear; no source is recorded: {WITHOUT_RECORD}")


def test_what_the_record_of_kernels_lacks_is_told(tmp_path: Path) -> None:
    with archive.open(changed_package("compiled", {KERNELS: b"{}"}, tmp_path)) as opened:
        explainer = LogExplainer.of(opened)
        assert b"".join(explainer.explain([text("compiled.left")])) == text("compiled.left")
    why = f"no source is recorded: kernel_information.json has no {LEFT}"
    assert explainer.notes[0].endswith(f"a call for linear; {why}")


def test_a_line_that_may_be_of_two_models_of_a_package_stays(tmp_path: Path) -> None:
    twins = {
        one.replace("/model/", "/twin/"): member("profiled", one)
        for one in _records("profiled")
        if "/model/" in one
    }
    with archive.open(changed_package("profiled", twins, tmp_path)) as opened:
        for log in (text("profiled.right"), text("profiled.table")):
            explainer = LogExplainer.of(opened)
            assert b"".join(explainer.explain([log])) == log
            assert explainer.ambiguous == explainer.unknown > 0
            assert all("may be of the models model or twin" in note for note in explainer.notes)


def test_errors_that_name_no_kernel_pass() -> None:
    out, explainer = explained(text("compiled.checked"), "compiled")
    assert (out, explainer.unknown, explainer.notes) == (text("compiled.checked"), 0, [])
    for other in (b"graph_2_cpp_fused_0 = 5.0% x\n", b'"name": "graph_2_cpp_fused_0",\n'):
        assert explained(other, "profiled")[0] == other


def test_another_archive_passes_these_lines() -> None:
    with archive.open(COMPILED.parent / "oracles" / "plain_stack.ptl") as opened:
        explainer = LogExplainer.of(opened)
        log = text("compiled.left") + text("profiled.table")
        assert b"".join(explainer.explain([log])) == log
        assert (explainer.unknown, explainer.notes) == (0, [])


@pytest.mark.parametrize(
    "part",
    [
        b"aoti_torch_a() API call failed at /",
        b"Exception raised from cpp_a at /x/",
        b" graph_1_cpp_a  ",
        b" graph_1_cpp_" + b"a" * 99,
        b"Error: ",
        b")) API call failed at c.cpp, line ",
    ],
)
def test_a_long_line_takes_little_time(part: bytes) -> None:
    log = b"aoti_torch_a(" + part * (400_000 // len(part)) + b"_cpp_ API call failed at \n"
    with loops_below(500):
        assert explained(log, "profiled")[0] == log


def test_a_companion_has_the_code_and_what_is_left_says_so(tmp_path: Path) -> None:
    left, companion = tmp_path / "left.pt2", tmp_path / "model.ptdbg"
    for path, half in zip((left, companion), package_halves("compiled"), strict=True):
        path.write_bytes(half)
    for log, words, key in (("left", b" API call ", LEFT), ("ids", b"Exception raised from cpp_", IDS)):
        log_text = text(f"compiled.{log}")
        for models in ([companion], [left, companion]):
            out = b"".join(explainer_of(models_in(models)).explain([log_text]))
            assert out == below(log_text, {words: source("compiled", key)})
    with archive.open(left) as opened:
        explainer = LogExplainer.of(opened)
        assert b"".join(explainer.explain([text("compiled.left")])) == text("compiled.left")
    assert explainer.notes[0].endswith(NO_CODE)


def test_frames_in_an_explanation_are_no_failure_of_their_own(tmp_path: Path) -> None:
    frame = '  File "<eval_with_key>.7", line 3, in forward\n    add = torch.ops.aten.add.Tensor(x, y)'
    information = json.loads(member("compiled", KERNELS))
    information[LEFT]["stack_traces"] = [f'File "a.py", line 1, in f\n    f()\n{frame}']
    path = changed_package("compiled", {KERNELS: json.dumps(information).encode()}, tmp_path)
    models = [path, COMPILED.parent / "exported" / "shop.pt2"]
    log = text("compiled.left") + text("profiled.table")
    out = b"".join(explainer_of(models_in(models)).explain([log]))
    assert frame.encode() in out
    again = explainer_of(models_in(models))
    assert b"".join(again.explain([out])) == out
    assert (again.explained, again.unknown, again.notes) == (0, 0, [])


# --- what loggers do to lines, and many models


def test_lines_of_loggers_stay_records(tmp_path: Path) -> None:
    log, path = text("compiled.left"), written("compiled", tmp_path)
    wanted = below(log, {b" API call failed at ": source("compiled", LEFT)}).splitlines()
    prefixed = b"".join(b"2026-03-01T10:00:00.1Z stderr F " + line + b"\n" for line in log.splitlines())
    done = run("symbolicate", path, stdin=prefixed)
    assert [
        line.removeprefix(b"2026-03-01T10:00:00.1Z stderr F ") for line in done.stdout.splitlines()
    ] == wanted
    records = b"".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr"}).encode() + b"\n"
        for line in log.decode().splitlines()
    )
    found = [json.loads(line)["log"] for line in run("symbolicate", path, stdin=records).stdout.splitlines()]
    assert "".join(found).encode().splitlines() == wanted
    whole = json.dumps({"log": log.decode()}).encode()
    (record,) = run("symbolicate", path, stdin=whole).stdout.splitlines()
    assert json.loads(record)["log"].encode().splitlines() == wanted


def test_what_stands_before_a_line_stands_before_its_source_too() -> None:
    rows = text("profiled.table").splitlines(keepends=True)
    table = b"".join(b"[worker 3] " + row for row in rows)
    out, explainer = explained(table, "profiled")
    assert all(line.startswith(b"[worker 3] ") for line in out.splitlines())
    assert explained(b"".join(rows), "profiled")[0] == out.replace(b"[worker 3] ", b"")
    assert explainer.explained == 4
    call = text("compiled.left").splitlines()[0].removeprefix(b"Error: ")
    log = b"12:00 RuntimeError: %b\n12:00 the end\n" % call
    lines = explained(log, "compiled")[0].splitlines()
    assert lines[1] == b"12:00 Kernel aoti_torch_cpu_addmm_out:2, of linear"


def test_causes_are_kernels_and_the_line_if_there_is_but_one(tmp_path: Path) -> None:
    log = text("compiled.left") + text("compiled.ids")
    done = run("symbolicate", written("compiled", tmp_path), "--top", 5, stdin=log)
    _, _, ids, left, *_ = done.stdout.decode().splitlines()
    assert "no single source line" in ids
    assert ids.split()[0] == "2"
    assert "models/mixer.py:20" in left


def test_only_what_has_no_source_gets_it() -> None:
    *_, row, _, _ = text("profiled.table").splitlines(keepends=True)
    out, _ = explained(row, "profiled")
    again, explainer = explained(out + row, "profiled")
    assert (again, explainer.explained) == (out + out, 1)


def test_each_failure_is_explained_by_its_own_package(tmp_path: Path) -> None:
    for name in ("compiled", "plain", "profiled", "several"):
        written(name, tmp_path)
    log = text("compiled.left") + text("profiled.right") + text("profiled.table") + text("plain.left")
    explainer = explainer_of(models_in([tmp_path]))
    out = b"".join(explainer.explain([log]))
    left = below(text("compiled.left"), {b" API call ": source("compiled", LEFT)})
    right = below(text("profiled.right"), {b" API call ": source("profiled", RIGHT)})
    assert out.startswith(left + right)
    assert out.endswith(text("plain.left"))
    assert (explainer.explained, explainer.named) == (6, 2)
    assert [note.partition(":")[0] for note in explainer.notes] == ["line 56", "line 68"]


def test_packages_of_the_same_code_and_other_sources_are_ambiguous(tmp_path: Path) -> None:
    written("compiled", tmp_path)
    other = member("compiled", KERNELS).replace(b"models/mixer.py", b"models/other.py")
    changed_package("compiled", {KERNELS: other}, tmp_path)
    explainer = explainer_of(models_in([tmp_path]))
    assert b"".join(explainer.explain([text("compiled.left")])) == text("compiled.left")
    assert explainer.ambiguous == 1
    assert ": ambiguous: fits " in explainer.notes[0]


def _records(name: str) -> list[str]:
    with archive.open(package(name)) as opened:
        return list(opened.records)


def test_a_handle_of_a_package_is_answered_with_what_it_has(tmp_path: Path) -> None:
    done = run("symbolicate", written("compiled", tmp_path), "3")
    assert done.returncode == 1
    assert b"has kernels; give the name of one, like cpp_fused_0:1" in done.stderr
