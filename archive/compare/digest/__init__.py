"""An archive → digests of what its model computes, of its debug info, or of its file.

The digest of a model is the sha256 of a list: a line that names the list's version, then one line for each
part, which is the part's own sha256, two blanks, and the part's name, as ``sha256sum`` writes it. The lines
are sorted. So two models can be compared part by part, and anybody can compute the digest from the parts.

``parts`` says which parts a model has and how modules are made of tensors, ``names`` how classes are called
in them, ``values`` how values become bytes, ``contents`` how elements of tensors do, ``debug`` which parts
the debug info has.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped
from archive.compare.digest.debug import debug_parts
from archive.compare.digest.parts import model_parts
from archive.reader.opening import open as open_archive
from archive.reader.opening import opened
from archive.reader.recognition import OPENED_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.mapped import Source

Of = Literal["model", "debug", "file"]
VERSIONS: Mapping[Of, int] = {"model": 2, "debug": 1}
"""Of the lists of parts: it changes with whatever changes the digest of a model that stays as it is."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a file, or of what is in it.

    Attributes:
        of: what it is of: ``model``, ``debug`` or ``file``.
        value: 64 hexadecimal digits.
        parts: the digests of the parts by their names, sorted; none of a file.
    """

    of: Of
    value: str
    parts: Mapping[str, str]

    def __str__(self) -> str:
        """The digest with what it is of: ``model-2:4f53…``. That of a file is as ``sha256sum`` has it."""
        return self.value if self.of == "file" else f"{self.of}-{VERSIONS[self.of]}:{self.value}"


@bounded
def digest(source: Source, *, of: Of = "model", limits: Limits = DEFAULT_LIMITS) -> Digest:
    """The digest of a model, of its debug info, or of a file.

    >>> import archive
    >>> one, other = (archive.digest(f"fixtures/releases/torch-{at}/nested.pt") for at in ("2.1.0", "2.13.0"))
    >>> one.value == other.value, len(one.parts)
    (True, 13)

    Args:
        source: an archive, or a zip that ``torch.save`` wrote; of a file, any file.
        of: ``model`` for what it computes, ``debug`` for the debug info in it, ``file`` for its bytes.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the source is no archive, is broken, or is a companion alone, which has no model.
        OSError: it cannot be read.
    """
    if of == "debug":  # of a file elsewhere, debug info alone is fetched
        with open_archive(source, limits=limits, kinds=OPENED_KINDS) as archive:
            parts = debug_parts(archive)
        return Digest(of, value_of(of, parts), parts)
    mapped = Mapped(source)
    if of == "file":
        value = hashlib.sha256(mapped.data).hexdigest()
        mapped.close()
        return Digest(of, value, {})
    with opened(mapped, limits.allowance(mapped.weight), OPENED_KINDS) as archive:
        if not archive.has_code:
            raise ArchiveError("a companion has no model, but the debug info of one", file=archive.file)
        parts = model_parts(archive)
    return Digest(of, value_of(of, parts), parts)


def value_of(of: Of, parts: Mapping[str, str]) -> str:
    """The digest of a list of parts.

    Args:
        of: what they are parts of.
        parts: their digests by name, sorted.
    """
    lines = [f"debug-archive {of} {VERSIONS[of]}", *(f"{value}  {name}" for name, value in parts.items())]
    return hashlib.sha256(
        "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    ).hexdigest()
