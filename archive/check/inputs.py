"""Sample inputs of a program: a zip by ``torch.save``, with a pickle of a tuple or dict.

The pickle is read as inert values. PyTorch 2.13 reads it with ``weights_only`` first; a pickle that asks for
more than tensors is then read without, so what it names runs. Source: ``deserialize_torch_artifact`` in
``torch/_export/serde/serialize.py``; the names are those of ``torch/_weights_only_unpickler.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import shown
from archive.base.mapped import Mapped
from archive.debuginfo.model import Global
from archive.formats.inert_values import DATA
from archive.formats.python_pickle import Value, plain_value
from archive.reader.recognition import SAVED_KINDS, FileKind, opened_zip, recognise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Allowance
    from archive.check.diagnostic import Diagnostics
    from archive.reader.records import ReadableRecord

PLAIN_FORMS = (
    r"collections\.(OrderedDict|Counter)|_codecs\.encode|builtins\.(bytearray|complex|set)",
    r"torch\.(cuda\.)?(sparse\.)?(?!Typed|Untyped)[A-Z][A-Za-z0-9]*(Storage|Tensor)",
    r"torch\.(u?int|float|bfloat|complex|bits|qu?int)[0-9]+(x[0-9]|_e[0-9]m[0-9][a-z0-9_]*)?",
    r"torch\.(Size|Tensor|device|bool|per_(channel|tensor)_[a-z_]+)",
    r"torch\.storage\.(Typed|Untyped)Storage|torch\.nn\.parameter\.Parameter",
    r"torch\._utils\._rebuild_(tensor(_v[23])?|parameter(_with_state)?|qtensor|wrapper_subclass)",
    r"torch\._utils\._rebuild_((sparse|nested)_tensor|meta_tensor_no_storage)",
    r"torch\._utils\._rebuild_device_tensor_from_(numpy|cpu_tensor)",
    r"torch\._tensor\._rebuild_from_type_v2|torch\.serialization\._get_layout",
)
PLAIN = re.compile("|".join(PLAIN_FORMS))
"""Names that ``weights_only`` takes."""
REFUSED = "PyTorch 2.13 refuses it"
LEGACY_KINDS = {FileKind.LEGACY, FileKind.LEGACY_TAR}
PICKLE_BYTES = 1 << 22
"""Bytes of a pickle that is read; tensors stand beside it, so PyTorch's own have some hundred."""
NAMED = 3
"""Names that a message tells."""
HOLDERS = ("tuple", "dict")


def check_inputs(record: ReadableRecord, allowance: Allowance, report: Diagnostics) -> None:
    """Check a record of sample inputs.

    Raises:
        ArchiveError: its pickle cannot be read.
    """
    data = record.view()
    if not len(data):
        return
    found = recognise(data, limits=allowance.limits, look=False)
    if found.kind in LEGACY_KINDS:
        report.add("note", record.name, "", f"{found.what}, is not checked")
        return
    if found.kind not in SAVED_KINDS:
        message = f"expected what torch.save writes, found {found.what}; {REFUSED}"
        report.add("error", record.name, "", message)
        return
    with opened_zip(Mapped(data, record.name), allowance) as container:
        pickled = container.records[DATA]
        if pickled.size > PICKLE_BYTES:
            report.add("note", record.name, "", f"a pickle of {pickled.size:,} bytes is not checked")
            return
        value, _ = plain_value(pickled.view(), 0, allowance)
    _check_value(value, record.name, report)


def _check_value(value: object, name: str, report: Diagnostics) -> None:
    if not isinstance(value, Value) or (isinstance(value.what, str) and value.what not in HOLDERS):
        found = value.what if isinstance(value, Value) else type(value).__name__
        message = f"expected a tuple or dict, found {shown(found)}"
        report.add("error", name, "", f'{message}; {REFUSED}: "expected tuple or dict, got"')
    others = [asked for asked in sorted({str(one) for one in _globals(value)}) if not PLAIN.fullmatch(asked)]
    if others:
        some = ", ".join(others[:NAMED]) + (", …" if len(others) > NAMED else "")
        how = "torch.export.load then reads it without weights_only, which runs them"
        report.add("note", name, "", f"the pickle asks for {some}; {how}")


def _globals(value: object) -> Iterator[Global]:
    """The names that a pickle asks for."""
    below, seen = [value], set()
    while below:
        one = below.pop()
        if isinstance(one, Global):
            yield one
        elif isinstance(one, Value) and id(one) not in seen:
            seen.add(id(one))
            below += [one.what, one.state, *one.arguments, *one.items]
            below += [part for pair in one.pairs for part in pair]
