"""Runs in stock PyTorch, led to modules and lines: the same as those of the register machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Delegate, lower, save_lowered
from archive.backend.stock.running import LiteMethod, example_tensor, profile_archive
from archive.debuginfo.profiles.places import common_place
from archive.reader.lookups.generated_code import GeneratedCode
from tests.backend.chrome_trace import problems
from tests.support.commands import run
from tests.support.profiles import ADD_0, FC_0, HEAD, Deciding, InTurns, Listed, counts, placing
from tests.support.speedscope import problems as speedscope_problems

if TYPE_CHECKING:
    from pathlib import Path

    from archive.debuginfo.profiles.profile import Profile

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning"),
]
X = torch.ones(2, 4)
MODELS = {"listed": (Listed, (X,)), "turns": (InTurns, (X,)), "deciding": (Deciding, (X, 3))}


def saved(folder: Path, model: torch.nn.Module, *, lite: bool) -> str:
    path = str(folder / ("m.ptl" if lite else "m.pt"))
    scripted = torch.jit.script(model.eval())
    if lite:
        scripted._save_for_lite_interpreter(path, _save_mobile_debug_info=True)
    else:
        scripted.save(path)
    return path


def by_machine(model: torch.nn.Module, *inputs: object) -> Profile:
    delegate = Delegate.of(lower(model.eval(), "aten"))
    with torch.no_grad(), delegate.recording() as made:
        delegate(*inputs)
    return delegate.profile(made)


@pytest.mark.parametrize("name", MODELS)
def test_the_lite_interpreter_s_operations_are_led_to_their_modules_and_lines(
    name: str, tmp_path: Path
) -> None:
    kind, inputs = MODELS[name]
    model = kind()
    profile = profile_archive(saved(tmp_path, model, lite=True), *inputs)
    expected = counts(by_machine(model, *inputs))
    assert profile.backend == "lite interpreter"
    found = counts(profile)
    assert found == {key: count for key, count in expected.items() if key in found}
    assert {key for key in expected if key[2] in ("aten::linear", "aten::relu", "aten::mul")} <= found.keys()


@pytest.mark.parametrize("name", MODELS)
def test_torchscript_s_operations_are_led_to_their_modules_and_lines(name: str, tmp_path: Path) -> None:
    kind, inputs = MODELS[name]
    model = kind()
    profile = profile_archive(saved(tmp_path, model, lite=False), *inputs)
    assert profile.backend == "TorchScript"
    expected, found = counts(by_machine(model, *inputs)), counts(profile)
    if name == "turns":  # PyTorch's stacks have lines alone, and one line calls two modules of one class
        assert {module for module, _, op in found if op == "aten::linear"} == {"a.0|b.0", "a.1|b.1"}
    else:
        assert found == {key: count for key, count in expected.items() if key in found}
        assert sum(found.values()) >= 4


def test_runs_add_up_and_memory_is_the_allocator_s(tmp_path: Path) -> None:
    path = saved(tmp_path, Listed(), lite=True)
    once, thrice = (profile_archive(path, X, runs=runs) for runs in (1, 3))
    assert counts(thrice) == {key: 3 * count for key, count in counts(once).items()}
    assert thrice.peak == once.peak > 0
    assert sum(row.at_peak for row in once.by_module()) == once.peak
    assert sum(row.at_peak for row in thrice.by_line()) == once.peak
    assert sum(row.allocated for row in once.by_operator()) >= 4 * 32
    assert once.table().splitlines()[2].split()[-5:] == ["allocated", "at", "peak", "module", "class"]
    assert problems(once.chrome_trace()) == speedscope_problems(once.speedscope()) == []
    assert {
        event["args"]["Backend"] for event in once.chrome_trace()["traceEvents"] if event["ph"] == "i"
    } == {"lite interpreter"}


def test_a_split_archive_is_profiled_with_its_companion(tmp_path: Path) -> None:
    path = saved(tmp_path, Listed(), lite=True)
    small, companion = tmp_path / "small.ptl", tmp_path / "m.ptdbg"
    archive.split(path, small, companion)
    found = profile_archive(str(small), X, companion=str(companion))
    assert counts(found) == counts(profile_archive(path, X))


@pytest.mark.parametrize("lite", [False, True])
def test_a_lowered_module_is_profiled_at_the_model_s_lines(tmp_path: Path, *, lite: bool) -> None:
    path = tmp_path / ("m.ptl" if lite else "m.pt")
    save_lowered(lower(Deciding().eval(), "aten"), path)
    profile = profile_archive(str(path), X, 3)
    lines = {str(one.place.source) for one in profile.events if one.name in ("aten::linear", "aten::mul")}
    expected = {
        str(one.place.source) for one in by_machine(Deciding(), X, 3).events if one.name == "aten::linear"
    }
    assert expected <= lines
    modules = {row.name for row in profile.by_module()}
    assert modules == ({"top(Deciding)", "left", "right"} if lite else {"top(Deciding)"})


def test_the_listing_shows_the_source_with_times(tmp_path: Path) -> None:
    profile = profile_archive(saved(tmp_path, Deciding(), lite=False), X, 3)
    text = profile.listing()
    lines = {line.strip().rpartition("  ")[2].strip(): line for line in text.splitlines()}
    hit = lines["return self.right(x) * 2"]
    assert hit.split()[1] == str(sum(row.calls for row in profile.by_line() if "right" in row.text))
    assert lines["def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:"].split()[1] == "def"
    assert "linear.py" not in text


def test_what_cannot_be_profiled_is_told(tmp_path: Path) -> None:
    path = saved(tmp_path, Deciding(), lite=False)
    with pytest.raises(ArchiveError, match=r"forward fails with these inputs: .*mat1 and mat2 shapes"):
        profile_archive(path, torch.ones(2, 5), 1)
    with pytest.raises(ArchiveError, match=r"forward fails with these inputs: .*missing value for argument"):
        profile_archive(path, X)
    with pytest.raises(ArchiveError, match="a Tensor is given by its sizes and type") as refused:
        profile_archive(path, 8, 1)
    assert "these inputs" in str(refused.value)
    with pytest.raises(ArchiveError, match=r"fails without inputs \(give some: --input .*missing"):
        profile_archive(path)
    with pytest.raises(ArchiveError, match=r"expected a method nope, found forward"):
        profile_archive(path, X, method="nope")
    with pytest.raises(ArchiveError, match=r"expected debug handles of .*Deciding\.forward, found none"):
        profile_archive(path, X, 1, lite=True)
    with torch.autograd.profiler.profile(), pytest.raises(ArchiveError, match=r"profiler runs already"):
        profile_archive(path, X, 1)
    with pytest.raises(ValueError, match=r"no type 'int999' of tensors; available: bfloat16"):
        example_tensor([1], "int999")


class Taking(torch.nn.Module):
    """Arguments of several types."""

    def forward(  # noqa: PLR0917
        self, x: torch.Tensor, n: int, f: float, some: list[torch.Tensor], maybe: int | None, k: int = 2
    ) -> torch.Tensor:
        return x * n * f * k + some[0] if maybe is None else x * k


TAKEN = (torch.ones(2), 1, 2.0, [torch.ones(2)], None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "fails without inputs .*expected x: Tensor, n: int, f: float, .*; found 0 arguments"),
        (TAKEN[:1], "found 1 arguments"),
        ((*TAKEN, 3, 4), "found 7 arguments"),
        ((3, *TAKEN[1:]), "expected x: Tensor; found int"),
        ((TAKEN[0], 1.5, *TAKEN[2:]), "expected n: int; found float"),
        ((*TAKEN[:2], 2, *TAKEN[3:]), "expected f: float; found int"),
        ((*TAKEN[:3], [3], None), r"expected some: List\[Tensor\]; found list"),
        ((*TAKEN[:4], "a"), r"expected maybe: Optional\[int\]; found str"),
        (TAKEN, ""),
        ((*TAKEN[:4], 3, 5), ""),
    ],
)
def test_the_lite_interpreter_gets_no_arguments_that_would_end_the_process(
    given: tuple[object, ...], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "taking.ptl"
    save_lowered(lower(torch.jit.script(Taking()), "aten"), path)
    if not says:
        assert profile_archive(path, *given).events
        return
    with pytest.raises(ArchiveError, match=says):
        profile_archive(path, *given)


def test_example_tensors() -> None:
    assert torch.equal(example_tensor([2, 3], "float32"), example_tensor([2, 3], "float32"))
    assert example_tensor([2, 3], "float64").std() > 0
    assert torch.equal(example_tensor([4], "int64"), torch.zeros(4, dtype=torch.int64))
    assert example_tensor([], "bool").shape == ()


BRANCH = [("LOAD", 0), ("JF", 3), ("OP", 0), ("JMP", 2), ("OP", 0), ("OP", 1), ("RET", 0)]
LOOP = [("LOOP", 3), ("OP", 0), ("JMP", -2), ("OP", 1), ("RET", 0)]


@pytest.mark.parametrize(
    ("instructions", "run", "handles"),
    [
        (BRANCH, ["a", "b"], [(2, 4), (5,)]),  # either branch
        (BRANCH, ["a"], [()]),  # the run ends where no path does
        (LOOP, ["b"], [(3,)]),
        (LOOP, ["a", "a", "b"], [(1,), (1,), (3,)]),
        (LOOP, ["a", "x", "b"], [(), (), ()]),
        ([("OP", 0), ("INTERFACE_CALL", 0), ("OP", 1), ("RET", 0)], ["a", "b"], [(), ()]),
        ([("OP", 0), ("OP", 1)], [], []),
    ],
)
def test_the_names_of_operations_tell_their_handles(
    instructions: list[tuple[str, int]], run: list[str], handles: list[tuple[int, ...]]
) -> None:
    names = ["ab"[number] if code == "OP" else "" for code, number in instructions]
    assert LiteMethod(instructions, names, range(len(instructions))).handles_of(run) == handles


def test_an_operation_that_may_be_one_of_several_has_what_they_have_in_common() -> None:
    first, second, head = (placing("plain_stack")(one) for one in (FC_0, ADD_0, HEAD))
    both = common_place([first, second])
    assert [level.path for level in both.levels] == ["top(Stack)", "blocks", "blocks.0"]
    assert (both.source, both.op) == (None, first.op)
    assert common_place([first, head]).module == "top(Stack)"
    assert common_place([first, first]) == first
    assert common_place([]).module == "(unknown)"


CODE = b"""class Net(Module):
  up : __torch__.List
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    up = self.up
    _0 = getattr(up, "0")
    x0 = (_0).forward((self).helper(x, ), )
    return torch.relu(x0)
class List(Module):
  __annotations__["0"] = __torch__.Net
"""


def test_generated_code_tells_the_modules_that_it_calls() -> None:
    code = GeneratedCode(
        ["code/__torch__.py", "code/broken.py"], lambda name: CODE if name == "code/__torch__.py" else b""
    )
    record = code.record("code/__torch__.py")
    assert record is not None
    (forward,) = record.functions
    assert [(one.method, one.path) for one in forward.calls] == [("forward", ("up", "0")), ("helper", ())]
    assert CODE[forward.calls[1].start : forward.calls[1].end] == b"(self).helper(x, )"
    assert (code.type_of("__torch__.Net", ("up", "0")), code.type_of("__torch__.Net", ("no",))) == (
        "__torch__.Net",
        "",
    )
    assert code.record("code/none.py") is None
    assert GeneratedCode(["x.py"], lambda _: b"def f(:").record("x.py") is None


@torch.library.custom_op("stock_profiles::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    """Calls functions that are gone when the profiler's events are read, and fills their memory."""
    made: dict[str, object] = {}
    for number in range(50):
        name = f"made_{'x' * 50}_{number}"
        exec(f"def {name}(): pass\n{name}()", made)  # noqa: S102 (of this test's own)
    made.clear()
    kept.extend(b"\xa0" * 64 + number.to_bytes(2, "big") for number in range(20_000))
    return x * 0.5


kept: list[bytes] = []


class Halving(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.stock_profiles.halved(torch.relu(x))


@pytest.mark.parametrize("lite", [False, True], ids=["script", "lite"])
def test_functions_of_operators_in_python_may_be_gone_when_a_run_is_read(
    tmp_path: Path, *, lite: bool
) -> None:
    profile = profile_archive(saved(tmp_path, Halving(), lite=lite), X, runs=2, warmup=0)
    kept.clear()
    assert [one.name for one in profile.events] == ["aten::relu", "stock_profiles::halved"] * 2


class Counting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total, sizes = 0, [1, 2]
        for size in sizes:
            if x.dim() > size:
                total += len(sizes)
        return torch.relu(x) + total


def test_the_lite_interpreter_shows_operations_of_numbers_and_lists_too(tmp_path: Path) -> None:
    path = saved(tmp_path, Counting(), lite=True)
    lite, script = (
        [event.name for event in profile_archive(path, X, lite=lite).events] for lite in (True, False)
    )
    assert script == ["aten::relu", "aten::add"] == lite[-2:]
    assert {*lite[:-2]} == {"aten::len", "aten::__getitem__", "aten::gt", "aten::add"}


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.nobody.twice(x)


def test_an_operator_that_nobody_has_registered_is_named_with_the_way_out(tmp_path: Path) -> None:
    """Of TorchScript, the lite interpreter and a program, by each command that loads them."""
    paths = [tmp_path / name for name in ("m.pt", "m.ptl", "m.pt2")]
    with torch.library._scoped_library("nobody", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", torch.empty_like, "Meta")
        scripted = torch.jit.script(Twice())
        scripted.save(paths[0])
        scripted._save_for_lite_interpreter(str(paths[1]), _save_mobile_debug_info=True)
        torch.export.save(torch.export.export(Twice(), (X,)), paths[2])
    asked = [("profile", path, "--input", "2x4") for path in paths]
    asked += [("run", path, "--input", "2x4") for path in paths]
    asked += [("lite", paths[0], "-o", str(tmp_path / "other.ptl"))]
    for arguments in asked:
        done = run(*arguments)
        assert done.returncode == 2
        said = done.stderr.decode()
        assert re.search(r"PyTorch does not load it: it knows no operator nobody(::|\.)twice", said), said
        assert "import that before: python -c 'import MODULE; from archive.cli import main; main()'" in said
