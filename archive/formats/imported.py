"""What Python imports to read a pickle: names, none of which is looked up here.

``torch.load`` with ``weights_only`` takes names of tensors, of their parts and of plain containers, those of
``torch/_weights_only_unpickler.py``. A pickle that imports anything else may run whatever that does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN_FORMS = (
    r"collections\.(OrderedDict|Counter)|_codecs\.encode|(builtins|__builtin__)\.(bytearray|complex|set)",
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
MOST_IMPORTS = 1_000
"""Names of one file that are kept; PyTorch's own modules have some dozen."""


def is_plain(name: str) -> bool:
    """Whether ``weights_only`` takes a name."""
    return PLAIN.fullmatch(name) is not None


def imports_among(names: Iterable[str]) -> tuple[str, ...]:
    """The names that ``weights_only`` refuses, in the alphabet's order."""
    return tuple(sorted(name for name in names if not is_plain(name))[:MOST_IMPORTS])
