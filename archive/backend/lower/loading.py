"""Has PyTorch load what was saved, in the way in which it will be used.

What loading shows does not depend on the numbers in weights, unless code computes with them meanwhile: a
``__setstate__``, or C++ classes such as those of packed weights. So PyTorch is first given an *outline* of
the archive: all its records, those of weights without a byte, and ``meta`` as the device, where tensors have
a shape and no numbers. It then makes all types, methods and objects in little memory. That each weight has
the size that the module tree says, and is where PyTorch looks for it, is compared in the archive itself.

An archive without such an outline, or with one that PyTorch refuses, is loaded as a whole. Only refusing that
counts.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.jit.mobile

from archive.backend.graph.inlining import unmangled
from archive.backend.lower.codegen import UNAVAILABLE
from archive.backend.pytorch import shown
from archive.base.errors import LoweringError
from archive.container.write import member_from, new_member, write_archive
from archive.debuginfo.frames import FILE, LINE
from archive.formats.record_kinds import DATA, range_records_of
from archive.formats.tensors.dtypes import WIDTHS, dtype_of_storage
from archive.pickles.ops import ValueKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from archive.debuginfo.model import SourceRange
    from archive.pickles.tree import Tree
    from archive.reader.archive import Archive

GENERATED_FRAME = re.compile(rf'  (?=File "code/){FILE}{LINE}.*\n(?:(?! *~).*\n)*?( *)~'.encode())
"""A frame in generated code, as PyTorch shows it. Groups: record, line number, blanks before the ``~~~``."""


def check_loading(file: BinaryIO, opened: Archive, module: torch.jit.ScriptModule, *, lite: bool) -> None:
    """Have PyTorch load an archive, the same as ``opened``; it passes if its backend isn't available here."""
    load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
    place = _place(file)
    weights = weights_left_out(opened, module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch gave the same warnings when it saved the archive
        if weights and _finds(place, opened, weights):
            with suppress(Exception):  # of any kind, as code generated from the model runs: see below
                load(_outline(opened, weights), "meta")
                return
        file.seek(0)
        try:
            load(place)
        except Exception as error:
            refusal = _refusal(str(error).strip(), opened)
            if refusal is None:
                return
            raise refusal from error


def _place(file: BinaryIO) -> BinaryIO | str:
    """A file's name, by which PyTorch reads tensor by tensor; the file itself if it has none."""
    file.seek(0)
    try:
        file.flush()
        name = f"/proc/self/fd/{file.fileno()}"
    except OSError:  # a file in memory
        return file
    return name if Path(name).exists() else file


def _refusal(said: str, opened: Archive) -> LoweringError | None:
    """The error for what PyTorch says of an archive; None if a backend is not available here."""
    if any(line.endswith(UNAVAILABLE) for line in said.splitlines()):
        return None
    # PyTorch's message without frames: the text before them, or the last line if they come first.
    before, _, places = said.partition('\n  File "')
    last = places.rstrip().rpartition("\n")[2]
    reason = last if before.startswith("The following") else before.rstrip(":\n ")
    message = f"PyTorch does not load what it saved; nothing is written: {reason}"
    source = shown(_model_source(said.encode(), opened))
    return LoweringError(f"{message}. Source code: {source}" if source else message)


def _model_source(said: bytes, opened: Archive) -> SourceRange | None:
    """The model's source for the last frame in generated code that PyTorch shows; None if it shows none."""
    span = None
    for name, line, blanks in GENERATED_FRAME.findall(said):
        record = name.decode("utf-8", "surrogateescape")
        if record in opened.records and any(ranges in opened.records for ranges in range_records_of(record)):
            lines = bytes(opened.records[record].view()).split(b"\n")
            starts = list(accumulate((len(text) + 1 for text in lines), initial=0))
            span = opened.locate(record, starts[int(line) - 1] + len(blanks))
    return span


# --- outlines

WEIGHTS = f"{DATA.removesuffix('.pkl')}/"
"""The folder of the records that are storages of the module tree."""
PLAIN_GLOBALS = {
    ("collections", "OrderedDict"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch.jit._pickle", "build_intlist"),
    ("torch.jit._pickle", "build_tensorlist"),
    ("torch.jit._pickle", "build_doublelist"),
    ("torch.jit._pickle", "build_boollist"),
    ("torch.jit._pickle", "restore_type_tag"),
}
"""What the pickle of a module tree calls besides its classes, if all tensors are dense and not quantised."""
PASSING_ON = {
    "prim::CreateObject",
    "prim::GetAttr",
    "prim::If",
    "prim::ListConstruct",
    "prim::ListUnpack",
    "prim::SetAttr",
    "prim::TupleConstruct",
    "prim::TupleIndex",
    "prim::TupleUnpack",
    "prim::isinstance",
    "prim::unchecked_cast",
}
"""Nodes that look at no number of the tensors that they take."""
MAY_HOLD_TENSORS = ("Tensor", "Any", "__torch__")
"""What the text of a type contains if its values may be or hold tensors."""
DEBUG_INFO = "__torch__.torch.classes.backendutils.BackendDebugInfo"
"""The class of an object that each lowered module makes, and that holds none."""


def weights_left_out(opened: Archive, module: torch.jit.ScriptModule) -> dict[str, int]:
    """The records of an archive's weights, with their sizes in bytes, that its outline does without.

    Returns:
        None at all if loading may compute with them, or one is not of the size that the module tree says.
    """
    tree = opened.tree([DATA])
    made = {
        unmangled(f"{space}.{name}")
        for space, name in map(tree.names, _nodes(tree, ValueKind.GLOBAL))
        if (space, name) not in PLAIN_GLOBALS and not (space == "torch" and name.endswith("Storage"))
    }
    parts = [part._c for part in module.modules()]
    if not made <= {unmangled(part._type().annotation_str) for part in parts} or any(map(_computes, parts)):
        return {}
    weights = dict(_storages(tree))
    records = opened.container.records
    if any(name not in records or records[name].size != size for name, size in weights.items()):
        return {}
    return weights


def _nodes(tree: Tree, kind: ValueKind) -> list[int]:
    nodes: list[int] = np.flatnonzero(tree.kinds(np.arange(len(tree.value))) == kind).tolist()
    return nodes


def _storages(tree: Tree) -> Iterator[tuple[str, int]]:
    """The record and the size in bytes of each storage of a module tree; -1 if that is not known here."""

    def text(node: int) -> str:
        return bytes(tree.strings.data(int(tree.value[node]))).decode()

    for node in _nodes(tree, ValueKind.PERSISTENT):
        (parts,) = tree.items(node)
        _, kind, key, device, elements, *_ = tree.items(parts)
        width = WIDTHS.get(dtype_of_storage(tree.names(kind)[1])) if text(device) == "cpu" else None
        yield f"{WEIGHTS}{text(key)}", -1 if width is None else int(tree.value[elements]) * width


def _computes(part: Any) -> bool:  # noqa: ANN401 (a torch._C.ScriptModule)
    """Whether a module may compute with tensors when it is loaded."""
    if not part._has_method("__setstate__"):
        return False
    graph = part._get_method("__setstate__").graph.copy()
    torch._C._jit_pass_inline(graph)
    blocks = [graph]
    while blocks:
        for node in blocks.pop().nodes():
            blocks += node.blocks()
            if node.kind() not in PASSING_ON and any(map(_may_hold_tensors, node.inputs())):
                return True
    return False


def _may_hold_tensors(value: Any) -> bool:  # noqa: ANN401 (a torch._C.Value)
    kind = value.type().annotation_str
    return kind != DEBUG_INFO and any(word in kind for word in MAY_HOLD_TENSORS)


def _outline(opened: Archive, weights: dict[str, int]) -> io.BytesIO:
    """The archive, with empty records in place of its weights."""
    file = io.BytesIO()
    records = opened.container.records.items()
    members = (new_member(name, b"") if name in weights else member_from(record) for name, record in records)
    write_archive(file, opened.root, members)
    file.seek(0)
    return file


def _finds(place: BinaryIO | str, opened: Archive, weights: dict[str, int]) -> bool:
    """Whether PyTorch finds weights where they stand in the archive."""
    reader = torch._C.PyTorchFileReader(place)
    records = opened.container.records
    return all(
        not records[name].entry.deflated
        and reader.get_record_offset(name) == records[name].place.data
        and reader.get_record_size(name) == size
        for name, size in weights.items()
    )
