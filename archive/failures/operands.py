"""What an error message says about an operator's operands, compared with a node's operands.

Kernels print sizes, numbers of dimensions and types of what they were called with::

    [op_embedding.cpp:43] Check failed (…): indices_ptr[2] 9 >= weight.size(0) 6        ExecuTorch
    mat1 and mat2 shapes cannot be multiplied (4x8 and 7x3)                               PyTorch

A node whose ``weight`` has 50 rows did not print the first one. A *claim* is one such fact. It is about the
operand with that name in the operator's schema; a kernel's own names (``a``, ``in``) may stand for any
operand, so a claim holds if any has this size. Sizes that aren't recorded as numbers may be any.

In ExecuTorch all recorded sizes are those of each call. PyTorch may run programs on inputs that nobody
checked: there only what the program itself holds, parameters, buffers and constants, is compared.

Sources: the format strings of ExecuTorch 1.5's kernels (``kernels/portable/cpp`` and
``runtime/core/exec_aten/util/tensor_util.h``), and what PyTorch 2.13 prints.
"""

from __future__ import annotations

import re
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import one_line
from archive.formats.exported.printed import LIFTED
from archive.formats.exported.sites import named_values
from archive.formats.tensors.dtypes import SCALARS, STORAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from archive.formats.exported.sites import NodeSite
    from archive.reader.lookups.nodes import ProgramNode

MOST_TEXT, MOST_MESSAGES = 1 << 12, 8
"""Characters of a message, and messages, that are looked at."""
MEASURED = re.compile(
    r"\b(?P<name>[a-z]\w*)(?P<item>\[\d+\])?\."
    r"(?:size\( ?(?P<at>-?\d{1,9}) ?\)|(?P<rank>dim)\(\)|(?P<count>numel)\(\))"
    r"(?: = | |=)(?P<number>\d{1,18})\b"
)
"""``weight.size(0) 6``, ``a.size(1) = 3``, ``in.dim() = 2``."""
CHECKED = re.compile(r"(?:Check failed|assert failed) \(.*?\): ")
"""What is checked, in C++: its numbers aren't a call's."""
SIZED = re.compile(
    r"\bsize (?P<size>\d{1,18}) at dimension (?P<dim>\d{1,9})\b"
    r"|\bdimension (?P<dim2>\d{1,9}) with size (?P<size2>\d{1,18})\b"
    r"|\bout of range \[-\d+, ?(?P<size3>\d{1,18})\) at (?:dimension|in\.size\() ?(?P<dim3>\d{1,9})\b"
)
"""A size and its dimension, of no operand in particular."""
SIZED_GROUPS = ("size", "size2", "size3"), ("dim", "dim2", "dim3")
INDEXED = re.compile(r"\bindex\[\d+\] = -?\d+ is out of range \[0, (?P<size>\d{1,18})\)")
ROWS = re.compile(
    r"\bIndex out of bounds for (?P<name>\w+): index -?\d+ must be in range \[0, (?P<size>\d{1,18})\)"
)
SHAPES = re.compile(
    r"\b(?:but got shapes|Expected shape) \((?P<first>[\d, ]*)\)(?: and \((?P<second>[\d, ]*)\))?"
)
RANKS = re.compile(r"Expected tensor\.dim\(\) to be (?:[<>]= )?\d+, but got (?P<rank>\d{1,9})")
DTYPES = re.compile(r"Tensors do not match: dtype=\{(?P<names>[\w, ]+)\}")
PRODUCT = re.compile(
    r"mat1 and mat2 shapes cannot be multiplied \(\d+x\d+ and (?P<rows>\d+)x(?P<columns>\d+)\)"
)
CONVOLVED = re.compile(r"\bweight of size \[(?P<sizes>\d+(?:, \d+)*)\]")
RUNNING = re.compile(
    r"\b(?P<name>running_mean|running_var|weight|bias) should contain \d+ elements not (?P<count>\d+)"
)
FACTORS = re.compile(r"mat1 and mat2 must have the same dtype, but got \w+ and (?P<name>\w+)")


class Operand(NamedTuple):
    """A tensor that a node takes or returns, as its program records it.

    Attributes:
        names: the arguments that it is passed as; none for a result.
        sizes: of its dimensions, None for one that isn't a number; None where nothing is recorded.
        dtype: ``float32``; "" where it is not known.
        is_held: whether the program holds it.
    """

    names: frozenset[str]
    sizes: tuple[int | None, ...] | None
    dtype: str
    is_held: bool


class Claim(NamedTuple):
    """What a message says about an operand.

    Attributes:
        text: the part of the message that says it.
        name: the operand's, in the message; "" for any.
        sizes: by dimension.
        anywhere: the size of some dimension; -1 if it isn't given.
        rank: the number of dimensions; -1 likewise.
        elements: their number; -1 likewise.
        dtype: "" likewise.
        is_listed: whether the operand is one of a list.
        is_part: whether it may be a part of an operand of more dimensions.
    """

    text: str
    name: str = ""
    sizes: Mapping[int, int] = {}
    rank: int = -1
    elements: int = -1
    dtype: str = ""
    anywhere: int = -1
    is_listed: bool = False
    is_part: bool = False

    def holds(self, operand: Operand) -> bool:
        """Whether it may be true of an operand."""
        known = operand.sizes
        if known is None:
            return True
        if self.dtype and operand.dtype not in ("", self.dtype):
            return False
        if self.anywhere >= 0 and not {None, self.anywhere} & {*known}:
            return False
        rank = len(known)
        if self.is_part and rank > self.rank:
            return True
        if self.rank not in (-1, rank):
            return False
        if self.elements >= 0 and None not in known and self.elements != prod(size or 0 for size in known):
            return False
        return all(-rank <= at < rank and known[at] in (None, size) for at, size in self.sizes.items())


def contradiction(site: NodeSite, messages: Iterable[str], *, is_fixed: bool) -> str:
    """What messages say that is true of none of a node's operands, in words; "" for nothing.

    Args:
        is_fixed: whether all sizes that are recorded as numbers are those of each call.
    """
    if not site.tensors:
        return ""
    operands = [*_operands(site)]
    for claim in (
        claim for message in islice(messages, MOST_MESSAGES) for claim in claims(message, site.target)
    ):
        named = [one for one in operands if claim.name in one.names] if not claim.is_listed else []
        asked = (named or operands) if is_fixed else [one for one in named if one.is_held]
        if asked and not any(map(claim.holds, asked)):
            return claim.text
    return ""


def not_so(what: str, why: str, node: ProgramNode) -> str:
    """A note about a failure that its message rules out."""
    return f"{what}: {one_line(why)} isn't so of {one_line(node.label)}: the failure is another model's"


def claims(message: str, target: str = "") -> Iterator[Claim]:
    """What a message says about operands.

    Args:
        target: the node's: PyTorch transposes weights in ``linear``, and multiplies parts in ``matmul``.
    """
    text = CHECKED.sub("", message[:MOST_TEXT])
    for found in MEASURED.finditer(text):
        number, is_listed = int(found["number"]), found["item"] is not None
        if found["rank"]:
            yield Claim(found[0], found["name"], rank=number, is_listed=is_listed)
        elif found["count"]:
            yield Claim(found[0], found["name"], elements=number, is_listed=is_listed)
        else:
            yield Claim(found[0], found["name"], {int(found["at"]): number}, is_listed=is_listed)
    for found in SIZED.finditer(text):
        size, dim = (next(filter(None, map(found.group, names))) for names in SIZED_GROUPS)
        yield Claim(found[0], "", {int(dim): int(size)})
    for found in INDEXED.finditer(text):
        yield Claim(found[0], anywhere=int(found["size"]))
    for found in ROWS.finditer(text):
        yield Claim(found[0], found["name"], {0: int(found["size"])})
    for found in SHAPES.finditer(text):
        for shape in (found["first"], found["second"]):
            if shape is not None:
                sizes = [int(size) for size in re.findall(r"\d+", shape)]
                yield Claim(found[0], "", dict(enumerate(sizes)), rank=len(sizes))
    if ranks := RANKS.search(text):
        yield Claim(ranks[0], rank=int(ranks["rank"]))
    if dtypes := DTYPES.search(text):
        for name in dtypes["names"].split(", "):
            if name in STORAGES:
                yield Claim(dtypes[0], dtype=STORAGES[name])
    yield from _of_pytorch(text, target)


def _of_pytorch(text: str, target: str) -> Iterator[Claim]:
    """What a message of PyTorch says about tensors that a program holds."""
    is_linear, is_any = target.endswith("aten.linear.default"), target.endswith("aten.matmul.default")
    factor = "weight" if is_linear else "other" if is_any else "mat2"
    if found := PRODUCT.search(text):
        shape = int(found["rows"]), int(found["columns"])
        sizes = dict(enumerate(reversed(shape) if is_linear else shape))
        yield Claim(found[0], factor, sizes, rank=2, is_part=is_any)
    if found := CONVOLVED.search(text):
        weight = [int(size) for size in found["sizes"].split(", ")]
        yield Claim(found[0], "weight", dict(enumerate(weight)), rank=len(weight))
    # Instance norm calls batch norm, with what the program holds repeated for each sample of a batch.
    if (found := RUNNING.search(text)) and "instance_norm" not in target:
        yield Claim(found[0], found["name"], elements=int(found["count"]))
    if (found := FACTORS.search(text)) and (dtype := STORAGES.get(found["name"])):
        yield Claim(found[0], factor, dtype=dtype)


def _operands(site: NodeSite) -> Iterator[Operand]:
    """The tensors that a node takes and returns."""
    record = site.record or {}
    taken = dict[str, set[str]]()
    for given in _objects(record.get("inputs")):
        for name in _tensors(given.get("arg")):
            taken.setdefault(name, set()).add(str(given.get("name")))
    results = [name for output in _objects(record.get("outputs")) for name in _tensors(output)]
    for name in dict.fromkeys([*taken, *results]):
        recorded = site.tensors.get(name)
        meta = recorded if isinstance(recorded, dict) else {}
        sizes, dtype = meta.get("sizes"), meta.get("dtype")
        yield Operand(
            frozenset(taken.get(name, ())),
            tuple(map(_number, sizes)) if isinstance(sizes, list) else None,
            SCALARS.get(dtype, "") if isinstance(dtype, int) else "",
            name in site.inputs and LIFTED.match(name) is not None,
        )


def _objects(value: object) -> Sequence[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else ()


def _tensors(value: object) -> Iterator[str]:
    """The names of tensors in an argument or result: one, or a list."""
    if isinstance(value, dict):
        yield from named_values({kind: given for kind, given in value.items() if "tensor" in kind})


def _number(size: object) -> int | None:
    number = size.get("as_int") if isinstance(size, dict) else None
    return number if isinstance(number, int) else None
