"""Reads the values that ExecuTorch's runtime noted of a run on a device, without ExecuTorch.

An ETDump says where the tensors of each instruction lie in the buffer of values, a file beside it. The
ETRecord leads from the instruction to the node of the method's program: by the instruction's debug handles,
of which one may stand for several nodes, and by the operator that ran. Several nodes with one handle and one
operator ran in the order of the program, as ExecuTorch writes their instructions.

A call of a backend is noted with all that it takes, and then what it returns; the ETRecord says how many
these are. They are of the nodes that others than the backend's own take; a single one is of the last node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from functools import cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import torch

from archive.backend.values.etrecords import identity, method_program, returned_by
from archive.backend.values.observing import Recorder
from archive.base.errors import ArchiveError, in_file, one_line
from archive.debuginfo.profiles.places import UNKNOWN_PLACE, joint_place
from archive.debuginfo.values.observed import DEVICE, LATER
from archive.formats.etdump import DELEGATE_CALL, OPERATOR_CALL
from archive.formats.exported.sites import named_values
from archive.formats.tensors.dtypes import C10_SCALARS, WIDTHS
from archive.io.mapped import Mapped
from archive.reader.lookups.instructions import runs
from archive.reader.lookups.nodes import place_of_node
from archive.reader.runtime.noted import noted_run
from archive.reader.runtime.recorded import RecordedRuns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.backend.values.observing import KeptValues
    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.values.observed import Observed
    from archive.formats.etdump import NotedTensor, NotedValue
    from archive.formats.exported.sites import NodeSite
    from archive.io.mapped import Source
    from archive.reader.archive import Archive
    from archive.reader.lookups.nodes import ProgramNode
    from archive.reader.runtime.noted import NotedCall, NotedRun
    from archive.reader.runtime.runs import Call, Dump, Ran

MOST_RANK = 64
WITHOUT = "instructions without tensors"
INNER = "values inside of backends"
CHECK = "check that it is the buffer of this run"


def observe_device(
    dump: Dump, buffer: Source, opened: Archive, method: str, values: KeptValues | None
) -> Observed:
    """The first run of a method that an ETDump has values of.

    Args:
        buffer: the bytes of the values.
        opened: the ETRecord of the program that ran.
    """
    recorded = RecordedRuns(opened, None)
    run, later = _run_with_values(dump, recorded, method)
    nodes = _Nodes(opened, recorded, method, run)
    recorder = Recorder(DEVICE, values, knows_inputs=False)
    unseen = recorder.observed.unseen
    places: list[tuple[OperationPlace, int | str | None]] = []
    with closing(Mapped(buffer)) as mapped, in_file(mapped.name):
        tensors = _Tensors(mapped.data)
        noted_of: dict[object, list[torch.Tensor]] = {}
        for noted in run.calls:
            found = [tensors.of(tensor, noted.call.ran.label) for tensor in _tensors(noted.values)]
            unseen[INNER] += noted.inner
            if not found:
                unseen[WITHOUT] += noted.call.event.name in {OPERATOR_CALL, DELEGATE_CALL}
            for op, place, key, results in nodes.results(noted, found):
                recorder.note(op, (), (), results)
                places.append((place, key))
                noted_of.setdefault(key, []).extend(results)
        outputs = [tensors.of(tensor, "the whole run") for tensor in _tensors(run.outputs)]
        nodes.check_outputs(outputs, noted_of)
        recorder.note_outputs(outputs)
        recorder.observed.doubts = [*_doubts(dump, run, mapped.data)]
    if not run.outputs:
        recorder.observed.outputs = None
    unseen.update(nodes.inside)
    unseen[LATER] += later
    recorder.observed.unseen = +unseen
    recorder.observed.program = nodes.program
    return recorder.finish(places)


def _run_with_values(dump: Dump, recorded: RecordedRuns, method: str) -> tuple[NotedRun, int]:
    """The first run of a method that has values, and how many later ones have some."""
    found: list[NotedRun] = []
    with in_file(dump.file):
        for block, run in zip(dump.blocks, dump.runs, strict=True):
            if run.calls and method in recorded.fitting(run) and block.values:
                found.append(noted_run(block, run))
    if not found:
        what = (
            f"no values of a run of {one_line(method)}: the runtime notes them if it is given a debug buffer"
        )
        raise ArchiveError(what, file=dump.file)
    return found[0], len(found) - 1


def _doubts(dump: Dump, run: NotedRun, data: memoryview) -> Iterator[str]:
    """Why a buffer may be of another run: it has values where none was written, or none where some were."""
    noted = [tensor for block in dump.blocks for tensor in _tensors(block.values)]
    left = bytearray(data)
    for tensor in noted:
        begin, size = tensor.offset, _size(tensor)
        left[begin : begin + size] = bytes(size)
    if any(left):
        at = next(at for at, byte in enumerate(left) if byte)
        yield f"the debug buffer has other bytes than 0 at {at:,}, where the ETDump has no value: {CHECK}"
    values = [tensor for noted_call in run.calls for tensor in _tensors(noted_call.values)]
    values += _tensors(run.outputs)
    end = len(bytes(data).rstrip(b"\0"))
    lost = sum(tensor.offset >= end and _size(tensor) > 0 for tensor in values)
    if lost > 1:
        what = f"the last {lost:,} of {len(values):,} values are only zeros"
        yield f"{what}, as where none was written: {CHECK}"


def _size(tensor: NotedTensor) -> int:
    """The bytes of a tensor that was read."""
    dtype = C10_SCALARS.get(tensor.scalar, "")
    return prod(tensor.sizes) * WIDTHS.get(dtype, 0)


def _bytes_of(tensor: torch.Tensor) -> bytes:
    data: bytes = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return data


def _tensors(values: Sequence[NotedValue]) -> Iterator[NotedTensor]:
    return (tensor for value in values for tensor in value.tensors)


class _Tensors:
    """Tensors in a buffer of values; no two of them share bytes."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._taken = data, 0

    def of(self, noted: NotedTensor, label: str) -> torch.Tensor:
        """A tensor.

        Args:
            label: of the instruction that returned it.
        """
        where = f"the value of {label}"
        dtype = C10_SCALARS.get(noted.scalar)
        if dtype is None:
            raise ArchiveError(f"{where} has elements of type {noted.scalar}, which is not known")
        if not _is_dense(noted):
            sizes = f"sizes {[*noted.sizes]} and strides {[*noted.strides]}"
            raise ArchiveError(f"{where} has {sizes}, which are of no tensor without gaps")
        count, kind = prod(noted.sizes), getattr(torch, dtype)
        if not count:  # its offset is -1
            return torch.empty(noted.sizes, dtype=kind)
        size, begin = count * WIDTHS[dtype], noted.offset
        if begin < 0 or begin + size > len(self._data):
            raise ArchiveError(
                place=where, expected=f"bytes {begin:,} to {begin + size:,}", found=f"{len(self._data):,}"
            )
        self._taken += size
        if self._taken > len(self._data):
            raise ArchiveError("values share bytes")
        flat = torch.frombuffer(bytearray(self._data[begin : begin + size]), dtype=kind)
        return flat.as_strided(noted.sizes, noted.strides)


def _is_dense(noted: NotedTensor) -> bool:
    """Whether a tensor's elements lie side by side, in any order of its dimensions."""
    if len(noted.sizes) > MOST_RANK or any(size < 0 for size in noted.sizes):
        return False
    expected = 1
    for stride, size in sorted(zip(noted.strides, noted.sizes, strict=True)):
        if size > 1 and stride != expected:
            return 0 in noted.sizes
        expected *= max(size, 1)
    return all(stride >= 0 for stride in noted.strides)


class _Result(NamedTuple):
    """An operation that a call stands for."""

    op: str
    place: OperationPlace
    key: int | str | None
    tensors: Sequence[torch.Tensor]


class _Nodes:
    """The nodes that the instructions of a run come from.

    Attributes:
        program: what identifies their program.
        inside: how many nodes of each backend return nothing that is noted.
    """

    def __init__(self, opened: Archive, recorded: RecordedRuns, method: str, run: NotedRun) -> None:
        self._recorded, self._method = recorded, method
        program = method_program(opened, method)
        self.program = identity(opened, program.name)
        self._order = {key: at for at, key in enumerate(program.sites)}
        self._users = _users(program.sites)
        self._returned_by = returned_by(opened, program)
        self.inside = Counter[str]()
        calls = {noted.call.ran: noted.call for noted in run.calls}
        self._of_kernels = {key: self._fitting(call) for key, call in calls.items() if call.operator}
        self._taken = {node.site.key for nodes in self._of_kernels.values() for node in nodes}
        self._ordered = self._in_order()
        self._place = cache(place_of_node)

    def check_outputs(
        self, outputs: Sequence[torch.Tensor], noted: Mapping[object, Sequence[torch.Tensor]]
    ) -> None:
        """Refuse a buffer in which the model returns something else than the nodes that made it."""
        if len(outputs) != len(self._returned_by):
            return
        for number, (output, key) in enumerate(zip(outputs, self._returned_by, strict=True)):
            kind = output.shape, output.dtype
            made = [each for each in noted.get(key, ()) if (each.shape, each.dtype) == kind]
            if key and made and _bytes_of(output) not in map(_bytes_of, made):
                what = f"result {number} is not what {one_line(key)} returned"
                raise ArchiveError(f"{what}: the debug buffer is of another run than the ETDump")

    def results(self, noted: NotedCall, tensors: Sequence[torch.Tensor]) -> Iterator[_Result]:
        """The operations that a call stands for: one, or one for each result of a backend."""
        call = noted.call
        if call.event.name == DELEGATE_CALL:
            yield from self._of_backend(call, tensors)
        elif tensors:
            nodes = self._ordered.get(call.ran) or self._of_kernels.get(call.ran, [])
            yield self._result(call.operator, nodes, tensors)

    def _result(
        self, operator: str, nodes: Sequence[ProgramNode], tensors: Sequence[torch.Tensor]
    ) -> _Result:
        if not nodes:
            return _Result(f"{DEVICE}::{_base(operator)}", UNKNOWN_PLACE, None, tensors)
        place = joint_place([self._place(node) for node in nodes])
        namespace, _, name = nodes[0].op.partition(".")
        op = f"{namespace}::{name.partition('.')[0]}"
        return _Result(op, place, nodes[0].site.key if len(nodes) == 1 else None, tensors)

    def _of_backend(self, call: Call, tensors: Sequence[torch.Tensor]) -> Iterator[_Result]:
        """Each result of a call of a backend, at the node that it is of; what it is given is noted before."""
        recorded = self._recorded.instruction(self._method, call.ran)
        if recorded is None or recorded.instruction.delegate is None:
            return
        nodes = [node for node in recorded.nodes if node.site.key not in self._taken]
        nodes.sort(key=lambda node: self._order[node.site.key])
        count = recorded.instruction.outputs or 0
        returned = nodes[-1:] if count == 1 else self._returned(nodes)
        if not count or count != len(returned) or count > len(tensors):
            returned = []
        backend = one_line(recorded.instruction.delegate.backend)
        self.inside[f"nodes inside of {backend}"] += len(nodes) - len(returned)
        for node, tensor in zip(returned, tensors[len(tensors) - count :], strict=False):
            yield self._result("", [node], [tensor])

    def _returned(self, nodes: Sequence[ProgramNode]) -> list[ProgramNode]:
        """The nodes whose results others take, or nobody in the graph: the program returns these."""
        own = {node.site.key for node in nodes}
        return [node for node in nodes if not self._users[node.site.key] or self._users[node.site.key] - own]

    def _fitting(self, call: Call) -> list[ProgramNode]:
        """The nodes of an instruction that its operator runs."""
        recorded = self._recorded.instruction(self._method, call.ran)
        nodes = () if recorded is None or recorded.instruction.delegate else recorded.nodes
        return [node for node in nodes if runs(call.operator, node)]

    def _in_order(self) -> dict[Ran, list[ProgramNode]]:
        """The node of each instruction among those that share several, where there are as many as nodes."""
        sharing: dict[tuple[str, ...], list[Ran]] = defaultdict(list)
        for ran, nodes in self._of_kernels.items():
            sharing[tuple(node.site.key for node in nodes)].append(ran)
        found: dict[Ran, list[ProgramNode]] = {}
        for keys, several in sharing.items():
            if len(keys) > 1 and len(several) == len(keys):
                nodes = sorted(self._of_kernels[several[0]], key=lambda node: self._order[node.site.key])
                found |= {ran: [node] for ran, node in zip(sorted(several), nodes, strict=True)}
        return found


def _users(sites: Mapping[str, NodeSite]) -> dict[str, set[str]]:
    """The keys of the nodes that take a node's results, by its key."""
    made_by = dict[tuple[object, str], str]()
    users = {key: set[str]() for key in sites}
    for key, site in sites.items():
        outputs = named_values(site.record.get("outputs")) if site.record else ()
        made_by |= {(site.scopes, name): key for name in (site.name, *outputs)}
        for name in site.arguments or ():
            maker = made_by.get((site.scopes, name))
            if maker is not None:
                users[maker].add(key)
    return users


def _base(operator: str) -> str:
    return operator.partition(".")[0] or "unknown"
