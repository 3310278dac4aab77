"""Compiled models and their kernels as ``archive.open``, ``inspect`` and ``symbolicate`` show them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive import ArchiveError, Limits
from archive.failures.lookups.kernels import WITHOUT_RECORD, found_kernels
from tests.support.commands import called, told, well
from tests.support.compiled import NAMES, changed, member, package, written

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = "data/aotinductor/model/kernel_information.json"
RELU = "mixer:cpp_fused__softmax_add_embedding_mul_relu_sub_1:4"


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_those_of_the_json(name: str) -> None:
    with archive.open(package(name)) as opened, zipfile.ZipFile(io.BytesIO(package(name))) as expected:
        for model in opened.compiled.values():
            file = f"{name}/data/aotinductor/{model.name}/kernel_information.json"
            tree = json.loads(expected.read(file)) if file in expected.namelist() else {}
            assert model.has_kernels == (file in expected.namelist()) == (name != "plain")
            assert list(model.kernels) == list(tree)
            for key, kernel in model.kernels.items():
                facts = {one: list(getattr(kernel, one)) for one in tree[key]}
                assert (kernel.key, facts) == (key, tree[key])
                assert all(trace is not None for trace in kernel.traces)


def test_models_are_read_by_name() -> None:
    with archive.open(package("several")) as opened:
        assert list(opened.compiled) == ["mixer", "tower"]
        assert list(opened.programs) == ["tower"]
        tower = opened.compiled["tower"]
        assert tower.metadata["AOTI_CPU_ISA"] == "AVX2"
        assert (tower.objects, len(tower.sources)) == ((), 1)
        (trace,) = opened.kernels["tower:cpp_fused_add_relu_2:9"].traces
        assert trace is not None
        assert [(frame.file, frame.line) for frame in trace.frames] == [("models/mixer.py", 38)]
    with archive.open(package("compiled")) as opened:
        assert list(opened.kernels)[1] == "aoti_torch_cpu_addmm_out:2"
        (file,) = opened.compiled["model"].objects
        assert bytes(opened.compiled["model"].view(file)[:4]) == b"\x7fELF"


def test_other_archives_have_no_compiled_models(tmp_path: Path) -> None:
    path = written("sources", tmp_path)
    without = tmp_path / "without.pt2"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(without, "w") as target:
        for name in source.namelist():
            target.writestr(name.replace("aotinductor", "else"), source.read(name))
    with archive.open(without) as opened:
        assert (dict(opened.compiled), dict(opened.kernels)) == ({}, {})


def test_inspect_shows_models_kernels_code_and_objects(tmp_path: Path) -> None:
    facts: Any = told("inspect", written("compiled", tmp_path))
    assert facts["compiled"] == {
        "model": {
            "target": "cpu linux x86_64 AVX2",
            "has_kernels": True,
            "kernels": 6,
            "traced": 5,
            "code_bytes": sum(len(member("compiled", file)) for file in facts["records"] if ".cpp" in file),
            "object_bytes": 1_516_584,
            "mapped_bytes": 300_361,
        }
    }
    kinds = [record["kind"] for record in facts["records"].values()][:6]
    assert kinds == [
        *("C++ code", "C++ code", "compiled model", "compiled model", "shared object", "kernel information")
    ]
    several = well("inspect", written("several", tmp_path))
    rows = [line.split() for line in several.splitlines() if line.startswith(("tower", "mixer", "program"))]
    assert [row[0] for row in rows] == ["program", "tower", "mixer", "tower"]
    assert rows[-1][1:] == ["cpu", "linux", "x86_64", "AVX2", "9", "8", "50,072"]
    assert "AVX2                   " in well("inspect", written("plain", tmp_path))


def test_inspect_says_what_is_broken_and_shows_the_rest(tmp_path: Path) -> None:
    shared = next(name for name in _names("compiled") if name.endswith(".so"))
    shown = well("inspect", changed("compiled", {shared: b"\x7fELF" + bytes(60)}, tmp_path))
    assert shown.splitlines()[2].startswith(
        f"its models are not known: {shared}, byte 4: expected 1 (32 bits)"
    )
    assert shared in shown.splitlines()[-7]
    foreign = changed("compiled", {shared: b"\xcf\xfa\xed\xfe" + bytes(60)}, tmp_path)
    told_of: Any = told("inspect", foreign)
    assert told_of["compiled"]["model"]["mapped_bytes"] is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "expected an object, found a list"),
        (b'{"relu": {}}', "relu: expected a kernel's name and its handle, found 'relu'"),
        (b'{"relu:02": {}}', "relu:02: expected a kernel's name and its handle, found 'relu:02'"),
        (b'{"relu:2": []}', "relu:2: expected an object, found a list"),
        (b'{"relu:2": {"stack_traces": [1]}}', "relu:2.stack_traces[0]: expected a text, found a number"),
        (b'{"relu:2": {"stack_traces": []}}', "relu:2: expected a field pre_grad_nodes, found none"),
        (b"{", "character 1: expected JSON, found Expecting property name enclosed in double quotes"),
    ],
)
def test_broken_kernel_information_is_told_with_its_place(content: bytes, said: str, tmp_path: Path) -> None:
    path = changed("sources", {KERNELS: content}, tmp_path)
    with archive.open(path) as opened, pytest.raises(ArchiveError) as caught:
        opened.kernels  # noqa: B018 (read when asked for)
    assert str(caught.value).removeprefix(f"{path}: {KERNELS}").lstrip(",: ") == said


def test_large_records_cost_no_more_memory_than_allowed(tmp_path: Path) -> None:
    (code,) = (name for name in _names("sources") if name.endswith(".cpp"))
    calls = b"    // [Provenance debug handles] f:1\n    AOTI_TORCH_ERROR_CODE_CHECK(f());\n" * 100_000
    path = changed("sources", {code: calls}, tmp_path)
    with archive.open(path, limits=Limits(memory=1 << 20)) as opened:
        model = opened.compiled["model"]
        with pytest.raises(ArchiveError, match="lines of C\\+\\+ code"):
            model.code(model.sources[0])


# --- symbolicate


def test_a_kernel_is_shown_by_name_and_handle(tmp_path: Path) -> None:
    path = written("compiled", tmp_path)
    assert well("symbolicate", path, "aoti_torch_cpu_addmm_out:3") == (
        "Kernel aoti_torch_cpu_addmm_out:3, of linear_1\n"
        "Original traceback:\n"
        'File "models/mixer.py", line 21, in forward\n'
        "    b = self.warm(right)\n"
        '  File "/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n'
        "    return F.linear(input, self.weight, self.bias)\n"
    )


def test_a_name_stands_for_all_places_that_call_the_kernel(tmp_path: Path) -> None:
    path = written("several", tmp_path)
    shown = well("symbolicate", path, "cpp_fused_add_relu_2").splitlines()
    assert [line for line in shown if line.startswith("Kernel")] == [
        f"Kernel tower:cpp_fused_add_relu_2:{handle}, of {nodes}"
        for handle, nodes in ((5, "add_1, relu_1"), (7, "add_2, relu_2"), (9, "add_3, relu_3"))
    ]
    facts: Any = told("symbolicate", path, "tower:linear", "mixer:aoti_torch_cpu_cumsum:5")
    assert [one["node"] for one in facts["symbolications"]] == ["linear"]
    (kernel,) = facts["kernels"]
    assert (kernel["model"], kernel["kernel"], kernel["handle"]) == ("mixer", "aoti_torch_cpu_cumsum", 5)
    assert [[frame["line"] for frame in one["frames"]] for one in kernel["tracebacks"]] == [[22]]
    assert kernel["found"]
    assert kernel["text"] == well("symbolicate", path, "mixer:aoti_torch_cpu_cumsum:5").removesuffix("\n")


def test_names_of_the_profiler_are_those_that_the_code_gives_itself(tmp_path: Path) -> None:
    shown = well("symbolicate", written("profiled", tmp_path), "graph_2_cpp_fused__softmax_sum_2")
    assert shown.startswith("Kernel cpp_fused__softmax_sum_2:6, of sum_1, softmax\n")
    for name, kernel in (
        ("profiled", "graph_3_cpp_fused__softmax_sum_2"),
        ("compiled", "graph_2_cpp_fused_0"),
    ):
        assert called("symbolicate", written(name, tmp_path), kernel).exit_code == 1


def test_what_has_no_source_is_told(tmp_path: Path) -> None:
    path = written("several", tmp_path)
    done = called("symbolicate", path, "mixer:cpp_fused_0:1")
    assert (done.exit_code, done.stdout) == (
        1,
        "Kernel mixer:cpp_fused_0:1, of mix_bias\nOriginal traceback:\nNone\n",
    )
    assert done.stderr == f"debug-archive: {path}: no source is recorded for mixer:cpp_fused_0:1\n"
    done = called("symbolicate", path, "mixer:cpp_fused_0:2")
    assert "no kernel 'mixer:cpp_fused_0:2'; there are mixer:cpp_fused_0:1, " in done.stderr
    plain = written("plain", tmp_path)
    done = called("symbolicate", plain, "cpp_fused_0")
    why = f"no kernel 'cpp_fused_0' is recorded: {WITHOUT_RECORD}"
    assert (done.exit_code, done.stderr) == (1, f"debug-archive: {plain}: {why}\n")


def _names(name: str) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(package(name))) as opened:
        return [one.partition("/")[2] for one in opened.namelist()]


def test_models_whose_names_have_colons_or_are_those_of_kernels_are_found(tmp_path: Path) -> None:
    path = tmp_path / "named.pt2"
    names = {"/mixer/": "/a:b/", "/tower/": "/cpp_fused_add_relu_1/"}
    with zipfile.ZipFile(io.BytesIO(package("several"))) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            folder = next((one for one in names if f"aotinductor{one}" in name), "")
            target.writestr(name.replace(folder, names[folder]) if folder else name, source.read(name))
    with archive.open(path) as opened:
        assert list(opened.compiled) == ["a:b", "cpp_fused_add_relu_1"]
        for key, kernel in opened.kernels.items():
            assert [(one.label, one.kernel) for one in found_kernels(opened.compiled, key)] == [(key, kernel)]
        assert [one.label for one in found_kernels(opened.compiled, "cpp_fused_add_relu_1:3")] == [
            "cpp_fused_add_relu_1:cpp_fused_add_relu_1:3"
        ]
