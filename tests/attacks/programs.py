"""Exported programs that ask for much, refer to nothing or lie."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.attacks.attack import MIB, Attack
from tests.attacks.zips import entry, zipped
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Callable

    Tree = dict[str, Any]

COMMANDS = (
    "inspect m.pt2",
    "verify m.pt2",
    "sizes m.pt2",
    "leaks m.pt2",
    "symbolicate m.pt2 relu",
    "split m.pt2 -o s.pt2 -c s.ptdbg",
    "shrink m.pt2 -o c.pt2",
)
MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
LONG = 400_000


@cache
def records() -> dict[str, bytes]:
    """The records of a small program."""
    with zipfile.ZipFile(EXPORTED / "shop.pt2") as source:
        return {name.partition("/")[2]: source.read(name) for name in source.namelist()}


def archive_with(changed: dict[str, bytes], *, deflate: bool = True) -> dict[str, bytes]:
    """The program with other records, deflated."""
    kept = {name: data for name, data in records().items() if name != ".data/serialization_id"}
    entries = [
        entry(f"m/{name}", data, deflate=deflate and name in changed)
        for name, data in (kept | changed).items()
    ]
    return {"m.pt2": zipped(*entries)}


def _with(change: Callable[[Tree], object], record: str = MODEL) -> Callable[[], dict[str, bytes]]:
    """The program with a changed record, stored."""

    def made() -> dict[str, bytes]:
        tree = json.loads(records()[record])
        change(tree)
        return archive_with({record: json.dumps(tree).encode()}, deflate=False)

    return made


def _text(text: str) -> dict[str, bytes]:
    """The program with a text in the place of its JSON, deflated."""
    return archive_with({MODEL: text.encode()})


def _graph(tree: Tree) -> Tree:
    graph: Tree = tree["graph_module"]["graph"]
    return graph


def _lost(tree: Tree) -> None:
    """Nodes that take values that are not there."""
    node = _graph(tree)["nodes"][5]
    names = ({"arg": {"as_tensor": {"name": f"x{number}"}}, "name": "a"} for number in range(20_000))
    node["inputs"] = list(names)


def _long_names(tree: Tree) -> None:
    """A value with a long name and many sizes, each of which is wrong."""
    graph = _graph(tree)
    graph["tensor_values"]["n" * LONG] = {
        **graph["tensor_values"]["relu"],
        "sizes": [{"as_int": -1}] * 20_000,
    }
    graph["inputs"].append({"as_tensor": {"name": "n" * LONG}})


def _nested(tree: Tree) -> None:
    """Graphs in graphs, more than are followed."""
    graph = _graph(tree)
    for _ in range(100):
        held = {"as_graph": {"name": "g", "graph": graph}}
        node = {**graph["nodes"][0], "inputs": [{"name": "", "arg": held}]}
        graph = {**graph, "nodes": [node]}
    tree["graph_module"]["graph"] = graph


def _dictionaries(tree: Tree) -> None:
    """Dictionaries of arguments in one another, deeper than values are followed."""
    argument: Tree = {"as_int": 1}
    for _ in range(300):
        argument = {"as_string_to_argument": {"a": argument}}
    _graph(tree)["nodes"][0]["inputs"][0]["arg"] = argument


def _changes(tree: Tree) -> None:
    """Outputs that change inputs, many of both."""
    signature = tree["graph_module"]["signature"]
    spec = {"buffer": {"arg": {"name": "b"}, "buffer_name": "b", "persistent": False}}
    signature["input_specs"] += [spec] * 5_000
    change = {"buffer_mutation": {"arg": {"name": "mean"}, "buffer_name": "none"}}
    signature["output_specs"] = [change] * 5_000
    _graph(tree)["outputs"] = [{"as_tensor": {"name": "mean"}}] * 5_000


def _origins(tree: Tree) -> None:
    """Origins in one another."""
    _graph(tree)["nodes"][0]["metadata"]["from_node"] = '[{"from_node": ' * 5_000 + "[]" + "}]" * 5_000


def _sizes(config: Tree) -> None:
    """A weight without bytes, of as many dimensions as fit, each as large as can be."""
    meta = config["config"]["scale"]["tensor_meta"]
    meta["sizes"] = meta["strides"] = [{"as_int": (1 << 63) - 1}] * 50_000
    config["config"]["empty"] = {**config["config"]["scale"], "path_name": "empty"}


def _weights() -> dict[str, bytes]:
    config = json.loads(records()[WEIGHTS])
    _sizes(config)
    return archive_with({WEIGHTS: json.dumps(config).encode(), "data/weights/empty": b""}, deflate=False)


def _many_programs() -> dict[str, bytes]:
    """4,000 programs without anything that belongs to one."""
    return archive_with({f"models/{number}.json": b"{}" for number in range(4_000)}, deflate=False)


def _inputs() -> dict[str, bytes]:
    """Sample inputs that are a zip, whose pickle inflates to 64 MB of opcodes."""
    inner = zipped(entry("m/data.pkl", b"\x80\x02" + b")" * (64 * MIB) + b".", deflate=True))
    return archive_with({"data/sample_inputs/model.pt": inner})


ATTACKS = {
    "JSON too deep": Attack("500,000 lists, each inside the next.", lambda: _text("[" * 500_000), COMMANDS),
    "JSON of blanks": Attack(
        "200 MB of blanks, deflated to 200 KB.", lambda: _text(" " * (200 * MIB)), COMMANDS
    ),
    "JSON of lists": Attack(
        "40 MB of empty lists, deflated.", lambda: _text(f"[{'[],' * (13 * MIB)}[]]"), COMMANDS
    ),
    "JSON of keys": Attack(
        "A million objects of one key each, deflated.", lambda: _text("[" + '{"a":1},' * MIB + "1]"), COMMANDS
    ),
    "JSON of long numbers": Attack(
        "800 numbers of 4,300 digits.", lambda: _text("[" + f"{'9' * 4_300}," * 800 + "1]"), COMMANDS
    ),
    "JSON of a number too long": Attack("A million digits.", lambda: _text("9" * 1_000_000), COMMANDS),
    "program of lost values": Attack(
        "20,000 arguments name values that are not there.", _with(_lost), COMMANDS
    ),
    "program of long names": Attack(
        "A value with a name of 400,000 characters has 20,000 sizes, all wrong.", _with(_long_names), COMMANDS
    ),
    "program of graphs in graphs": Attack("100 graphs, each inside the next.", _with(_nested), COMMANDS),
    "program of dictionaries": Attack(
        "300 dictionaries of arguments in one another.", _with(_dictionaries), COMMANDS
    ),
    "program of changes": Attack(
        "5,000 outputs change inputs, of which there are as many.", _with(_changes), COMMANDS
    ),
    "program of origins": Attack("5,000 origins in one another.", _with(_origins), COMMANDS),
    "weights of many dimensions": Attack(
        "50,000 dimensions of 2^63 - 1 elements each, in no bytes.", _weights, COMMANDS
    ),
    "archive of many programs": Attack("4,000 programs that aren't programs.", _many_programs, COMMANDS[:2]),
    "sample inputs that inflate": Attack("64 MB of opcodes in 64 KB of a zip in the zip.", _inputs, COMMANDS),
}
