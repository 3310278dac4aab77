"""What PyTorch's own tests of backends ask, by their names; answers in ``docs/reference/lowered.md``.

Facts of ``test/jit/test_backends.py`` and ``test/cpp/jit/test_backend.cpp``. PyTorch's ``test_backend`` runs
any number of additions and subtractions; ``aten`` stands for it. ``BackendTestDebugInfo`` is in
``test_failures_in_stock.py``, but for the string table.
"""

from __future__ import annotations

import io
import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
import torch.utils.bundled_inputs
from torch import nn

import archive
from archive.backend import LoweringError, lower, lowered_archive, register_backend, unregister_backend
from tests.backend import test_failures_in_stock as stacks
from tests.backend.other_backend import Needy
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:Lite Interpreter is deprecated:DeprecationWarning"),
]
DEMO = "backend_with_compiler_demo"
SPEC = {name: {"": ""} for name in ("accum", "sub_accum", "forward")}
X, H = torch.randn(5), torch.randn(5)
ROW = re.compile(r"^\| `(test_backend(?:s\.py|\.cpp))` `([\w.]+)` \| (.*) \|$", re.MULTILINE)


class Basic(nn.Module):
    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.accum(x, h), self.sub_accum(x, h)

    @torch.jit.export
    def accum(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return x + h

    @torch.jit.export
    def sub_accum(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return x - h


class Middle(nn.Module):
    def __init__(self, submodule: nn.Module) -> None:
        super().__init__()
        self.submodule = submodule

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both: tuple[torch.Tensor, torch.Tensor] = self.submodule.forward(x, h)
        return both


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sub1, self.sub2, self.other = Middle(Basic()), Middle(Basic()), Middle(Basic())

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = self.sub1.submodule.forward(x, h)
        c, d = self.sub2.forward(x, h)
        e, f = self.other.forward(x, h)
        return a + c + e, b + d + f


class Add(nn.Module):
    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return x + h


class Sub(nn.Module):
    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return x - h


class Mul(nn.Module):
    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return x * h


class Composite(nn.Module):
    def __init__(self, add: nn.Module, sub: nn.Module) -> None:
        super().__init__()
        self.add, self.sub = add, sub

    def forward(self, a: torch.Tensor, b: torch.Tensor, s: int) -> torch.Tensor:
        return s * (self.add.forward(a, b) * self.sub.forward(a, b))


class Dtype(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> int:  # noqa: ARG002
        kind: int = y.dtype
        return kind


def own_name(module: nn.Module) -> nn.Module:
    return lower(module, DEMO)


def same_name(module: nn.Module) -> nn.Module:
    """A module whose class has the name of another one."""
    body = type(module)
    kind: Any = type("ModuleAdd", (nn.Module,), {"forward": body.forward, "__module__": body.__module__})
    return lower(kind(), DEMO)


def saved(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """The module, saved and loaded by stock PyTorch, and then saved by us and loaded."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(io.BytesIO(lowered_archive(torch.jit.load(buffer))))


def mobile(module: torch.jit.ScriptModule) -> Callable[..., Any]:
    found: Callable[..., Any] = torch.jit.mobile._load_for_lite_interpreter(
        io.BytesIO(lowered_archive(module, lite=True))
    )
    return found


def equal(one: Callable[..., Any], other: Callable[..., Any], *inputs: object) -> None:
    torch.testing.assert_close(one(*inputs), other(*inputs), rtol=0, atol=0)


def unshared(module: nn.Module) -> torch.jit.ScriptModule:
    """A module scripted so that each of its modules has a type of its own."""
    methods = torch.jit._recursive.infer_methods_to_compile
    made: torch.jit.ScriptModule = torch.jit._recursive.create_script_module(
        module, methods, share_types=False
    )
    return made


@cache  # PyTorch asks the same in Python and in C++
def basic(*, load: bool) -> None:
    lowered = lower(torch.jit.script(Basic()), "aten", SPEC)
    spec = lowered._c.getattr("__loweredModule__").getattr("__method_compile_spec")
    if load:
        lowered = saved(lowered)
        assert lowered._c.getattr("__loweredModule__").getattr("__method_compile_spec") == spec
    for method in SPEC:
        equal(getattr(Basic(), method), getattr(lowered, method), X, H)


def nothing(original: object, method_compile_spec: object, generate_debug_handles: object) -> str:  # noqa: ARG001
    return ""


@cache
def unavailable(*, load: bool) -> None:
    register_backend("needy", preprocess=nothing, runtime=Needy)
    try:
        check_unavailable("needy", load=load)
    finally:
        unregister_backend("needy")


def check_unavailable(needy: str, *, load: bool) -> None:
    with torch.no_grad(), pytest.warns(UserWarning, match="is not available"):
        lowered = lower(torch.jit.script(Basic()), needy)
    with torch.no_grad(), pytest.raises((RuntimeError, torch.jit.Error), match=r"Backend is not available\."):
        saved(lowered) if load else lowered(X, H)


def nested(*, load: bool) -> None:
    lowered = torch.jit.script(Middle(lower(torch.jit.script(Basic()), "aten", SPEC)))
    equal(Middle(Basic()), saved(lowered) if load else lowered, X, H)


def selective(*, load: bool) -> None:
    lowered = lower(unshared(Outer()), "aten", {"forward": ""}, paths=["sub1.submodule", "sub2.submodule"])
    if load:
        lowered = saved(lowered)
    equal(Outer(), lowered, X, H)
    graphs = [str(one.graph) for one in (lowered, lowered.sub1, lowered.sub2)]
    assert all("LoweredWrapper.aten" in graph for graph in graphs), "types are replaced wherever they stand"
    assert "LoweredModule.aten" in str(lowered.sub2.submodule._c.getattr("__loweredModule__")._type())
    assert "LoweredWrapper" not in f"{lowered.other.graph}{lowered.other.submodule.graph}"


def selective_errors() -> None:
    middle = Middle(Basic())
    middle.new_attr = 3
    with pytest.raises(LoweringError, match="Attribute named new_attr is not a Module"):
        lower(torch.jit.script(middle), "aten", {"forward": ""}, paths=["new_attr"])
    words = "Selective lowering is only supported for module hierarchies with unique types"
    with pytest.raises(LoweringError, match=words):
        lower(torch.jit.script(Outer()), "aten", {"forward": ""}, paths=["sub1.submodule"])
    assert lower(Outer(), "aten", paths=["sub1.submodule"]), "on purpose: eager modules are taken"


@cache
def compiler() -> None:
    inputs = torch.ones(1), torch.ones(1)
    spec = {"forward": {"input_shapes": "((1, 1, 320, 240), (1, 3))", "some_other_option": "True"}}
    lowered = lower(torch.jit.script(Add()), DEMO, spec)
    equal(Add(), lowered, *inputs)
    equal(Add(), mobile(lowered), *inputs)


@cache
def unsupported() -> None:
    said = (
        r"The node of aten::mul is not supported in this compiler\. .*\n    def forward\(self, x: .*\n"
        r"        return x \* h\n               ~~~~~ <--- HERE"
    )
    with pytest.raises(RuntimeError, match=said):
        lower(torch.jit.script(Mul()), DEMO, {"forward": {"": ""}})


@cache
def composite(lowered: Callable[[nn.Module], nn.Module]) -> None:
    scripted = torch.jit.script(Composite(lowered(Add()), lowered(Sub())))
    equal(Composite(Add(), Sub()), scripted, 3 * X, H, 3)
    equal(scripted, mobile(scripted), 3 * X, H, 3)


def added_attributes() -> None:
    lowered = lower(torch.jit.script(Basic()), "aten", SPEC)
    before = lowered(X, H)
    torch.utils.bundled_inputs.augment_model_with_bundled_inputs(lowered, [(X, H)])
    for module in (lowered, saved(lowered)):
        torch.testing.assert_close(module(*module.get_all_bundled_inputs()[0]), before)


def resaved() -> None:
    scripted = torch.jit.script(Composite(same_name(Add()), same_name(Sub())))
    first = lowered_archive(scripted, lite=True)
    again = torch.jit.load(io.BytesIO(first))._save_to_buffer_for_lite_interpreter()
    one, other = (torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data)) for data in (first, again))
    equal(one, other, X, 3 * H, 3)
    assert methods(first) == methods(again)


def methods(data: bytes) -> list[str]:
    """The names of an archive's methods, as the lite interpreter has them."""
    with archive.open(data) as opened:
        assert opened.bytecode is not None
        return list(opened.bytecode.instructions)


def dtype() -> None:
    lowered = lower(Dtype(), "aten")
    assert lowered(X, H) == mobile(lowered)(X, H) == torch.jit.script(Dtype())(X, H)


def string_table(check: Callable[[], None]) -> None:
    torch._C._set_should_use_format_with_string_table(False)  # noqa: FBT003 (PyTorch's own)
    try:
        check()
    finally:
        torch._C._set_should_use_format_with_string_table(True)  # noqa: FBT003


FAILURES = {
    "TestCompiler": "TestCompiler",
    "TestCompilerWithStringTable": "TestCompiler",
    "TestExceptionStackForCompilerWithModuleHierarchy": "ModuleHierarchy",
    "TestExceptionStackForCompilerWithTwoLevelModuleHierarchy": "TwoLevelModuleHierarchy",
    "TestExceptionStackForCompilerWithLoweredSubModule": "LoweredSubModule",
    "TestExceptionStackForCompilerWithSelectiveLoweredSubModule": "SelectiveLoweredSubModule",
}


def debug_info(name: str) -> None:
    check = partial(stacks.check, *stacks.UPSTREAM[FAILURES[name]])
    string_table(check) if name.endswith("StringTable") else check()


SAME = "as there"
PY, CPP = "test_backends.py", "test_backend.cpp"
DEBUG_INFO = "its hierarchy and lines; the frame of the generated `self.__backend.execute(…)` is missing"
CHECKS: dict[tuple[str, str], tuple[str, Callable[[], None]]] = {
    (PY, "BasicModuleTest.test_execution"): (SAME, lambda: basic(load=False)),
    (PY, "BasicModuleTest.test_save_load"): (SAME, lambda: basic(load=True)),
    (PY, "BasicModuleUnavailableTest.test_execution"): (SAME, lambda: unavailable(load=False)),
    (PY, "BasicModuleUnavailableTest.test_save_load"): (SAME, lambda: unavailable(load=True)),
    (PY, "NestedModuleTest.test_execution"): (SAME, lambda: nested(load=False)),
    (PY, "NestedModuleTest.test_save_load"): (SAME, lambda: nested(load=True)),
    (PY, "SelectiveLoweringTest.test_execution"): (SAME, lambda: selective(load=False)),
    (PY, "SelectiveLoweringTest.test_save_load"): (SAME, lambda: selective(load=True)),
    (PY, "SelectiveLoweringTest.test_errors"): (
        "its errors, but that of a module that is not scripted: eager modules are lowered, too",
        selective_errors,
    ),
    (PY, "BasicModuleTestWithCompiler.test_execution"): (SAME, compiler),
    (PY, "ErrorMessagesWithCompiler.test_errors"): (SAME, unsupported),
    (PY, "CompModuleTestWithCompiler.test_execution"): (
        SAME,
        lambda: composite(own_name),
    ),
    (PY, "CompModuleTestSameNameWithCompiler.test_execution"): (
        SAME,
        lambda: composite(same_name),
    ),
    (PY, "AddedAttributesTest.test_attribute"): (SAME, added_attributes),
    (CPP, "BackendTest.ToBackend"): (SAME, lambda: basic(load=False)),
    (CPP, "BackendTest.ToBackendNotAvailable"): (SAME, lambda: unavailable(load=False)),
    (CPP, "BackendTest.TestCompiler"): (SAME, compiler),
    (CPP, "BackendTest.TestCompilerWithStringTable"): (SAME, lambda: string_table(compiler.__wrapped__)),
    (CPP, "BackendTest.TestComposite"): (SAME, lambda: composite(own_name)),
    (CPP, "BackendTest.TestPrimDtype"): (SAME, dtype),
    (CPP, "BackendTest.TestCompositeWithSetStates"): (
        SAME,
        lambda: composite(same_name),
    ),
    (CPP, "BackendTest.TestConsistencyOfCompositeWithSetStates"): (SAME, resaved),
    (CPP, "BackendTest.TestCompilerNotSupport"): (SAME, unsupported),
    **{(CPP, f"BackendTestDebugInfo.{name}"): (DEBUG_INFO, partial(debug_info, name)) for name in FAILURES},
}
"""Each test of PyTorch's: our answer, and a check of it."""


@pytest.mark.parametrize("test", CHECKS, ids=lambda test: test[1])
def test_what_pytorch_s_own_tests_ask_holds(test: tuple[str, str]) -> None:
    CHECKS[test][1]()


def test_the_page_lists_all_of_them() -> None:
    page = (FIXTURES.parent / "docs" / "reference" / "lowered.md").read_text("utf-8")
    assert {(file, name): said for file, name, said in ROW.findall(page)} == {
        test: said for test, (said, _) in CHECKS.items()
    }
