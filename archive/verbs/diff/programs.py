"""The graphs of exported programs, compared node by node, and all else that their JSON says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import counted, shown
from archive.formats.exported.json_text import read_json
from archive.formats.exported.traces import OWN_FILES
from archive.verbs.diff.changes import Change, Level, Status
from archive.verbs.diff.values import Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.exported.program import NodeSite, Program
    from archive.reader.archive import Archive

LEFT_OUT = ("metadata", "nodes")
"""Keys of nodes that are compared on their own: where a node comes from, and the nodes of graphs inside."""
RELEASE = ("torch_version", "schema_version")


def program_changes(old: Archive, new: Archive) -> Iterator[Change]:
    """What differs in the exported programs of two archives."""
    was, now = old.programs, new.programs
    for name in was:
        if name in set(now):
            yield from _nodes(name, was[name], now[name])
            yield from _rest(name, old, new)
        else:
            yield _lone(name, was[name], Status.GONE)
    for name in now:
        if name not in set(was):
            yield _lone(name, now[name], Status.ADDED)


def _lone(name: str, program: Program, status: Status) -> Change:
    words = counted(len(program.sites), "node")
    old, new = (words, "") if status is Status.GONE else ("", words)
    return Change(level=Level.MODEL, what="program", name=name, status=status, old=old, new=new)


def _nodes(name: str, old: Program, new: Program) -> Iterator[Change]:
    was, now = old.sites, new.sites
    traced = []
    for key, site in was.items():
        if key not in now:
            yield _node(name, key, Status.GONE, _told(site), "")
            continue
        if site.target != now[key].target or _bare(site.record) != _bare(now[key].record):
            yield _node(name, key, Status.CHANGED, _told(site), _told(now[key]))
        if dict(site.metadata) != dict(now[key].metadata):
            traced.append(key)
    for key, site in now.items():
        if key not in was:
            yield _node(name, key, Status.ADDED, "", _told(site))
    if traced:
        first = traced[0]
        yield Change(
            level=Level.DEBUG, what="metadata", name=f"{counted(len(traced), 'node')} of {name}",
            status=Status.CHANGED, old="one", new=f"another, first of {first}{_place(now[first])}",
        )  # fmt: skip


def _node(program: str, key: str, status: Status, old: str, new: str) -> Change:
    name = key if program == "model" else f"{program}:{key}"
    return Change(level=Level.MODEL, what="node", name=name, status=status, old=old, new=new)


def _told(site: NodeSite) -> str:
    """A node's call, and the line of source that it comes from."""
    record = site.record or {}
    given = [_argument(one) for one in record.get("inputs", ())] or list(site.arguments or ())
    return f"{site.target.removeprefix('torch.ops.')}({', '.join(given)}){_place(site)}"


def _argument(given: Any) -> str:  # noqa: ANN401 (JSON)
    """An argument in a few words: the names and numbers in it."""
    value = given.get("arg") if isinstance(given, dict) else given
    while isinstance(value, dict) and len(value) == 1:
        ((kind, value),) = value.items()
        if kind == "as_none":
            return "None"
    if isinstance(value, list):
        return f"[{', '.join(_argument(one) for one in value)}]"
    if isinstance(value, dict):
        return str(value.get("name", "…"))
    return value if isinstance(value, str) else shown(value)


def _place(site: NodeSite) -> str:
    """The innermost line that is not PyTorch's own, or else the innermost: `` at FILE:LINE``."""
    frames = list(reversed(site.frames.frames)) if site.frames else []
    own = next((frame for frame in frames if not OWN_FILES.match(frame.file)), frames[0] if frames else None)
    return "" if own is None else f" at {own.file}:{own.line}"


def _bare(value: Any) -> Any:  # noqa: ANN401 (JSON)
    """A node without what is compared on its own."""
    if isinstance(value, dict):
        return {key: _bare(one) for key, one in value.items() if key not in LEFT_OUT}
    return [_bare(one) for one in value] if isinstance(value, list) else value


def _rest(name: str, old: Archive, new: Archive) -> Iterator[Change]:
    """What differs in a program's JSON besides its nodes."""
    trees = []
    for archive in (old, new):
        record = archive.programs.records.get(name)
        if record is None:  # a companion alone has no more than nodes
            return
        trees.append(read_json(archive.records[record].view(), archive.allowance))
    was, now = trees
    for key in RELEASE:
        if was.get(key) != now.get(key):
            yield Change(
                level=Level.FORMAT, what="program", name=f"{name}: {key}", status=Status.CHANGED,
                old=shown(was.get(key)), new=shown(now.get(key)),
            )  # fmt: skip
    values = Values("program", is_tensor=lambda _: False, ordered=False)
    yield from values.changes(_without_nodes(was), _without_nodes(now), name)


def _without_nodes(tree: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in tree.items() if key not in RELEASE}
    module = dict(rest["graph_module"])
    module["graph"] = {**module["graph"], "nodes": []}
    rest["graph_module"] = module
    return rest
