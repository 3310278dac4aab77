"""What a caller sets from outside, and methods of ``torch.nn.Module``: as the eager module, or refused."""

from __future__ import annotations

import copy
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch.nn import functional

from archive.backend import BackendError, Effectful, effectful, lower, lowered_archive
from archive.backend.members import Members, ModuleMember
from archive.base.errors import ArchiveError
from archive.effects import GuardError, Plain, StateError
from archive.formats.effects.model import EffectTable
from tests.support.corpus import FIXTURES
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch
Value: TypeAlias = Any
X = torch.arange(6.0).reshape(2, 3) / 4


class Gain:
    """An object that is no module."""

    def __init__(self, factor: float) -> None:
        self.factor, self.unread = factor, 1

    def of(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Part(torch.nn.Module):
    """A part with a state of its own, and much that no call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("std", torch.full((3,), 2.0))
        self.gain, self.calls, self.act = 3.0, 0, functional.relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.act(self.linear(x) * self.gain / self.std) + self.calls


class Model(torch.nn.Module):
    """Places of all kinds: read and changed, read alone, never read."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("running", torch.zeros(3))
        self.register_buffer("scratch", torch.ones(3), persistent=False)
        self.register_buffer("nothing", None)
        self.scale, self.count, self.unread = 2.0, 0, 5
        self.last: Value = None
        self.act: Value = functional.relu
        self.config, self.same = {"a": 1.0, "b": torch.ones(3)}, [1.0, 2.0]
        self.also = self.same
        self.functions, self.named = [functional.relu], {"tanh": torch.tanh}
        self.gain, self.gains = Gain(2.0), [Gain(1.0), Gain(0.5)]
        self.part, self.layers = Part(), torch.nn.ModuleList([Part(), torch.nn.BatchNorm1d(3)])
        self.again = self.layers[0]
        self.drop = torch.nn.Dropout(0.0)
        self.head = torch.nn.Linear(3, 2)  # which no call reads
        self.tied = self.head.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.running.add_(x.sum(0))
        x = self.act((x - self.mean) * self.scale * self.weight) + self.frozen + self.running
        x = x + self.config["a"] * self.config["b"] + self.same[0] + self.also[1] + self.scratch
        if self.nothing is None:
            x = self.functions[0](x) + self.named["tanh"](x)
        x = self.gain.of(x) + self.gains[0].of(x)
        for layer in self.layers:
            x = layer(x)
        self.last = self.drop(self.again(self.part(x)))
        return self.last * self.count


def model() -> Model:
    torch.manual_seed(3)
    return Model()


@pytest.fixture(scope="module")
def data() -> bytes:
    return bytes(lowered_archive(lower(model(), "aten", effects=True, example_inputs=(X,))))


VALUES = {
    "a number": lambda: 7,
    "another": lambda: 0.25,
    "a tensor": lambda: torch.full((3,), 0.5),
    "code": lambda: torch.sigmoid,
    "a list": lambda: [0.5, 0.5],
    "a module": torch.nn.Identity,
    "nothing": lambda: None,
}


def every_place() -> list[str]:
    """The attributes of all objects in the model, some items, and names that nothing has."""
    found = ["typo", "part.typo", "gain.typo", "layers.typo"]
    for path, module in model().named_modules():
        below = f"{path}." if path else ""
        held = [*module._parameters, *module._buffers, *module._modules]
        names = [name for name in vars(module) if name[0] != "_" and name != "call_super_init"]
        found += [below + name for name in (*held, *names)]
    return [*found, "gain.factor", "gain.unread"]


ITEMS = ("config['a']", "config['b']", "same[0]", "also[1]", "functions[0]", "named['tanh']", "gains[0]")
HELD_BY_NUMBER = ("layers[0]", "layers[1]")


def outcome(loaded: Effectful, change: Callable[[Value], None]) -> str:
    """Two calls after the same change from outside in a loaded and an eager module."""
    try:
        change(loaded.state.module)
    except (StateError, AttributeError, LookupError, TypeError):
        return "refused at once"
    try:
        found = [loaded(X), loaded(X)]
    except (StateError, GuardError, BackendError):
        return "refused"
    eager = model()
    change(eager)
    return "equal" if all(torch.allclose(one, eager(X)) for one in found) else "wrong"


KNOWN = {
    ("count", "a number"): "equal",
    ("running", "a tensor"): "equal",
    ("scale", "a number"): "refused",  # a guard of the call
    ("mean", "a tensor"): "refused at once",
    ("typo", "a tensor"): "refused at once",
    ("part.std", "a tensor"): "refused at once",
}


def test_what_is_set_from_outside_counts_as_in_the_eager_module_or_is_refused(data: bytes) -> None:
    loaded = Effectful.load(data)
    for place, kind in [*KNOWN, *crossed(every_place(), VALUES, most=60)]:
        above, _, name = place.rpartition(".")

        def change(root: Value, above: str = above, name: str = name, made: Value = VALUES[kind]) -> None:
            setattr(attrgetter(above)(root) if above else root, name, made())

        found = outcome(loaded, change)
        assert found == KNOWN.get((place, kind), found) != "wrong", (place, kind)
        if found != "refused at once":
            loaded = Effectful.load(data)


OTHERS = {
    "a number": 0.5,
    "a tensor": torch.full((3,), 0.5),
    "code": torch.sigmoid,
    "an object": Gain(9.0),
    "a module": torch.nn.Identity(),
}


@pytest.mark.parametrize(("item", "other"), crossed([*ITEMS, *HELD_BY_NUMBER], OTHERS, most=18))
def test_items_that_are_set_count_or_are_refused(data: bytes, item: str, other: str) -> None:
    def make(root: Value) -> None:
        exec(f"root.{item} = other", {"root": root, "other": copy.deepcopy(OTHERS[other])})  # noqa: S102

    assert outcome(Effectful.load(data), make) != "wrong"


@pytest.mark.parametrize("place", ["count", "mean", "act", "part", "part.std", "part.gain", "unread", "typo"])
def test_what_is_deleted_is_missed_or_stays(data: bytes, place: str) -> None:
    above, _, name = place.rpartition(".")

    def change(root: Value) -> None:
        delattr(attrgetter(above)(root) if above else root, name)

    assert outcome(Effectful.load(data), change).startswith("refused")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("mean", "self.mean: the lowered graph holds it fixed; change it in the model, and lower that again"),
        ("gain", "self.gain: the lowered graph holds it fixed"),
        ("act", "self.act: the lowered graph holds it fixed"),
        ("part.std", "self.part.std: the lowered graph holds it fixed"),
        ("part.linear.weight", "self.part.linear.weight: the lowered graph holds it fixed"),
        ("typo", "self.typo: the model that was lowered has no such attribute"),
        ("part.typo", "self.part.typo: the model that was lowered has no such attribute"),
        ("gain.unread", "self.gain.unread: no captured call reads it, so that this would change nothing"),
    ],
)
def test_a_refusal_says_why_and_the_way_out(data: bytes, place: str, says: str) -> None:
    above, _, name = place.rpartition(".")
    root = Effectful.load(data).state.module
    holder = attrgetter(above)(root) if above else root
    for change, arguments in ((setattr, (1,)), (delattr, ())):
        with pytest.raises(StateError) as caught:
            change(holder, name, *arguments)
        assert str(caught.value).startswith(says)


def test_the_page_shows_what_is_said() -> None:
    page = (FIXTURES.parent / "docs" / "explanation" / "effects.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    names = {"loaded": Effectful.load(FIXTURES / "effects" / "counting.pt"), "torch": torch}
    said = []
    for line in shown.splitlines():
        if not line.startswith("#"):
            said.append(line)
            try:
                exec(line, names)  # noqa: S102 (as a reader runs it)
            except StateError as error:
                said.append(f"# StateError: {error}")
    assert said == shown.splitlines()


def test_what_the_graph_holds_is_visible(data: bytes) -> None:
    root, eager = Effectful.load(data).state.module, model()
    for path, tensor in [*eager.named_parameters(), *eager.named_buffers()]:
        assert torch.equal(attrgetter(path)(root), tensor), path
    assert torch.equal(root.layers[0].linear.weight, eager.layers[0].linear.weight)
    assert not hasattr(root, "act")
    with pytest.raises(AttributeError, match=r"self\.act: the lowered graph holds it fixed"):
        _ = root.act
    with pytest.raises(AttributeError, match="no attribute 'typo'"):
        _ = root.typo


# --- methods of torch.nn.Module ---------------------------------------------------------------------------


def test_names_order_and_values_are_those_of_the_eager_module(data: bytes) -> None:
    loaded, eager = Effectful.load(data), model()
    for _ in range(2):
        assert [one for one, _ in loaded.named_parameters()] == [one for one, _ in eager.named_parameters()]
        assert len(list(loaded.parameters())) == len(list(eager.parameters()))
        found, expected = loaded.state_dict(), eager.state_dict()
        assert list(found) == list(expected)
        assert all(torch.allclose(found[name], expected[name]) for name in expected)
        assert vars(found)["_metadata"] == vars(expected)["_metadata"]
        loaded(X), eager(X)
    model().load_state_dict(loaded.state_dict())


@pytest.mark.parametrize("stock", [False, True])
def test_weights_that_are_loaded_or_trained_are_those_of_calls(data: bytes, *, stock: bool) -> None:
    loaded, eager = Effectful.load(data, stock=stock), model()
    other = model()
    with torch.no_grad():
        for one in (*other.parameters(), other.mean, other.running, other.part.std):
            one.add_(0.25)
    assert loaded.load_state_dict(other.state_dict()) == eager.load_state_dict(other.state_dict())
    for one in (loaded, eager):
        optimizer = torch.optim.SGD(one.parameters(), 0.01)
        for _ in range(2):
            optimizer.zero_grad()
            one(X).square().mean().backward()
            optimizer.step()
    assert torch.allclose(loaded(X), eager(X), rtol=1e-4)
    found, expected = loaded.state_dict(), eager.state_dict()
    assert all(torch.allclose(found[name], expected[name], rtol=1e-4) for name in expected)


def test_a_state_dict_of_another_module_is_refused_whole(data: bytes) -> None:
    loaded, given = Effectful.load(data), model().state_dict()
    before = copy.deepcopy(loaded.state_dict())
    given["mean"] = torch.ones(4)
    given["other"] = torch.ones(1)
    del given["weight"]
    with pytest.raises(RuntimeError, match=r"missing: weight; unexpected: other; mean: expected \(3,\)"):
        loaded.load_state_dict(given)
    assert all(torch.equal(before[name], one) for name, one in loaded.state_dict().items())
    given["mean"] = torch.ones(3)
    assert loaded.load_state_dict(given, strict=False) == (["weight"], ["other"])
    assert torch.equal(loaded.state.module.mean, torch.ones(3))


def test_buffers_that_calls_register_are_in_the_state_dict() -> None:
    class Caching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not hasattr(self, "kept"):
                self.register_buffer("kept", x * 2)
                self.register_buffer("passing", x * 3, persistent=False)
            return x + self.kept + self.passing

    loaded = Effectful.of(lower(Caching(), "aten", effects=True, example_inputs=(X,)))
    eager = Caching()
    for _ in range(2):
        assert list(loaded.state_dict()) == list(eager.state_dict())
        assert torch.equal(loaded(X), eager(X))


def test_modes_are_set_or_refused_where_no_call_was_captured_in_them(data: bytes) -> None:
    loaded, eager = Effectful.load(data), model()
    assert loaded.train() is loaded
    with pytest.raises(StateError, match=r"no captured call is for training=False: .*model\.eval\(\)"):
        loaded.eval()
    assert torch.allclose(loaded(X), eager(X))

    still = torch.nn.Sequential(torch.nn.Linear(3, 3))  # which never asks for its mode
    loaded = Effectful.of(lower(still, "aten", effects=True, example_inputs=(X,)))
    assert loaded.state.module[0].training is True
    assert torch.equal(loaded.eval()(X), still.eval()(X))
    assert loaded.state.module.training is False


def test_to_is_for_what_is_there(data: bytes) -> None:
    loaded = Effectful.load(data)
    assert loaded.to("cpu").to(torch.float32).to(X) is loaded
    for other in (torch.float64, "meta"):
        with pytest.raises(StateError, match=r"the lowered graph is for torch\.float32 on cpu"):
            loaded.to(other)


class Odd(torch.nn.Linear):
    """A module that does everything in ways of its own."""

    def train(self, mode: bool = True) -> Odd:  # noqa: FBT001, FBT002
        super().train(not mode)
        return self

    def named_parameters(self, *_: Value, **__: Value) -> Value:
        return iter(())

    def _save_to_state_dict(self, *_: Value) -> None:
        """Save nothing."""

    def _load_from_state_dict(self, *_: Value) -> None:
        """Load nothing."""

    def _apply(self, *_: Value, **__: Value) -> Odd:
        return self


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("train", ()),
        ("eval", ()),
        ("parameters", ()),
        ("named_parameters", ()),
        ("state_dict", ()),
        ("load_state_dict", ({},)),
        ("to", ("cpu",)),
    ],
)
def test_a_method_of_the_models_own_is_refused(method: str, arguments: tuple[Value, ...]) -> None:
    model = torch.nn.Sequential(Odd(3, 3))
    loaded = Effectful.of(lower(model, "aten", effects=True, example_inputs=(X,)))
    with pytest.raises(StateError, match=r"the class of self\.0 does it in its own way"):
        list(getattr(loaded, method)(*arguments))


def test_an_archive_without_members_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effectful, "EFFECTS_MEMBERS", "__none")
    loaded = Effectful.load(FIXTURES / "effects" / "reporting.pt")
    with pytest.raises(StateError, match="the archive does not list the members of its module"):
        loaded.state_dict()
    with pytest.raises(StateError, match="no captured call reads it"):
        loaded.state.module.typo = 1


# --- rows of an archive -----------------------------------------------------------------------------------

ROOT = ModuleMember("", "module", "", 1)


def members(*rows: ModuleMember, table: EffectTable | None = None) -> Members:
    table = EffectTable((), ()) if table is None else table
    return Members(Plain(), [ROOT, *rows], [torch.ones(2)], lambda _: None, table, file="model.pt")


@pytest.mark.parametrize(
    "row",
    [
        ModuleMember("a.b", "parameter", "", 0),
        ModuleMember("a", "parameter", "", 1),
        ModuleMember("a", "same", "b", 0),
        ModuleMember("a", "function", "", 0),
    ],
    ids=attrgetter("kind", "detail"),
)
def test_rows_that_contradict_each_other_are_refused(row: ModuleMember) -> None:
    with pytest.raises(ArchiveError, match=r"model\.pt: .*members of a module that contradict each other"):
        members(row)


def test_a_module_in_itself_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.backend.members.MOST_MODULES", 100)
    with pytest.raises(StateError, match="more than 100 modules, or some that are in themselves"):
        list(members(ModuleMember("a", "same", "", 0)).tensors())


def test_what_a_backend_keeps_in_a_form_of_its_own_is_no_parameter() -> None:
    assert [name for name, _ in members(ModuleMember("a", "parameter", "", 0)).parameters()] == ["a"]
    with pytest.raises(StateError, match=r"self\.a is not kept as a dense tensor"):
        list(members(ModuleMember("a", "parameter", "read", 0)).parameters())
