"""The tensors of models that AOTInductor compiled: the C++ code describes them, their bytes are concatenated.

The wrapper's constructor describes each constant, by its number::

    constants_info_[0].name = "mix_weight";
    constants_info_[0].dtype = cached_torch_dtype_float32;
    constants_info_[0].offset = 0;
    constants_info_[0].data_size = 64;
    constants_info_[0].from_folded = false;
    constants_info_[0].shape = {4, 4};
    constants_info_[0].stride = {4, 1};
    constants_info_[0].layout = static_cast<int32_t>(cached_torch_layout_strided);
    constants_info_[0].original_fqn = "mix.weight";

``offset`` counts elements in the constant's own storage, of ``data_size`` bytes. Storages are in the order of
numbers, without those of folded constants, which the model computes. Constants in a layout of oneDNN are
plain bytes. Source: ``codegen_model_constructor`` in ``torch/_inductor/codegen/cpp_wrapper_cpu.py`` and
``load_constants`` in ``torch/csrc/inductor/aoti_runtime/model_base.h`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.formats.tensors.dtypes import WIDTHS
from archive.formats.tensors.tensor import Tensor, check_dimensions

if TYPE_CHECKING:
    from collections.abc import Iterator


FIELD = re.compile(rb"(?m)^[ \t]*constants_info_\[(\d{1,9})\]\.(\w{1,40}) = (.{0,4000}?);\r?$")
STRIDED = b"static_cast<int32_t>(cached_torch_layout_strided)"
DTYPE = b"cached_torch_dtype_"


class CompiledConstant(NamedTuple):
    """A constant of a compiled model.

    Attributes:
        name: in the model, if PyTorch gives it: ``mix.weight``; else the compiler's.
        tensor: the record of its storage is filled in later.
        start: the first byte of its storage, in the bytes of all constants.
        size: bytes of its storage.
    """

    name: str
    tensor: Tensor
    start: int
    size: int


def compiled_constants(code: memoryview) -> Iterator[CompiledConstant]:
    """The constants that C++ code describes, without folded ones.

    Args:
        code: a wrapper's code; other code has none.
    """
    constants: dict[int, dict[bytes, bytes]] = {}
    for match in FIELD.finditer(code):
        number, key, value = match.groups()
        if int(number) not in constants:
            memory.take(4 * memory.ROW, "constants of a compiled model")
        constants.setdefault(int(number), {})[key] = value
    start = 0
    for number, fields in sorted(constants.items()):
        try:
            if fields[b"from_folded"] == b"true":
                continue
            size = int(fields[b"data_size"])
            name = fields.get(b"original_fqn", b'""')[1:-1] or fields[b"name"][1:-1]
            text = name.decode("utf-8", "surrogateescape")
            yield CompiledConstant(text, _tensor(fields, size), start, size)
            start += size
        except (KeyError, ValueError) as error:
            found = shown(str(error))
            raise ArchiveError(place=f"constants_info_[{number}]", expected="a tensor", found=found) from None


def _tensor(fields: dict[bytes, bytes], size: int) -> Tensor:
    dtype = fields[b"dtype"].removeprefix(DTYPE).decode()
    if fields.get(b"layout", STRIDED) != STRIDED or dtype not in WIDTHS:
        return Tensor("uint8", (size,), (1,), 0, "")
    shape, strides = (_numbers(fields[key]) for key in (b"shape", b"stride"))
    check_dimensions(len(shape))
    return Tensor(dtype, shape, strides, int(fields[b"offset"]), "")


def _numbers(braced: bytes) -> tuple[int, ...]:
    """``{4, 1}`` as numbers."""
    inner = braced.strip().removeprefix(b"{").removesuffix(b"}").strip()
    return tuple(int(number.strip().removesuffix(b"L")) for number in inner.split(b",")) if inner else ()
