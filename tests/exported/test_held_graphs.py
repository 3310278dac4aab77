"""Failures in the branches of ``cond``: none is explained by a node outside that has the same statement."""

from __future__ import annotations

import io
import traceback
from typing import TYPE_CHECKING, Literal

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive
from archive.failures.explainer import LogExplainer
from archive.failures.held_graphs import Caller, GraphCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch

WAYS = {
    "module": lambda program: program.module(),
    "interpreter": lambda program: torch.fx.Interpreter(program.module()).run,
    "unflatten": torch.export.unflatten,
}
"""What runs a program; the last two show no frame of its own graph."""
SIGNS = {"true": 1, "false": -1}
"""The sign of the scores with which a branch runs."""
STYLES: tuple[Literal["short", "long"], ...] = ("short", "long")
"""pytest's own, for a frame."""


class Shift(torch.nn.Module):
    """A ``cond`` whose branches, and what follows, call an operator with values of the same names."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(4, 3)

    def forward(self, scores: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
        def rises(scores: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
            up = torch.index_select(scores, 0, picked)
            return up.exp() + self.table.weight[0]

        def falls(scores: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
            low = torch.index_select(scores, 0, picked)
            return low * 2 + self.table.weight[1]

        chosen = torch.cond(scores.sum() > 0, rises, falls, (scores, picked))
        return chosen + torch.index_select(scores, 0, picked)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = Shift()

    def forward(self, scores: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
        return self.shift(scores, picked) + torch.index_select(scores, 0, picked)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("net")
    path = {name: folder / name for name in ("net.pt2", "small.pt2", "net.ptdbg")}
    net = Net().eval()
    program = torch.export.export(net, (torch.ones(4, 3), torch.arange(4)), strict=False)
    torch.export.save(program, path["net.pt2"])
    archive.split(path["net.pt2"], path["small.pt2"], path["net.ptdbg"])
    return path


@pytest.fixture(scope="module", params=["net.pt2", "small.pt2"])
def logs(request: pytest.FixtureRequest, files: dict[str, Path]) -> dict[tuple[str, str], bytes]:
    """What PyTorch prints, by what ran the program, the untouched or the small one, and the branch."""
    found = {}
    for way, made in WAYS.items():
        program = torch.export.load(io.BytesIO(files[request.param].read_bytes()))
        run: Callable[..., object] = made(program)
        for branch, sign in SIGNS.items():
            try:
                run(sign * torch.ones(4, 3), torch.tensor([0, 9, 1, 2]))
            except IndexError:
                found[way, branch] = traceback.format_exc().encode()
    return found


@pytest.fixture(scope="module")
def reports(files: dict[str, Path]) -> dict[tuple[str, str, str], bytes]:
    """What pytest prints, by what ran the program, the branch, and the style."""
    found: dict[tuple[str, str, str], bytes] = {}
    for way, made in WAYS.items():
        run: Callable[..., object] = made(torch.export.load(io.BytesIO(files["net.pt2"].read_bytes())))
        for branch, sign in SIGNS.items():
            with pytest.raises(IndexError) as raised:
                run(sign * torch.ones(4, 3), torch.tensor([0, 9, 1, 2]))
            for style in STYLES:
                found[way, branch, style] = f"___ test ___\n{raised.getrepr(style=style)}\n".encode()
    return found


def explained(log: bytes, file: Path) -> tuple[bytes, LogExplainer]:
    with archive.open(file) as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([log])), explainer


def added(log: bytes, file: Path) -> bytes:
    """The source that a log gets."""
    out, _ = explained(log, file)
    assert out.count(b"Module hierarchy:") == 1
    return out.partition(b"Module hierarchy:")[2].partition(b"IndexError")[0]


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("file", ["net.pt2", "net.ptdbg"])
def test_a_frame_is_explained_by_the_node_whose_line_it_is(
    file: str, logs: dict[tuple[str, str], bytes], files: dict[str, Path]
) -> None:
    assert len(logs) == len(WAYS) * len(SIGNS)
    for (way, branch), log in logs.items():
        source = added(log, files[file])
        assert f"<cond.{branch}_graph_0>.aten.index_select.default".encode() in source, (way, branch)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("file", ["net.pt2", "net.ptdbg"])
def test_what_pytest_prints_of_it_is_explained_so(
    file: str, reports: dict[tuple[str, str, str], bytes], files: dict[str, Path]
) -> None:
    for (way, branch, style), log in reports.items():
        out, explainer = explained(log, files[file])
        assert explainer.explained + explainer.unknown == 1, (way, branch, style)
        assert explainer.explained, (way, branch, style, explainer.notes)
        for hidden in (b"_higher_order_ops", b"While executing", b"___ test ___", b"in call_function"):
            left = b"".join(line for line in log.splitlines(keepends=True) if hidden not in line)
            out += explained(left, files[file])[0]
        wrong = out.count(b"Module hierarchy:") - out.count(f"<cond.{branch}_graph_0>.aten.".encode())
        assert wrong == 0, (way, branch, style)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("hidden", ["operator", "message", "all above", "branch"])
@pytest.mark.parametrize("file", ["net.pt2", "net.ptdbg"])
def test_what_a_log_does_not_show_is_not_guessed(
    hidden: str, file: str, logs: dict[tuple[str, str], bytes], files: dict[str, Path]
) -> None:
    """Whatever part of a log is lost, no node outside of the branch explains the failure."""
    for (way, branch), log in logs.items():
        frame = log.rindex(b'  File "<eval_with_key>')
        above, below = log[:frame], log[frame:]
        if hidden == "operator":
            above = b"".join(
                line for line in above.splitlines(keepends=True) if b"_higher_order_ops" not in line
            )
        elif hidden == "message":
            below = below.partition(b"\n\nWhile executing")[0] + b"\n"
        elif hidden == "all above":
            above = above[above.index(b'  File "<eval') :] if b'  File "<eval' in above else b""
        else:
            above = above.replace(b"_fn(*operands)", b"_function(*operands)")
        out, _ = explained(above + below, files[file])
        wrong = out.count(b"Module hierarchy:") - out.count(f"<cond.{branch}_graph_0>.aten.".encode())
        assert wrong == 0, (way, branch)


def test_a_message_further_down_is_of_another_failure(
    logs: dict[tuple[str, str], bytes], files: dict[str, Path]
) -> None:
    """A traceback that shows all its frames has no other one's holder."""
    message = logs["unflatten", "false"].partition(b"IndexError")[2]
    log = logs["module", "true"] + b"ERROR the same again, without a traceback" + message
    assert b"<cond.true_graph_0>" in explained(log, files["net.pt2"])[0]


@pytest.mark.parametrize(
    ("lines", "call"),
    [
        ([], GraphCall()),
        (["fx/interpreter.py", "call_module"], GraphCall(Caller.MODULE)),
        (["fx/interpreter.py", "call_function"], GraphCall(Caller.INTERPRETER)),
        (["_higher_order_ops/while_loop.py", "while_loop_dense"], GraphCall(Caller.OPERATOR)),
        (["_higher_order_ops/cond.py", "true_fn"], GraphCall(Caller.OPERATOR, "true")),
    ],
)
def test_a_call_is_known_by_its_frames(lines: list[str], call: GraphCall) -> None:
    made = GraphCall()
    if lines:
        file, function = lines
        made = made.then(f'  File "/opt/torch/{file}", line 7, in {function}'.encode())
        made = made.then(f"    return {function}(*operands)".encode())
    assert made == call
    assert made.may_call("true_graph_0")
    assert made.may_call("false_graph_0") == (not made.branch)
