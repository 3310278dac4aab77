"""How a text that must not be published gets out of a file, by the kind of the file and the text's role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.reader.recognition.kinds import HASHED_KINDS, PACKAGE_KINDS, PROGRAM_KINDS, SAVED_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Collection

RENAME = "rename it in the model's source, and save again"
SAVED = "change it there, and save again"
IN_MODEL = "all else is a part of the model: change it in the model's source, and save again"
NO_LINES = "lines of source text go with `redact --source none`"
STATE = "or save the `state_dict()`"
KEYS = f"`redact --replace KEY=TEXT` changes whole keys; names of classes and attributes: {RENAME}"
VALUES = f"`redact --replace VALUE=TEXT` changes data and whole keys; in objects, tensors and bytes, {SAVED}"
MAY_HASH = f"`redact --names hash` hashes it, unless callers or PyTorch need it: then {RENAME}"
HASHES_CLASSES = f"`redact --names hash` hashes classes and functions; all else: {RENAME}"
NO_INPUTS = "sample inputs with `redact --no-inputs`"
IN_CLASS = f"loading imports the class by it, or its code needs the attribute: {RENAME}, {STATE}"
METADATA = "`redact --replace VALUE=TEXT` changes it in metadata; in a tensor, save that with other values"
WAYS: dict[FileKind, tuple[str, str]] = {
    FileKind.MODULE: (IN_CLASS, f"it is a part of the module: {SAVED}, {STATE}"),
    FileKind.SAFETENSORS: ("save the tensors again, with other names", METADATA),
    FileKind.GGUF: ("write the file again, with other names", "write the file again, without it"),
    FileKind.ONNX: ("change it in what `onnx.load` gives, and `onnx.save` that",) * 2,
    FileKind.EXECUTORCH: ("make the program again, with other names or without it",) * 2,
    FileKind.LEGACY: ("load it, if you trust it, and `torch.save` it without",) * 2,
    FileKind.COMPANION: ("it stays with you, or `redact` makes one that you can give away",) * 2,
}
WAYS |= dict.fromkeys(SAVED_KINDS - {FileKind.MODULE}, (KEYS, VALUES))
WAYS |= dict.fromkeys(HASHED_KINDS, (MAY_HASH, f"{NO_LINES}; {IN_MODEL}"))
WAYS |= dict.fromkeys(PROGRAM_KINDS, (HASHES_CLASSES, f"{NO_LINES}, {NO_INPUTS}; {IN_MODEL}"))
WAYS |= dict.fromkeys(PACKAGE_KINDS, ("change it in the package's files, and package the model again",) * 2)
OTHERWISE = ("change it in what the file was made of, and make it again",) * 2


def ways_out(kind: FileKind, roles: Collection[str]) -> list[str]:
    """A line for names and one for other texts, if some of these roles are there."""
    names, others = WAYS.get(kind, OTHERWISE)
    lines = [f"a name that must not be published: {names}"] * ("name" in roles)
    return lines + [f"another text that must not be: {others}"] * bool({"key", "value"} & set(roles))


def way_of_carriers(kind: FileKind) -> str:
    """How names go that have the name of a person or machine in them."""
    if kind is FileKind.SAFETENSORS:
        return WAYS[kind][0]
    ways = ["`--names hash` hashes those of classes"] * (kind in HASHED_KINDS | PROGRAM_KINDS)
    return "; ".join([*ways, "`--paths none` takes out those of files", f"all else: {RENAME}"])
