"""Inputs that PyTorch refuses before a program's first node: the program's condition, and no other's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.failures.explainer import LogExplainer
from archive.formats.exported.guards import guard_of
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from pathlib import Path

FRAME = (
    '  File "<eval_with_key>.5", line 18, in forward\n'
    "    _guards_fn = self._guards_fn(first, second);  _guards_fn = None\n"
    "                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    '  File "<string>", line 7, in _\n'
    '  File "/opt/py/lib/python3.11/site-packages/torch/__init__.py", line 2279, in _assert\n'
    "    raise AssertionError(message)\n"
)
EXECUTING = (
    "\nWhile executing %_guards_fn : [num_users=0] = call_module[target=_guards_fn](args = (%first, "
    "%second), kwargs = {})\nOriginal traceback:\nNone\n"
)
"""What the interpreter writes below the error."""


def refusal(condition: str) -> str:
    """A log of a call that a condition refuses."""
    return f"Traceback (most recent call last):\n{FRAME}AssertionError: Guard failed: {condition}\n"


def explained(condition: str, name: str, below: str = "") -> tuple[str, LogExplainer]:
    log = refusal(condition) + below
    with archive.open(EXPORTED / name) as opened:
        explainer = LogExplainer.of(opened)
        out = b"".join(explainer.explain([log.encode()])).decode()
    return out.removeprefix(log.removesuffix(below)), explainer


@pytest.mark.parametrize("below", ["", EXECUTING])
def test_the_refused_input_is_written_below_the_condition(below: str) -> None:
    text, explainer = explained("second.size()[0] == 3", "shop.pt2", below)
    assert text == f"Input of the program: second, int64 of shape (3,)\n{below}"
    assert explainer.notes == []
    (group,) = explainer.causes.top()
    assert group.message == "Guard failed: second.size()[0] == 3"
    assert group.cause == ("", 0, "input second", group.message)
    assert explainer.caveat.startswith("nothing in the log names the model")


@pytest.mark.parametrize("below", ["", EXECUTING])
@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("third.size()[0] == 3", "no input with such a size"),
        ("second.size()[1] == 3", "no input with such a size"),
        ("second.size()[0] == 4", "no such condition"),
        ("second.size()[0] <= 3", "no such condition"),
        ("second.size()[0] == first.size()[0]", "no such condition"),
        ("n == 3", "no such input"),
    ],
)
def test_a_condition_that_the_program_lacks_is_another_models(condition: str, why: str, below: str) -> None:
    text, explainer = explained(condition, "shop.pt2", below)
    assert text == below
    assert explainer.notes == [
        f"line 8: condition {condition}: the program has {why}: the failure is another model's, or version's"
    ]
    assert explainer.explained == 0


@pytest.mark.parametrize("below", ["", EXECUTING])
def test_an_explained_condition_stays(below: str) -> None:
    text, _ = explained("second.size()[0] == 3", "shop.pt2", below)
    again, explainer = explained("second.size()[0] == 3", "shop.pt2", text)
    assert again == text
    assert explainer.explained == explainer.unknown == 0


def test_a_companion_by_itself_does_not_know_the_inputs(tmp_path: Path) -> None:
    archive.split(EXPORTED / "shop.pt2", tmp_path / "small.pt2", tmp_path / "shop.ptdbg")
    text, explainer = explained("second.size()[0] == 3", str(tmp_path / "shop.ptdbg"))
    assert not text
    assert explainer.ambiguous == 1
    assert "give the archive that this companion was split from" in explainer.notes[0]
    # Both are what helps: the archive, and what `split` left of it, also beside a store.
    run("store", "add", tmp_path / "shop.ptdbg", "--store", tmp_path / "store")
    log = refusal("second.size()[0] == 3").encode()
    for archives in (EXPORTED / "shop.pt2", tmp_path / "small.pt2"):
        for companions in ([tmp_path / "shop.ptdbg"], ["--store", tmp_path / "store"]):
            done = run("symbolicate", archives, *companions, stdin=log)
            assert done.stdout == log + b"Input of the program: second, int64 of shape (3,)\n"


def test_a_companion_of_a_store_is_ruled_out_with_its_archive(tmp_path: Path) -> None:
    for name in ("shop", "choice"):
        archive.split(EXPORTED / f"{name}.pt2", tmp_path / f"{name}.pt2", tmp_path / f"{name}.ptdbg")
    stored = ("--store", tmp_path / "store")
    run("store", "add", tmp_path / "shop.ptdbg", tmp_path / "choice.ptdbg", *stored)
    log = refusal("second.size()[0] == 3").encode()
    done = run("symbolicate", tmp_path / "shop.pt2", *stored, stdin=log)
    assert (done.returncode, done.stdout) == (1, log)  # it may be the other program's
    done = run("symbolicate", tmp_path / "shop.pt2", tmp_path / "choice.pt2", *stored, stdin=log)
    assert done.stdout == log + b"Input of the program: second, int64 of shape (3,)\n"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("other", ["exported/several.pt2", "executorch/shop.etrecord"])
def test_files_that_have_a_program_agree_in_whatever_words(other: str, order: int) -> None:
    """A file with several programs calls them by name."""
    log = refusal("second.size()[0] == 3").encode()
    alone = run("symbolicate", FIXTURES / other, stdin=log)
    assert alone.stdout.startswith(log + b"Input of program ")
    done = run("symbolicate", *[EXPORTED / "shop.pt2", FIXTURES / other][::order], stdin=log)
    assert done.stdout == log + b"Input of the program: second, int64 of shape (3,)\n"
    assert b"which agree" in done.stderr


def test_files_whose_inputs_differ_do_not_agree() -> None:
    log = refusal("ids.size()[0] == 3").encode()
    files = [EXPORTED / "choice.pt2", EXPORTED / "regions.pt2"]
    assert run("symbolicate", *files, stdin=log).stdout.startswith(log + b"Input of the program: ids")
    log = refusal("x.size()[0] == 3").encode()
    done = run("symbolicate", EXPORTED / "choice.pt2", EXPORTED / "odd.pt2", stdin=log)
    assert done.stdout == log
    assert b": ambiguous: fits " in done.stderr


def test_a_recorded_condition_is_the_programs_however_its_inputs_are_named() -> None:
    with archive.open(EXPORTED / "shop.pt2") as opened:
        inputs = opened.programs["model"].inputs
    assert inputs is not None
    condition = "first.size()[0] * 2 > second.size()[0]"
    assert guard_of(condition, inputs, ()).why
    for recorded in (
        "(L['first'].size()[0])*2 > L['second'].size()[0]",
        "L['flat_args'][0].size()[0]*2 > L['flat_args'][1].size()[0]",
    ):
        guard = guard_of(condition, inputs, [recorded])
        assert not guard.why
        assert [given.name for given in guard.inputs] == ["first", "second"]


CALLS = {
    "Ids.size()[1] == 2": ((4, 3), (4, 5), 3, 5, 8, 2),
    "Ids.size()[0] >= 3": ((2, 2), (2, 5), 3, 5, 4, 2),
    "Ids.size()[0] <= 64": ((65, 2), (65, 5), 3, 5, 130, 2),
    "pair['left'].size()[0] == Ids.size()[0]": ((4, 2), (5, 5), 3, 5, 8, 2),
    "pair['Right-x'][0].size()[0] == 3": ((4, 2), (4, 5), 4, 5, 8, 2),
    "rest_0.size()[0] <= 50": ((4, 2), (4, 5), 3, 51, 8, 2),
    "scale.size()[0] == 2": ((4, 2), (4, 5), 3, 5, 8, 3),
}
"""Sizes of a call's inputs, by the condition that refuses them."""


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_pytorchs_own_refusals_are_the_programs(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", exc_type=ImportError)

    class Model(torch.nn.Module):
        def forward(self, Ids: Any, pair: Any, *rest: Any, scale: Any = None) -> Any:  # noqa: ANN401, N803
            tensors = (Ids, pair["left"][:, :2], pair["Right-x"][0], *rest, scale)
            return sum(tensor.sum() for tensor in tensors)

    def given(sizes: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ids, left, right, *rest, scale = map(torch.ones, sizes)
        return (ids, {"left": left, "Right-x": [right]}, *rest), {"scale": scale}

    args, kwargs = given(((4, 2), (4, 5), 3, 5, 8, 2))
    batch, count = torch.export.Dim("batch", min=3, max=64), torch.export.Dim("count", max=50)
    sizes = {"Ids": {0: batch}, "pair": {"left": {0: batch}, "Right-x": [None]}, "scale": None}
    sizes["rest"] = ({0: count}, {0: 2 * batch})
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Model(), args, kwargs, dynamic_shapes=sizes), path)
    module = torch.export.load(path).module()
    with archive.open(path) as opened:
        program = opened.programs["model"]
    assert program.inputs is not None
    for condition, call in CALLS.items():
        args, kwargs = given(call)
        with pytest.raises(AssertionError, match=re.escape(f"Guard failed: {condition}")):
            module(*args, **kwargs)
        assert not guard_of(condition, program.inputs, program.guards).why, condition
    for other in ("Ids.size()[0] <= 32", "rest_0.size()[0] == Ids.size()[0]", "pair['left'].size()[1] == 4"):
        assert guard_of(other, program.inputs, program.guards).why


BELOW = " If you meant for this dimension to be dynamic, please re-export and specify dynamic_shapes (e.g.)"


@pytest.mark.parametrize(
    ("place", "size", "found"),
    [
        ("*args[1].shape[0]", "equal to 3", ["second"]),
        ("*args[0].shape[0]", "equal to 3", ["first", "second"]),
        ("second.shape[0]", "equal to 3", ["second"]),
        ("*args[1].shape[0]", "equal to 4", []),
        ("*args[1].shape[1]", "equal to 3", []),
        ("*args[1].shape[0]", ">= 3", []),
        ("*args[2].shape[0]", "equal to 3", []),
        ("third.shape[0]", "equal to 3", []),
        ("*args[1]", "equal to 3", []),
    ],
)
@pytest.mark.parametrize("below", ["", f".{BELOW}"])
def test_an_input_that_is_refused_at_its_place_is_that_of_the_program(
    place: str, size: str, found: list[str], below: str
) -> None:
    said = f"Expected input at {place} to be {size}, but got 5"
    log = f"Traceback (most recent call last):\nRuntimeError: {said}{below}\n"
    with archive.open(EXPORTED / "shop.pt2") as opened:
        assert opened.programs is not None
        (program,) = opened.programs.values()
        given = {one.name: one for one in program.inputs or ()}
        explainer = LogExplainer.of(opened)
        out = b"".join(explainer.explain([log.encode()])).decode()
        again = b"".join(archive.explain([out.encode()], EXPORTED / "shop.pt2")).decode()
    lines = [f"Input of the program: {given[name].text}\n" for name in found if given[name].sizes[0] == 3]
    assert out == again == log + "".join(lines)
    assert (explainer.explained, explainer.unknown) == (bool(lines), not lines)
    if lines:
        assert explainer.causes.top()[0].message == said
