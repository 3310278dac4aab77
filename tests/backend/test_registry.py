"""Backends by name, in PyTorch's words; those of other distributions; and whether they are available."""

from __future__ import annotations

import io
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import (
    Ahead,
    BackendError,
    Delegate,
    Link,
    LoweringError,
    backend_names,
    folded,
    lower,
    register_backend,
    registry,
    save_lowered,
    unregister_backend,
)
from tests.backend.other_backend import Needy
from tests.support.corpus import ORACLES
from tests.support.processes import run_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.torch

UNAVAILABLE = "Backend is not available."
WARNING = (
    r"^Backend \[needy\] is not available\. Execution of this Module is still possible by saving and loading "
    r"on a device where the backend is available\.$"
)


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def nothing(*_: object) -> dict[str, str]:
    return {"forward": ""}


def ahead(original: Any, spec: Any, generate: Any) -> Ahead:  # noqa: ANN401
    graphs = {method: folded(original.graphs[method]) for method in spec}
    return Ahead(graphs, generate(graphs["forward"]), "", [])


@pytest.fixture(params=list(Link))
def needy(request: pytest.FixtureRequest) -> Iterator[str]:
    link: Link = request.param
    preprocess = ahead if link is Link.AHEAD_OF_TIME else nothing
    yield register_backend("needy", preprocess=preprocess, runtime=Needy, link=link).name
    unregister_backend("needy")


def test_a_missing_backend_is_said_in_pytorch_s_words() -> None:
    with pytest.raises(LoweringError) as caught:
        lower(Same(), "nope")
    there_are = f"no backend 'nope'; available: {', '.join(backend_names())}"
    said = str(caught.value)
    assert said.startswith(
        f"{(ORACLES / 'registry_missing.txt').read_text('utf-8')}\n{there_are}; register_backend()"
    )
    with pytest.raises(LoweringError, match="backend nope is not registered"):
        unregister_backend("nope")


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(LoweringError, match=r"\nno backend 'atn'; available: aten, .*; did you mean aten\?$"):
        lower(Same(), "atn")


@pytest.mark.parametrize("name", ["aten", "backend_with_compiler_demo", "needy"])
def test_a_name_is_registered_once(name: str, needy: str) -> None:
    assert needy in backend_names()
    with pytest.raises(LoweringError) as caught:
        register_backend(name, preprocess=nothing, runtime=Needy)
    assert str(caught.value) == (
        f"Preprocessing function for backend {name} is already registered. "
        "Ensure that registration is only called once."
    )


@pytest.mark.parametrize("name", ["", "two words", "a.b", "1st"])
def test_a_name_that_cannot_be_part_of_a_class_is_refused(name: str) -> None:
    with pytest.raises(LoweringError, match="to be an identifier"):
        register_backend(name, preprocess=nothing, runtime=Needy)


def test_an_unknown_method_is_said_in_pytorch_s_words() -> None:
    with pytest.raises(LoweringError) as caught:
        lower(Same(), "aten", {"nope": {"": ""}})
    assert str(caught.value) == (ORACLES / "spec_unknown_method.txt").read_text("utf-8")


ENTRY = """
from archive.backend import Backend
from tests.backend.other_backend import Needy
print("imported")
FOUND = Backend("outside", lambda *_: {"forward": ""}, Needy)
WRONG = Backend("inside", lambda *_: {"forward": ""}, Needy)
"""
ASKED = """
from archive.backend import LoweringError, backend_names, find_backend
print([name for name in backend_names() if name in ("outside", "misnamed")])
print(find_backend("outside").name, find_backend("outside") is find_backend("outside"))
try:
    find_backend("misnamed")
except LoweringError as error:
    print(error)
"""


def test_backends_of_other_distributions_are_found_by_their_entry_points(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(ENTRY, "utf-8")
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(
        "[archive.backends]\noutside = outside:FOUND\nmisnamed = outside:WRONG\n", "utf-8"
    )
    said = run_fresh(ASKED, folder=tmp_path, paths=[tmp_path]).stdout.splitlines()
    assert said[:3] == ["['misnamed', 'outside']", "imported", "outside True"], "imported when asked for"
    assert said[3].startswith("expected entry point misnamed of archive.backends to be a Backend misnamed")


def test_an_entry_point_that_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "nowhere_at_all:BACKEND", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda **_: [point])
    with pytest.raises(LoweringError, match=r"broken of archive\.backends \(nowhere_at_all:BACKEND\): "):
        registry.find_backend("broken")


def test_where_it_is_available_it_runs(needy: str) -> None:
    x = torch.ones(2)
    lowered = lower(Same(), needy)
    assert torch.equal(lowered(x), x)
    assert torch.equal(Delegate.of(lowered)(x), x)


def test_lowering_where_it_is_not_available_warns_and_still_saves(needy: str, tmp_path: Path) -> None:
    path, x = tmp_path / "later.pt", torch.ones(2)
    with torch.no_grad():
        with pytest.warns(UserWarning, match=WARNING):
            lowered = lower(Same(), needy)
        save_lowered(lowered, path)
        with pytest.raises(torch.jit.Error, match=UNAVAILABLE):
            lowered(x)
        with pytest.raises(BackendError, match=f"^{UNAVAILABLE}$"):
            Delegate.of(lowered)
    assert torch.equal(torch.jit.load(path)(x), x), "elsewhere it runs"


def test_loading_where_it_is_not_available_raises(needy: str, tmp_path: Path) -> None:
    path = tmp_path / "here.pt"
    save_lowered(lower(Same(), needy), path)
    with torch.no_grad():
        with pytest.raises(torch.jit.Error, match=UNAVAILABLE):
            torch.jit.load(path)
        with pytest.raises(BackendError, match=f"^{UNAVAILABLE}$"):
            Delegate.load(path)


def test_running_where_it_is_no_longer_available_raises(needy: str) -> None:
    x = torch.ones(2)
    lowered = lower(Same(), needy)
    buffer = io.BytesIO()
    torch.jit.save(lowered, buffer)
    buffer.seek(0)
    loaded, delegate = torch.jit.load(buffer), Delegate.of(lowered)
    with torch.no_grad():
        for run in (lowered, loaded):
            with pytest.raises(torch.jit.Error, match=UNAVAILABLE):
                run(x)
        with pytest.raises(BackendError, match=f"^{UNAVAILABLE}$"):
            delegate(x)
    assert torch.equal(loaded(x), x), "and runs again"


def test_the_texts_are_those_of_pytorch_s_own_lowering() -> None:
    register_backend("test_backend_unavailable", preprocess=nothing, runtime=Needy)
    try:
        lowered = lower(Same(), "test_backend_unavailable")
        with torch.no_grad(), pytest.raises(torch.jit.Error) as caught:
            lowered(torch.ones(2))
    finally:
        unregister_backend("test_backend_unavailable")
    said = (
        str(caught.value).replace("x: Tensor", "x: Tensor, y: Tensor").replace("forward(x)", "forward(x, y)")
    )
    theirs = (ORACLES / "unavailable_execute.txt").read_text("utf-8")
    theirs = theirs.replace(
        "RuntimeError: Exception:", "builtins.Exception:"
    )  # as lowering from Python has it
    assert said.replace("~", "") == theirs.replace("~", "")


def test_a_runtime_that_is_no_class_is_refused() -> None:
    with pytest.raises(LoweringError, match="expected the runtime of odd to be a class"):
        register_backend("odd", preprocess=nothing, runtime=lambda: Needy())  # type: ignore[arg-type]  # noqa: PLW0108


class WithoutExecute:
    """No runtime: it cannot execute."""

    last_handle = -1

    def is_available(self) -> bool:
        return True


class Refusing(Needy):
    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401, ARG002
        raise AssertionError("no such chip")


class OfPython(Needy):
    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401, ARG002
        return [input("number: ")]


FIRST = 0


class OfGlobals(Needy):
    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401, ARG002
        return [inputs[FIRST]]


def broken(*_: object) -> object:
    nothing: dict[str, object] = {}
    return nothing["a key"]


def of_python(*_: object) -> object:
    return object()


EMPTY = "which is list: an empty one has no type of elements$"
UNHELD = [
    ({"forward": {"names": ["a"], "sizes": []}}, rf"\['forward'\]\['sizes'\], \[\], {EMPTY}"),
    ([{"a": 1}, {"a": 2, "b": (1, [])}], rf"\[1\]\['b'\]\[1\], \[\], {EMPTY}"),
    ({}, ", {}, which is dict: an empty one has no type of elements$"),
    ({"forward": [1, "x"]}, r"\['forward'\], \[1, 'x'\], which is list$"),
]
"""States that TorchScript cannot hold, and the part that it cannot."""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"runtime": WithoutExecute}, r"^the runtime WithoutExecute of mine has no method compile, execute$"),
        ({"link": "inlin"}, r"^no link 'inlin'; available: inline, ahead of time$"),
        ({"runtime": Refusing}, r"^mine does not compile what it was preprocessed to: .*no such chip$"),
        ({"runtime": OfPython}, r"is not TorchScript: the function input is unknown:\n"),
        ({"runtime": OfGlobals}, r"is not TorchScript: python value of type 'int' cannot be used as a value"),
        (
            {"preprocess": of_python},
            r"TorchScript cannot hold __processed_module, <object .*, which is object$",
        ),
        *(
            ({"preprocess": lambda *_, state=state: state}, rf"cannot hold __processed_module{place}")
            for state, place in UNHELD
        ),
    ],
)
def test_mistakes_in_backends_are_told_by_the_backend_s_own_names(changed: dict[str, Any], said: str) -> None:
    made: dict[str, Any] = {"preprocess": nothing, "runtime": Needy} | changed
    try:
        with pytest.raises(LoweringError, match=said):
            lower(Same(), register_backend("mine", **made).name)
    finally:
        registry._registered.pop("mine", None)


def test_an_error_in_preprocessing_stays_and_has_a_note() -> None:
    register_backend("mine", preprocess=broken, runtime=Needy)
    try:
        with pytest.raises(KeyError, match="a key") as caught:
            lower(Same(), "mine")
    finally:
        unregister_backend("mine")
    (note,) = caught.value.__notes__
    assert note.startswith("in preprocess of the backend mine, which was given __torch__.")


def test_a_delegate_says_what_it_is_of_and_what_runs_it() -> None:
    lowered = lower(torch.nn.Sequential(torch.nn.ReLU()), "aten")
    assert repr(Delegate.of(lowered)) == "<Delegate of Sequential, lowered to aten>"
