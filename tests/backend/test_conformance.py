"""The rules for backends: one from outside keeps them, and each way to break one is found under its name."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive.backend.conformance
from archive.backend import Link, register_backend, unregister_backend
from archive.backend.conformance import RULES, Report, check, checking, examine
from archive.backend.conformance.subject import _Executing
from tests.backend import broken_backends as broken
from tests.backend.other_backend import PREPROCESS, Model, Tape, Unsupported, preprocess_ahead
from tests.support.backend_models import cases, oracle_models
from tests.support.sampling import Suite, sampled
from tests.support.torch_oracles import argument

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager

    from archive.backend.registry import Preprocess, Runtime

pytestmark = pytest.mark.torch
pytest_plugins = ["archive.backend.conformance.plugin"]

L = oracle_models()
X, Y = torch.linspace(-1, 2, 6).reshape(2, 3), torch.ones(2, 3)
BAD = {"x @ self.weight": (torch.ones(2, 4), Y), "* 0.5 + y": (X, torch.ones(5, 5))}
SHAPES = argument("float32[2, 3]"), argument("float32[14, 2]")
REFUSED = {"torch.sigmoid(y)": Unsupported()}
TAKEN = "refusal: expected {} to be refused with an ArchiveError, found {}"


@contextmanager
def registered(
    runtime: type[Runtime] = Tape,
    preprocess: Preprocess = preprocess_ahead,
    link: Link = Link.AHEAD_OF_TIME,
) -> Iterator[str]:
    register_backend("other", preprocess=preprocess, runtime=runtime, link=link)
    try:
        yield "other"
    finally:
        unregister_backend("other")


COSTLY = {"handles", "state", "availability", "reproducible"}
"""Rules that save archives, most of a test's time; in a sample they are tried on backends that break them."""


def said(
    runtime: type[Runtime] = Tape,
    preprocess: Preprocess = preprocess_ahead,
    *costly: str,
    bad: Mapping[str, tuple[torch.Tensor, ...]] = BAD,
    unavailable: Callable[[], AbstractContextManager[None]] | None = None,
    elsewhere: bool = False,
) -> dict[str, str]:
    """The first finding of each rule that a backend does not keep; of costly rules of those named alone."""
    skipped = set() if Suite.whole else COSTLY - {*costly}
    rules = {name: rule for name, rule in RULES.items() if name not in skipped}
    with registered(runtime, preprocess) as name, mock.patch.object(checking, "RULES", rules):
        found = check(
            name,
            Model(),
            good=(X, Y),
            bad=bad,
            unsupported=REFUSED,
            unavailable=unavailable,
            elsewhere=elsewhere,
        )
    return {one.rule: f"expected {one.expected}, found {one.found}" for one in reversed(found)}


@pytest.mark.parametrize("link", Link)
def test_a_backend_from_outside_keeps_all_rules(link: Link, conformance: Callable[..., Report]) -> None:
    with registered(preprocess=PREPROCESS[link], link=link) as name:
        elsewhere = Suite.whole and link is Link.INLINE  # in a sample, the installed example is run there
        report = conformance(name, Model(), good=(X, Y), bad=BAD, unsupported=REFUSED, elsewhere=elsewhere)
    assert {one.rule for one in report.notes} == {"availability", "refusal"}
    assert str(report).startswith("backend other: conforms\n")


@pytest.mark.parametrize("model", sampled([L.A, L.MultiLine], most=1))
def test_the_demo_keeps_all_rules(model: type[torch.nn.Module], conformance: Callable[..., Report]) -> None:
    conformance(
        "backend_with_compiler_demo",
        model(),
        good=(Y, X),
        bad={"x": SHAPES},
        unsupported={"return x * h": L.MulDeep()},
        elsewhere=False,
    )


def test_aten_keeps_all_rules(conformance: Callable[..., Report]) -> None:
    model, good, bad = cases()["mlp"]
    conformance("aten", model, good=(good,), bad={"return F.linear": (bad,)}, elsewhere=False)


def test_a_backend_that_is_not_pytorch_s_is_examined_as_far_as_that_goes() -> None:
    with registered(broken.Foreign) as name:
        report = examine(name, Model(), good=(X, Y), bad=BAD, elsewhere=False, gradients=False)
    assert report.findings == ()
    notes = {*map(str, report.notes)}
    assert "events: the runtime has no `profiling`, and records no events" in notes
    failures = sorted(note for note in notes if note.startswith("failures: "))
    assert failures
    assert all(note.endswith("made to fail: no operation of the model, as it seems") for note in failures)


@pytest.mark.parametrize(
    ("part", "costly", "finding"),
    [
        (broken.Inheriting, COSTLY, ""),
        (
            broken.made_up,
            {"handles"},
            "handles: expected .pt: handle 1000 to be an operator of the model, found mine::fused",
        ),
        (broken.Vague, {"availability"}, "availability: expected is_available to give a bool, found 1"),
        (broken.Detaching, (), "gradients: expected the runtime: a gradient of input 0, found none"),
        (broken.detached, (), "gradients: expected the runtime: a gradient of first.weight, found none"),
        (broken.Credulous, (), TAKEN.format("None", "no error")),
        (broken.Crashing, (), TAKEN.format("None", "TypeError: 'NoneType' object is not subscriptable")),
        (
            broken.Careless,
            (),
            TAKEN.format("a state of garbage texts", r"no error, taken: '\x00 no state' at state[0]"),
        ),
        (
            broken.numbered,
            {"reproducible"},
            "reproducible: expected .pt: the same bytes when lowered again, found another data.pkl",
        ),
        (broken.placeless, (), "unsupported: expected a LoweringError at 'torch.sigmoid(y)', found KeyError"),
        (
            broken.failing,
            (),
            "interface: expected the model to run and to be lowered, found ZeroDivisionError: no zero",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_part_is_at_most_one_finding(part: Any, costly: Collection[str], finding: str) -> None:  # noqa: ANN401
    """A runtime, or a function that preprocesses."""
    parts = (part, preprocess_ahead) if isinstance(part, type) else (Tape, part)
    rule, _, text = finding.partition(": ")
    assert said(*parts, *costly) == ({rule: text} if rule else {})


def test_other_results_are_found() -> None:
    found = said(broken.Wrong, preprocess_ahead, "state")
    assert found["results"].startswith(
        "expected the result of the runtime's first run to be equal, found Tensor-likes are not close!"
    )
    assert found["state"].startswith("expected the result of the runtime, loaded, to be equal")
    assert found["errors"].startswith("expected lowered, the result after bad inputs")
    assert found["gradients"].startswith("expected the runtime: the gradient of input 0 to be equal, found")
    assert found.keys() == {"results", "state", "errors", "gradients"}


def test_a_handle_that_nobody_gave_out_is_found() -> None:
    found = said(Tape, broken.unrecorded, "handles", "reproducible")
    assert found["handles"] == "expected .pt: handles in the state that were given out, found 99"
    assert found["events"] == "expected the event aten::add with a handle that was given out, found 99"
    assert found["errors"].endswith("a handle that was given out, found 99")
    assert found["reproducible"] == "expected .pt: no handle in the states of two modules, found 99"
    assert found.keys() == {"handles", "events", "errors", "failures", "reproducible"}


@pytest.mark.parametrize(
    ("runtime", "errors", "failures"),
    [
        (
            broken.Forgetting,
            "expected lowered, bad inputs at 'x @ self.weight': a handle that was given out, found -1",
            "(aten::matmul), as its event has, found -1",
        ),
        (broken.Swallowing, "a BackendError of an operation, found no error", "found no error"),
    ],
)
def test_failures_that_do_not_come_back_are_found(runtime: type[Tape], errors: str, failures: str) -> None:
    found = said(runtime)
    assert found["errors"].endswith(errors)
    assert found["failures"].endswith(failures)
    assert found.keys() == {"errors", "failures"}


def test_a_failure_of_the_operation_before_in_the_same_line_is_found() -> None:
    found = said(broken.Late)
    assert found.keys() == {"failures"}
    assert "(aten::relu), as its event has, found " in found["failures"]


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        (broken.Misnaming, " to be aten::matmul, found aten::mul"),
        (broken.Backwards, " ns before"),
        (broken.Silent, "expected 2 times aten::mm within events, found 0"),
    ],
)
def test_events_that_tell_something_else_are_found(runtime: type[Tape], expected: str) -> None:
    found = said(runtime)
    assert found.keys() == {"events"}
    assert found["events"].endswith(expected)


def test_a_backend_that_is_never_available_is_found() -> None:
    assert said(broken.Never, preprocess_ahead, "availability") == {
        "availability": "expected the backend to be available here, as the test says by available=True, "
        "found is_available False"
    }
    with registered() as name:
        (finding,) = check(name, Model(), good=(X, Y), elsewhere=False, available=False)
    assert str(finding) == (
        "availability: expected the backend not to be available here, as the test says by available=False, "
        "found is_available True"
    )


def test_a_backend_can_be_made_unavailable() -> None:
    asked = preprocess_ahead, "availability"
    assert said(broken.Device, *asked, unavailable=broken.away) == {}
    assert said(broken.Swallowing, *asked, bad={}, unavailable=broken.away)["availability"] == (
        "expected made unavailable: is_available to give False, found True"
    )
    assert said(broken.DeviceOnce, *asked, unavailable=broken.away) == {
        "availability": "expected made unavailable: a run in TorchScript to raise "
        "'Backend is not available.', found no error"
    }


def test_where_it_is_not_available_only_what_need_not_run_is_examined() -> None:
    with broken.away(), registered(broken.Device) as name:
        report = examine(name, Model(), good=(X, Y), available=False)
    assert report.findings == ()
    unseen = {one.rule for one in report.notes if one.text == "the backend is not available here"}
    assert unseen == RULES.keys() - {"handles", "availability", "reproducible", "unsupported"}


def test_a_state_that_only_this_process_knows_is_found() -> None:
    assert said(broken.InThisProcess, broken.in_this_process, "state", elsewhere=True) == {
        "state": "expected the runtime to run in a new process, found ArchiveError: backend other does not "
        "compile the state: expected a key"
    }


def test_a_state_that_changes_is_found() -> None:
    found = said(broken.Changing, preprocess_ahead, "state")
    assert found["state"].startswith("expected the state, loaded,[1][0] to be equal, found Tensor-likes")


def test_a_runtime_without_its_methods_is_found() -> None:
    found = said(broken.Empty, preprocess_ahead, *COSTLY)  # type: ignore[arg-type]
    assert found["interface"] == "expected a runtime with the method compile, found none"


def test_the_fixture_fails_with_all_findings(conformance: Callable[..., Report]) -> None:
    with registered(broken.Forgetting) as name, pytest.raises(pytest.fail.Exception) as caught:
        conformance(name, Model(), good=(X, Y), bad=BAD, elsewhere=False)
    first, *lines = str(caught.value).splitlines()
    assert first.startswith("backend other: ")
    assert first.endswith(" findings")
    assert any(line.startswith("  errors: expected ") for line in lines)
    assert any(line.startswith("  not seen by unsupported: ") for line in lines)


def test_what_executes_in_a_context_is_the_runtime_itself_for_all_that_is_read_and_set() -> None:
    runtime: Any = SimpleNamespace(calls=0)
    executing = _Executing(runtime, nullcontext())
    executing.calls += 1
    assert (runtime.calls, executing.calls) == (1, 1)
    assert "calls" not in vars(executing)


def test_pytest_is_imported_for_the_fixture_alone() -> None:
    root = Path(archive.__file__).parent
    importing = [path.name for path in root.rglob("*.py") if "import pytest" in path.read_text("utf-8")]
    assert importing == ["plugin.py"]
    fixture = archive.backend.conformance.conformance
    assert fixture.__module__ == "archive.backend.conformance.plugin"
    assert not hasattr(archive.backend.conformance, "other")
