"""Tensors that are few bytes and say that they are many, and files far from what they are compared with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.attacks.attack import MIB, Attack
from tests.attacks.pieces import again, bytecode, doubled, kept, method, number, pickled, several, text
from tests.attacks.programs import MODEL, archive_with, records
from tests.attacks.zips import LITE, archive_of, entry, zipped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    View = tuple[int, tuple[int, ...], tuple[int, ...]]

STORAGE = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
HOOKS = b"ccollections\nOrderedDict\n)R"
COMMANDS = ("digest m.pt", "diff m.pt n.pt", "diff n.pt m.pt --json")
PROGRAMS = ("digest m.pt2", "diff m.pt2 n.pt2", "diff n.pt2 m.pt2 --json")
HUGE = (1 << 63) - 1
WORDS = b"    x = y\n    y = x\n"


def _state_dict(views: Sequence[View], storage: bytes) -> bytes:
    """A file of torch.save whose tensors are views of one storage: offset, shape, strides."""
    first = (
        kept(b"ctorch._utils\n_rebuild_tensor_v2\n", 0),
        kept(STORAGE + number(len(storage) // 4) + b"tQ", 1),
        kept(HOOKS, 2),
    )
    rows = []
    for name, (offset, shape, strides) in enumerate(views):
        call, stored, hooks = first if not name else (again(0), again(1), again(2))
        sizes = several(*map(number, shape)), several(*map(number, strides))
        rows.append(text(f"{name}") + call + several(stored, number(offset), *sizes, b"\x89", hooks) + b"R")
    held = {"data.pkl": pickled(b"}(", *rows, b"u"), "data/0": storage, "version": b"3\n"}
    return zipped(*(entry(f"m/{name}", data) for name, data in held.items()))


def _two(views: Sequence[View], size: int) -> Callable[[], dict[str, bytes]]:
    """The same tensors over zeros and over ones."""
    return lambda: {"m.pt": _state_dict(views, bytes(size)), "n.pt": _state_dict(views, b"\1" * size)}


def _two_codes(body: bytes) -> Callable[[], dict[str, bytes]]:
    """A model and another one, with other variables in long code."""

    def made() -> dict[str, bytes]:
        head = LITE["code/__torch__.py"].replace(b"    return None\n", b"")
        codes = [head + body + end for end in (b"    return x\n", b"    return y\n")]
        return {
            f"{name}.pt": archive_of({**LITE, "code/__torch__.py": code})
            for name, code in zip("mn", codes, strict=True)
        }

    return made


def _two_methods() -> dict[str, bytes]:
    """Bytecode with a constant of 2^24 items that share their parts."""
    names = {"m": "__torch__.M.forward", "n": "__torch__.M.backward"}
    made = {key: bytecode(method(text(name), constants=several(doubled(24)))) for key, name in names.items()}
    return {f"{key}.pt": archive_of({**LITE, "bytecode.pkl": record}) for key, record in made.items()}


def _two_programs(names: Sequence[Sequence[str]]) -> Callable[[], dict[str, bytes]]:
    """Two programs of nodes of one operator, in which each takes the value of the one before."""

    def made() -> dict[str, bytes]:
        tree = json.loads(records()[MODEL])
        return {f"{key}.pt2": _program(tree, listed) for key, listed in zip("mn", names, strict=True)}

    return made


def _program(tree: dict[str, Any], names: Sequence[str]) -> bytes:
    graph = tree["graph_module"]["graph"]
    value = graph["inputs"][0]
    nodes: list[dict[str, Any]] = []
    for name in names:
        made = {"as_tensor": {"name": name}}
        taken = [{"name": "self", "arg": value, "kind": 1}]
        nodes.append({
            "target": "torch.ops.aten.relu.default", "inputs": taken, "outputs": [made], "metadata": {},
            "is_hop_single_tensor_return": None, "name": name,
        })  # fmt: skip
        value = made
    module = {**tree["graph_module"], "graph": {**graph, "nodes": nodes, "outputs": [value]}}
    return archive_with({MODEL: json.dumps({**tree, "graph_module": module}).encode()})["m.pt2"]


MANY = 4_000
SHIFTED = [[f"relu_{at}" for at in range(MANY + more)] for more in (0, 1)]
TURNED = [SHIFTED[0], SHIFTED[0][::-1]]
ATTACKS = {
    "views of one storage": Attack(
        "4,000 tensors of nearly all of one storage of 1 MB, each from another place on.",
        _two([(at, (1 << 17,), (1,)) for at in range(4_000)], MIB),
        COMMANDS,
        loops=2_000,
    ),
    "names of one storage": Attack(
        "8,000 names of one tensor of 1 MB.",
        _two([(0, (1 << 18,), (1,))] * 8_000, MIB),
        COMMANDS,
        loops=2_000,
    ),
    "strides of 0": Attack(
        "A tensor of 2^60 elements in four bytes, and 100 of 2^23.",
        _two([(0, (1 << 60,), (0,)), *[(0, (1 << 23, at + 1), (0, 0)) for at in range(100)]], 4),
        COMMANDS,
    ),
    "strides that overlap": Attack(
        "200 tensors of 2^20 elements in 4 KB, whose strides overlap.",
        _two([(0, (32,) * 4, (1, 2, 3 + at % 5, 1)) for at in range(200)], 4096),
        COMMANDS,
    ),
    "shapes that are none": Attack(
        "Sizes, strides and places of 2^63 and below 0.",
        _two([(0, (HUGE, HUGE), (HUGE, HUGE)), (HUGE, (1,), (1,)), (-1, (-1,), (-1,)), (0, (1,), ())], 4),
        COMMANDS,
    ),
    "256 dimensions of 2^63 - 1": Attack(
        "A tensor of so many elements that their number has 4,855 digits.",
        _two([(0, (HUGE,) * 256, (1,) * 256)], 4),
        (*COMMANDS, "inspect m.pt", "inspect m.pt --json"),
    ),
    "2,000 dimensions": Attack(
        "A tensor of 2,000 dimensions.", _two([(0, (1,) * 2_000, (1,) * 2_000)], 4), COMMANDS
    ),
    "variables": Attack(
        "4 MB of code with two variables, one of which is returned.", _two_codes(WORDS * 200_000), COMMANDS
    ),
    "quotes": Attack(
        "Code of 2 MB of quotes that are escaped.",
        _two_codes(b"    x = " + b'"\\' * MIB + b"\n"),
        (*COMMANDS, "verify m.pt"),
    ),
    "names in a row": Attack(
        "Code of a line of 2 MB that names variables.",
        _two_codes(b"    " + b"a, " * 700_000 + b"= x\n"),
        COMMANDS,
    ),
    "constants that double": Attack(
        "A constant of 2^24 items that share their parts, in bytecode.", _two_methods, COMMANDS
    ),
    "nodes of one operator": Attack(
        f"{MANY:,} nodes of one operator, each of the one before; in the other program one more, first.",
        _two_programs(SHIFTED),
        PROGRAMS,
    ),
    "nodes of other names": Attack(
        "The same, with the names the other way round.", _two_programs(TURNED), PROGRAMS
    ),
    "nodes that are gone": Attack(
        "The same, with no node in the other program.", _two_programs([SHIFTED[0], []]), PROGRAMS
    ),
}
