"""The graphs of exported programs, compared node by node, and all else that their JSON says.

So are the tables of their tensors, in what they say besides the tensors.

Nodes that take the value of a new node in place of what that one takes belong to the new node. So a layer
that is put between two others is one difference. The same for a node that is gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, counted, several, shown
from archive.base.json_text import read_json
from archive.compare.changes import Change, Status, added, changed, gone
from archive.compare.nodes import NEW, VALUES, PairedNodes, are_same, bare, graphs_of, pair_nodes, values_of
from archive.compare.sameness import RELEASE_KEYS, Level
from archive.compare.unkept import OFFSET, RANGES, kept_ranges, offsets_of
from archive.compare.values import Values
from archive.formats.exported.inputs import LIFTED_SPECS
from archive.formats.exported.sites import named_values
from archive.formats.record_kinds import ONLY_PROGRAM, label_in
from archive.formats.tensors.exported import TABLE, read_table
from archive.reader.tensors import parts_of_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite, Scope
    from archive.reader.archive import Archive

    ValueAt = tuple[tuple[Scope, ...], str]
    NodeAndJson = tuple[NodeSite, Mapping[str, Any]]


# --- who takes new values

FAR = 64
"""Nodes that are followed from a value back."""


class Takers:
    """Who takes the values of nodes that only one program has."""

    def __init__(self, nodes: PairedNodes) -> None:
        self._added = _by_value(nodes.added, nodes)
        self._gone = _by_value(nodes.gone, PairedNodes())
        self._takers = defaultdict[int, list[str]](list)

    def explains(self, old: NodeAndJson, new: NodeAndJson) -> bool:
        """Whether two nodes differ only in who takes what; then the rows of nodes between them say it.

        The new node's JSON is in old terms.
        """
        (old_site, was), (new_site, now) = old, new
        given = [named_values(each.get("inputs", [])) for each in (was, now)]
        calls = [{**each, "inputs": bare(each.get("inputs", []), {})} for each in (was, now)]
        if not are_same(*calls) or len(given[0]) != len(given[1]) or any(graphs_of(old_site)):
            return False
        takers: list[tuple[NodeSite, str]] = []
        for before, after in zip(*given, strict=True):
            if before == after:
                continue
            if _leads(self._added, (new_site.scopes, after), before):
                takers.append(
                    (self._added[new_site.scopes, after][0], f"{new_site.name} in place of {before}")
                )
            elif _leads(self._gone, (old_site.scopes, before), after):
                takers.append(
                    (self._gone[old_site.scopes, before][0], f"{old_site.name}, which takes {after} now")
                )
            else:
                return False
        for site, words in takers:
            self._takers[id(site)].append(words)
        return True

    def words(self, site: NodeSite) -> str:
        """Which nodes take a node's value, in words; "" where :meth:`explains` noted none."""
        takers = self._takers.get(id(site))
        return f"; taken by {several(takers)}" if takers else ""


def _by_value(
    sites: Iterable[NodeSite], nodes: PairedNodes
) -> dict[ValueAt, tuple[NodeSite, tuple[str, ...]]]:
    """The node that makes each value, and the values that the node takes; in old terms."""
    makers = {}
    for site in sites:
        names = nodes.names.get(site.scopes, {})
        inputs = tuple(names.get(name, name) for name in site.arguments or ())
        for value in values_of(site):
            makers[site.scopes, names.get(value, value)] = site, inputs
    return makers


def _leads(made: Mapping[ValueAt, tuple[NodeSite, tuple[str, ...]]], start: ValueAt, end: str) -> bool:
    """Whether only such nodes lie between a value and another one."""
    waiting, seen = [start], {start}
    while waiting and len(seen) <= FAR:
        _, inputs = made.get(waiting.pop(), (None, ()))
        if end in inputs:
            return True
        further = {(start[0], name) for name in inputs} - seen
        seen |= further
        waiting += sorted(further)
    return False


# --- programs


def program_changes(old: Archive, new: Archive, tensors: Mapping[str, str]) -> Iterator[Change]:
    """What differs in the exported programs of two archives.

    Args:
        tensors: the new archive's names of tensors by the old one's.
    """
    was, now = old.programs, new.programs
    for name in was:
        if name not in set(now):
            yield gone(Level.MODEL, "program", name, counted(len(was[name].sites), "node"))
        elif name in was.records and name in now.records:
            yield from _ProgramComparison(name, old, new, tensors).changes()
        else:
            yield from _nodes_by_name(name, was[name], now[name])
    for name in now:
        if name not in set(was):
            yield added(Level.MODEL, "program", name, counted(len(now[name].sites), "node"))


class _ProgramComparison:
    """The comparison of two programs whose JSON both archives have."""

    def __init__(self, name: str, old: Archive, new: Archive, tensors: Mapping[str, str]) -> None:
        self._name = name
        self._old, self._new = old.programs[name], new.programs[name]
        self._trees = [
            read_json(archive.records[archive.programs.records[name]].view()) for archive in (old, new)
        ]
        of_program = [f"{part}:" if part else "" for part in parts_of_program(name)]
        self._tensors = {
            now.removeprefix(part): was.removeprefix(part)
            for was, now in tensors.items()
            for part in of_program
            if was.startswith(part) and now.startswith(part)
        }
        was, now = map(_specs, self._trees)
        by_tensor = {_tensor(spec): value for value, spec in was.items() if _tensor(spec)}
        # Tensors of classes of their own are pickled, and no tensors of the archives.
        pickled = by_tensor.keys() & set(map(_tensor, now.values()))
        for archive in (old, new):
            pickled -= {name.removeprefix(part) for name in archive.tensors for part in of_program}
        self._tensors |= {name: name for name in pickled}
        inputs = {value: value for value, spec in now.items() if value in was and not _tensor(spec)}
        old_tensors = {value: self._tensors.get(_tensor(spec), "") for value, spec in now.items()}
        inputs |= {value: by_tensor[tensor] for value, tensor in old_tensors.items() if tensor in by_tensor}
        self._nodes = pair_nodes(self._old, self._new, inputs, set(by_tensor.values()))

    def changes(self) -> Iterator[Change]:
        """The rows: nodes, where they come from, and the rest."""
        yield from self._of_nodes()
        yield from _of_metadata(self._name, self._nodes.pairs)
        yield from self._rest()

    def _of_nodes(self) -> Iterator[Change]:
        takers = Takers(self._nodes)
        for old_site, new_site in self._nodes.pairs:
            was = PairedNodes().in_old_terms(old_site.record)
            now = self._nodes.in_old_terms(new_site.record, new_site.scopes, new_site.name)
            if not are_same(was, now) and not takers.explains((old_site, was), (new_site, now)):
                yield _node(
                    self._name, new_site.key, Status.CHANGED, _call(old_site, was), _call(new_site, now)
                )
        for site in self._nodes.gone:
            yield _node(self._name, site.key, Status.GONE, _call(site) + takers.words(site), "")
        for site in self._nodes.added:
            yield _node(self._name, site.key, Status.ADDED, "", _call(site) + takers.words(site))
        renamed = [(before, after) for before, after in self._nodes.pairs if before.name != after.name]
        if renamed:
            yield changed(
                Level.IDS,
                "names",
                f"{counted(len(renamed), 'node')} of {self._name}",
                renamed[0][0].key,
                renamed[0][1].key,
            )

    def _rest(self) -> Iterator[Change]:
        """What differs in a program's JSON besides its nodes."""
        was, now = self._trees
        for key in RELEASE_KEYS:
            if was.get(key) != now.get(key):
                yield changed(
                    Level.FORMAT, "program", f"{self._name}: {key}", shown(was.get(key)), shown(now.get(key))
                )
        yield from self._unkept()
        lost = {name for site in self._nodes.gone if not site.scopes for name in values_of(site)}
        olds = set(self._tensors.values())
        left = _by_name(was, PairedNodes(), lost, olds, {name: name for name in olds})
        new = {name for name in self._nodes.names[()].values() if name.endswith(NEW)}
        right = _by_name(now, self._nodes, new, set(self._tensors), self._tensors)
        for part in ("inputs", "input specs", "modules"):
            common = left[part].keys() & right[part].keys()
            for names in (left, right):
                names[f"order of {part}"] = ", ".join(name for name in names[part] if name in common)
        values = Values("program", ordered=False)
        yield from values.changes(left, right, self._name)

    def _unkept(self) -> Iterator[Change]:
        """What differs of facts that PyTorch does not keep."""
        was, now = map(offsets_of, self._trees)
        if len(was) == len(now) and was != now:
            moved = sum(before != after for before, after in zip(was, now, strict=True))
            what = f"{OFFSET} of {counted(moved, 'value')}"
            yield changed(Level.LAYOUT, "program", f"{self._name}: {what}", "one", "another")
        lost = [_unkept_ranges(tree) for tree in self._trees]
        if lost[0] != lost[1]:
            names = (", ".join(sorted(each)) for each in lost)
            yield changed(Level.LAYOUT, "program", f"{self._name}: {RANGES} of no value", *names)


def _unkept_ranges(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The ranges of symbols that nothing names."""
    kept, ranges = kept_ranges(tree), tree.get(RANGES)
    return {name: one for name, one in ranges.items() if name not in kept} if isinstance(ranges, dict) else {}


def _by_name(
    tree: Mapping[str, Any], nodes: PairedNodes, lone: set[str], tensors: set[str], names: Mapping[str, str]
) -> dict[str, Any]:
    """A program's JSON in old terms, without nodes; what is in lists there by its name.

    Values of nodes that only one program has are left out, and inputs of such tensors: they have rows.
    """
    module = tree["graph_module"]
    left_out = {name for name, spec in _specs(tree).items() if _tensor(spec) and _tensor(spec) not in tensors}
    lone = lone | {nodes.old_name(name) for name in left_out}
    graph = nodes.in_old_terms({**module["graph"], "inputs": None})
    for table in VALUES:
        if isinstance(graph.get(table), dict):
            graph[table] = {name: kind for name, kind in graph[table].items() if name not in lone}
    signature = _signature(module)
    specs = [
        _with_tensor(nodes.in_old_terms(spec), names)
        for spec in _objects(signature.get("input_specs"), "signature.input_specs")
        if left_out.isdisjoint(named_values(spec)[:1])
    ]
    inputs = [
        nodes.in_old_terms(item)
        for item in _objects(module["graph"].get("inputs"), "graph.inputs")
        if left_out.isdisjoint(named_values(item)[:1])
    ]
    calls = _objects(module.get("module_call_graph"), "module_call_graph")
    return {
        **{key: item for key, item in tree.items() if key not in (*RELEASE_KEYS, RANGES, "graph_module")},
        RANGES: kept_ranges(tree),
        "graph": graph,
        "inputs": _keyed((_first_name(item), item) for item in inputs),
        "signature": nodes.in_old_terms(
            {key: item for key, item in signature.items() if key != "input_specs"}
        ),
        "input specs": _keyed((_first_name(spec), spec) for spec in specs),
        "modules": _keyed((str(call.get("fqn")), call) for call in nodes.in_old_terms(calls)),
        "graph_module": {
            key: item
            for key, item in module.items()
            if key not in ("graph", "signature", "module_call_graph")
        },
    }


def _first_name(value: object) -> str:
    return next(iter(named_values(value)), "(no name)")


def _keyed(rows: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Rows by name; of several of one name, the later ones have a number."""
    keyed: dict[str, Any] = {}
    counts = Counter[str]()
    for name, row in rows:
        counts[name] += 1
        keyed[name if counts[name] == 1 else f"{name} ({counts[name]})"] = row
    return keyed


def _signature(module: Mapping[str, Any]) -> dict[str, Any]:
    signature = module.get("signature")
    return signature if isinstance(signature, dict) else {"(signature)": signature}


def _objects(value: object, place: str) -> list[dict[str, Any]]:
    """A list of JSON objects; none where it is missing."""
    objects = [] if value is None else value
    if not isinstance(objects, list) or not all(isinstance(item, dict) for item in objects):
        raise ArchiveError(place=f"graph_module.{place}", expected="a list of objects", found=shown(value))
    return objects


def _specs(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the inputs of a program's graph are, by name; an empty dict for one that no signature has."""
    module = tree["graph_module"]
    specs = _objects(_signature(module).get("input_specs"), "signature.input_specs")
    specified = {name: spec for spec in specs for name in named_values(spec)[:1]}
    inputs = chain.from_iterable(
        named_values(item)[:1] for item in _objects(module["graph"].get("inputs"), "graph.inputs")
    )
    return {**{name: {} for name in inputs}, **specified}


def _tensor(spec: Mapping[str, Any]) -> str:
    """The name of the tensor that an input is; "" of others."""
    lifted = (
        fields.get(LIFTED_SPECS[kind])
        for kind, fields in spec.items()
        if kind in LIFTED_SPECS and isinstance(fields, dict)
    )
    return str(next(lifted, ""))


def _with_tensor(spec: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """An input with the old name of its tensor."""
    return {
        kind: {**fields, LIFTED_SPECS[kind]: names.get(_tensor(spec), "")}
        if kind in LIFTED_SPECS and _tensor(spec)
        else fields
        for kind, fields in spec.items()
    }


def _nodes_by_name(name: str, old: Program, new: Program) -> Iterator[Change]:
    """What differs in nodes that only a companion says something of."""
    was, now = old.sites, new.sites
    for key, site in was.items():
        if key not in now:
            yield _node(name, key, Status.GONE, _call(site), "")
        elif site.target != now[key].target:
            yield _node(name, key, Status.CHANGED, _call(site), _call(now[key]))
    for key, site in now.items():
        if key not in was:
            yield _node(name, key, Status.ADDED, "", _call(site))
    yield from _of_metadata(name, [(site, now[key]) for key, site in was.items() if key in now])


def _of_metadata(program: str, pairs: Iterable[tuple[NodeSite, NodeSite]]) -> Iterator[Change]:
    """The row of all nodes whose metadata differ, if there are some."""
    sites = [after for before, after in pairs if dict(before.metadata) != dict(after.metadata)]
    if sites:
        nodes = f"{counted(len(sites), 'node')} of {program}"
        where = f"another, first of {sites[0].key}{_place(sites[0])}"
        yield changed(Level.DEBUG, "metadata", nodes, "one", where)


def _node(program: str, key: str, status: Status, old: str, new: str) -> Change:
    label = label_in(program, key)
    return Change(level=Level.MODEL, what="node", name=label, status=status, old=old, new=new)


def _call(site: NodeSite, record: Mapping[str, Any] | None = None) -> str:
    """A node's call, and the line of source that it comes from."""
    record = record or site.record or {}
    given = [_argument(argument) for argument in record.get("inputs", ())] or list(site.arguments or ())
    return f"{site.target.removeprefix('torch.ops.')}({', '.join(given)}){_place(site)}"


def _argument(given: Any) -> str:  # noqa: ANN401 (JSON)
    """An argument in a few words: the names and numbers in it."""
    value = given["arg"] if isinstance(given, dict) and "arg" in given else given
    while isinstance(value, dict) and len(value) == 1:
        ((kind, value),) = value.items()
        if kind == "as_none":
            return "None"
    if isinstance(value, list):
        return f"[{', '.join(_argument(part) for part in value)}]"
    if isinstance(value, dict):
        return str(value.get("name", "…"))
    return value if isinstance(value, str) else shown(value)


def _place(site: NodeSite) -> str:
    """The innermost line that is not PyTorch's own, or else the innermost: `` at FILE:LINE``."""
    return f" at {site.frames.of_model.file}:{site.frames.of_model.line}" if site.frames else ""


# --- tables of tensors

OF_TENSORS = ("dtype", "sizes", "strides", "storage_offset", "requires_grad", "device")
"""What a table says of tensors, and is compared with them, or is not the model's."""


def table_changes(old: Archive, new: Archive, record: str, tensors: Mapping[str, str]) -> Iterator[Change]:
    """What two tables of tensors say besides the tensors."""
    program = TABLE.fullmatch(record)
    part = "" if program is None or program[2] == ONLY_PROGRAM else f"{program[2]}:"
    names = {now: was for was, now in tensors.items()}
    was, now = (read_table(archive.records[record].view()) for archive in (old, new))
    left = {name: _payload(row) for name, row in was["config"].items() if _is_kept(row, part + name, tensors)}
    right = {
        names.get(part + name, part + name).removeprefix(part): _payload(row)
        for name, row in now["config"].items()
        if _is_kept(row, part + name, names)
    }
    values = Values("table of tensors", ordered=False)
    yield from values.changes({**was, "config": left}, {**now, "config": right}, record)


def _is_kept(payload: Mapping[str, Any], name: str, known: Mapping[str, str]) -> bool:
    """Whether a row of a table is compared: it is of no tensor, or of one that both archives have."""
    return bool(payload.get("use_pickle")) or name in known


def _payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What is not compared as a tensor."""
    if payload.get("use_pickle"):
        return dict(payload)
    meta = {key: value for key, value in (payload.get("tensor_meta") or {}).items() if key not in OF_TENSORS}
    return {**{key: value for key, value in payload.items() if key != "path_name"}, "tensor_meta": meta}
