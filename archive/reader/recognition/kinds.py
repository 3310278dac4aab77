"""The kinds of files that models come in, and a sentence about each: what can be done with it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, ImpossibleError
from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import (
    BYTEORDER,
    DATA,
    EMBEDDED,
    MIGRATED,
    PACKAGED,
    RecordKind,
    kind_in_etrecord,
    kind_in_executorch,
    kind_in_exported,
    kind_in_legacy_exported,
    kind_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class FileKind(StrEnum):
    """The kinds of files."""

    TORCHSCRIPT = "TorchScript archive"
    LITE = "lite archive"
    SPLIT = "split archive"
    COMPANION = "companion"
    PACKAGE = "torch.package"
    PYTHON_PACKAGE = "torch.package without TorchScript"
    STATE_DICT = "state dict"
    CHECKPOINT = "checkpoint"
    MODULE = "whole module"
    SAVED = "saved object"
    EXPORTED = "exported program"
    LEGACY_EXPORTED = "legacy exported program"
    AOTI = "AOTInductor package"
    ETRECORD = "ETRecord"
    ETDUMP = "ETDump"
    ZIP = "zip"
    CUT = "zip cut short"
    FLATBUFFER = "flatbuffer lite model"
    EXECUTORCH = "ExecuTorch program"
    LEGACY = "legacy torch.save"
    LEGACY_TAR = "legacy torch.save in a tar"
    LEGACY_TAR_PART = "part of a legacy torch.save in a tar"
    ONNX = "ONNX model"
    SAFETENSORS = "safetensors"
    CUT_SAFETENSORS = "safetensors cut short"
    GGUF = "GGUF"
    SHARDED = "model in shards"
    LFS = "Git LFS pointer"
    HTML = "HTML page"
    JSON = "JSON"
    TEXT = "text"
    GZIP = "gzip"
    XZ = "xz"
    BZIP2 = "bzip2"
    ZSTD = "zstd"
    SEVEN_ZIP = "7z"
    TAR = "tar"
    EMPTY = "empty file"
    LINK = "link to a folder"
    EMPTY_FOLDER = "empty folder"
    UNKNOWN = "unknown"


ARCHIVE_KINDS = {FileKind.TORCHSCRIPT, FileKind.LITE, FileKind.SPLIT, FileKind.PACKAGE}
"""Files that have records of debug information, or had them."""

SHRUNK_KINDS = ARCHIVE_KINDS | {FileKind.EXPORTED, FileKind.AOTI}
"""Files that ``shrink`` works on, and whose companions stores keep."""

SPLIT_KINDS = SHRUNK_KINDS | {FileKind.ETRECORD}
"""Files that ``split`` works on."""

PROGRAM_KINDS = {FileKind.EXPORTED, FileKind.LEGACY_EXPORTED, FileKind.AOTI, FileKind.ETRECORD}
"""Files that have exported programs or compiled models."""

READ_KINDS = SPLIT_KINDS | PROGRAM_KINDS
"""Files that have debug info to explain, besides companions."""

LOADED_KINDS = ARCHIVE_KINDS - {FileKind.PACKAGE}
"""Files that ``torch.jit.load`` or the lite interpreter loads, for commands that run a model."""

SAVED_KINDS = {FileKind.STATE_DICT, FileKind.CHECKPOINT, FileKind.MODULE, FileKind.SAVED}
"""Files that ``torch.save`` writes."""

PACKAGE_KINDS = {FileKind.PACKAGE, FileKind.PYTHON_PACKAGE}
"""Files that ``torch.package`` writes."""

REDACTED_KINDS = ARCHIVE_KINDS | SAVED_KINDS | PACKAGE_KINDS | PROGRAM_KINDS
"""Files that ``redact`` works on."""

HASHED_KINDS = {FileKind.TORCHSCRIPT, FileKind.LITE}
"""Files in whose code ``redact --names hash`` changes names."""

JOINED_KINDS = SPLIT_KINDS | REDACTED_KINDS
"""Files that ``join`` makes whole again."""

ZIP_KINDS = READ_KINDS | SAVED_KINDS | PACKAGE_KINDS
"""Zips of models, which are shown as a page."""

TENSOR_KINDS = {
    *(FileKind.SAFETENSORS, FileKind.GGUF, FileKind.ONNX, FileKind.LEGACY, FileKind.SHARDED),
    FileKind.EXECUTORCH,
}
"""Files of tensors that aren't zips."""

OPENED_KINDS = ZIP_KINDS | TENSOR_KINDS
"""Files that ``archive.open`` opens, besides companions."""

REPORTED_KINDS = ZIP_KINDS | (TENSOR_KINDS - {FileKind.SHARDED}) | {FileKind.COMPANION}
"""Files that get a page, one each."""

PARSED_KINDS = READ_KINDS | {FileKind.COMPANION, FileKind.EXECUTORCH}
"""Files that ``verify`` looks into; of others it compares sizes and checksums."""

COMMAND_KINDS = {
    "inspect": OPENED_KINDS | {FileKind.COMPANION, FileKind.ETDUMP, FileKind.ZIP},
    "symbolicate": READ_KINDS | {FileKind.COMPANION, FileKind.EXECUTORCH},
    "report": REPORTED_KINDS,
    "verify": OPENED_KINDS | {FileKind.COMPANION, FileKind.ZIP},
    "leaks": OPENED_KINDS | {FileKind.COMPANION, FileKind.ZIP},
    "sizes": OPENED_KINDS | {FileKind.COMPANION, FileKind.ZIP},
    "diff": OPENED_KINDS | {FileKind.COMPANION},
    "digest": OPENED_KINDS,
    "split": SPLIT_KINDS,
    "join": JOINED_KINDS,
    "shrink": SHRUNK_KINDS,
    "restore": SHRUNK_KINDS - {FileKind.SPLIT},
    "redact": REDACTED_KINDS | {FileKind.COMPANION, FileKind.SAFETENSORS},
    "migrate": ARCHIVE_KINDS,
    "lite": LOADED_KINDS,
    "profile": LOADED_KINDS | {FileKind.EXPORTED, FileKind.ETDUMP},
    "run": LOADED_KINDS | {FileKind.EXPORTED, FileKind.AOTI, FileKind.ETRECORD, FileKind.ETDUMP},
    "store": SHRUNK_KINDS | {FileKind.COMPANION},
    "convert": {FileKind.EXPORTED, FileKind.COMPANION},
}
"""The commands that take files of models, and the kinds of files that each works on."""
NO_MODEL_KINDS = {
    *(FileKind.ZIP, FileKind.TAR, FileKind.SEVEN_ZIP),
    *(FileKind.GZIP, FileKind.XZ, FileKind.BZIP2, FileKind.ZSTD),
    *(FileKind.HTML, FileKind.JSON, FileKind.TEXT, FileKind.EMPTY, FileKind.UNKNOWN),
    FileKind.LEGACY_TAR_PART,
}
"""Kinds of files that aren't models, whatever they are called."""
WORDS_KINDS = {FileKind.HTML, FileKind.JSON, FileKind.TEXT, FileKind.EMPTY}
"""Those of them in which no byte is a model's: one may be in what is packed, or what nobody recognises."""
LOG_KINDS = {*WORDS_KINDS, FileKind.GZIP, FileKind.UNKNOWN}
"""Kinds of files that may be logs, which are read inflated."""
TENSORS_DIGESTED = "digest --of weights"
"""How ``digest`` takes a file of tensors, which has no model around them."""
FOLDER_KINDS = {
    **{command: kinds - {FileKind.ZIP} for command, kinds in COMMAND_KINDS.items()},
    "digest": ZIP_KINDS | {FileKind.EXECUTORCH},
    TENSORS_DIGESTED: OPENED_KINDS,
    "digest --of debug": ZIP_KINDS | {FileKind.COMPANION},
    "digest --of file": {*FileKind} - NO_MODEL_KINDS - {FileKind.LINK, FileKind.EMPTY_FOLDER},
    "redact": REDACTED_KINDS,
    "restore": SHRUNK_KINDS,
}
"""The kinds of files that each command takes from folders and globs, where a zip may be anybody's.

Files of other kinds are only counted in a note, which names those of :func:`claims`, except those of
:func:`claims_falsely`.
"""
CODE_ENDINGS = (".pt", ".pth", ".ptl", ".pt2", ".ptdbg", ".etrecord")
"""Endings of names of files that may have debug info, if they are what the names say."""
MODEL_ENDINGS = (*CODE_ENDINGS, ".ckpt", ".pte", ".etdp", ".safetensors", ".gguf", ".onnx")
"""Endings of names that claim that a file is a model, or belongs to one."""
HUB_NAME = re.compile(r"(?:\A|[/_])(?:pytorch|adapter)_model(?:[.-][^/]{0,255})?\.bin\Z", re.IGNORECASE)
"""What Hugging Face's libraries call files of weights by ``torch.save``; others may be anything."""
STAND_IN_KINDS = {FileKind.LFS, FileKind.CUT_SAFETENSORS}
"""Kinds of files that stand for models, or were models, whatever they are called."""


def claims(name: str) -> bool:
    """Whether a file is a model by its name, or belongs to one.

    >>> claims("models/a.PT"), claims("m/pytorch_model.bin"), claims("m/data.bin")
    (True, True, False)
    """
    return name.lower().endswith(MODEL_ENDINGS) or HUB_NAME.search(name) is not None


def claims_falsely(name: str, kind: FileKind) -> bool:
    """Whether a file in a folder should be a model and isn't one: each command reports it as an error.

    >>> claims_falsely("models/page.pt", FileKind.HTML), claims_falsely("README", FileKind.UNKNOWN)
    (True, False)
    >>> claims_falsely("m/pytorch_model.bin", FileKind.HTML), claims_falsely("m/data.bin", FileKind.UNKNOWN)
    (True, False)
    """
    return (kind in NO_MODEL_KINDS and claims(name)) or kind in STAND_IN_KINDS


def may_have_failed(name: str, kind: FileKind) -> bool:
    """Whether a file in a folder that should be a model might have had debug info, and so explain a failure.

    >>> may_have_failed("a.ptl", FileKind.GZIP), may_have_failed("a.safetensors", FileKind.GZIP)
    (True, False)
    >>> may_have_failed("a.ptl", FileKind.EMPTY)
    False
    """
    others = tuple({*MODEL_ENDINGS} - {*CODE_ENDINGS})
    is_weights = name.lower().endswith(others) or HUB_NAME.search(name) is not None
    never = {*WORDS_KINDS, FileKind.CUT_SAFETENSORS, FileKind.LEGACY_TAR_PART}
    return kind not in never and not is_weights


FEW = 5
"""If at most this many commands do not work on a kind of files, its sentence names these, not the others."""

DAMAGED_KINDS = {FileKind.CUT, FileKind.CUT_SAFETENSORS, FileKind.LEGACY_TAR_PART, FileKind.EMPTY}
"""Files that are broken, whatever they should have been."""

OF_DEBUG_INFO = {"symbolicate", "split", "join", "shrink", "restore", "profile", "store", "convert"}
"""Commands that read, move or keep debug info: a file without any gives them nothing to do."""
SAVE_WITH_DEBUG_INFO = "_save_for_lite_interpreter(..., _save_mobile_debug_info=True)"
"""How PyTorch saves a lite archive with debug handles and call stacks."""


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}" if quoted[1:] else "".join(quoted)


def commands_on(kind: FileKind) -> str:
    """The commands that work on a kind of files, all of them, in words."""
    others = [command for command, kinds in COMMAND_KINDS.items() if kind not in kinds]
    if len(others) <= FEW:
        return f"all commands but {_listed(others)} work on"
    return f"{_listed(_on(kind))} work on"


def _on(kind: FileKind) -> Sequence[str]:
    """The commands that work on a kind of files, as they are called for it."""
    works = [command for command, kinds in COMMAND_KINDS.items() if kind in kinds]
    digest = "digest" if kind in FOLDER_KINDS["digest"] else TENSORS_DIGESTED
    return [digest if command == "digest" else command for command in works]


def commands_without_debug_info(kind: FileKind) -> str:
    """Those among them that have something to do for a file without debug info."""
    return f"{_listed([command for command in _on(kind) if command not in OF_DEBUG_INFO])} work on"


def split_advice(kind: FileKind) -> str:
    """What can be done with a file of a kind whose debug info was split off."""
    both = "`join` puts the debug info back, `symbolicate -c COMPANION` reads both"
    return f"{both}; {commands_on(kind)} it"


def _in_newer() -> str:
    """The commands that work on exported programs, and not as PyTorch 2.1 to 2.7 saved them."""
    new, old = FileKind.EXPORTED, FileKind.LEGACY_EXPORTED
    return _listed([command for command, kinds in COMMAND_KINDS.items() if new in kinds and old not in kinds])


def _no_code(kind: FileKind) -> str:
    return f"it holds no TorchScript code, so there is no debug info to work on; {commands_on(kind)} it"


LOGS = "if it is a log, give the model, too: `symbolicate MODEL --log LOG`"
ADVICE = {
    FileKind.TORCHSCRIPT: f"{commands_on(FileKind.TORCHSCRIPT)} it",
    FileKind.LITE: f"{commands_on(FileKind.LITE)} it",
    FileKind.SPLIT: split_advice(FileKind.SPLIT),
    FileKind.COMPANION: f"{commands_on(FileKind.COMPANION)} it; `join` puts it back into its archive",
    FileKind.PACKAGE: f"{commands_on(FileKind.PACKAGE)} its TorchScript modules",
    FileKind.PYTHON_PACKAGE: _no_code(FileKind.PYTHON_PACKAGE),
    FileKind.STATE_DICT: _no_code(FileKind.STATE_DICT),
    FileKind.CHECKPOINT: _no_code(FileKind.CHECKPOINT),
    FileKind.MODULE: f"its code is in Python, not in the file; {commands_on(FileKind.MODULE)} it",
    FileKind.SAVED: _no_code(FileKind.SAVED),
    FileKind.EXPORTED: f"{commands_on(FileKind.EXPORTED)} it",
    FileKind.LEGACY_EXPORTED: f"{commands_on(FileKind.LEGACY_EXPORTED)} it; "
    f"{_in_newer()} do once PyTorch 2.8 or later exports the model again",
    FileKind.AOTI: f"{commands_on(FileKind.AOTI)} it",
    FileKind.ETRECORD: f"{commands_on(FileKind.ETRECORD)} it; so does ExecuTorch's Inspector",
    FileKind.ETDUMP: f"{commands_on(FileKind.ETDUMP)} it; so does ExecuTorch's Inspector",
    FileKind.ZIP: f"its files are not those of a PyTorch archive; {commands_on(FileKind.ZIP)} it",
    FileKind.CUT: "copy or download the whole file again",
    FileKind.FLATBUFFER: "this tool reads zips, which is what PyTorch saves without _use_flatbuffer=True",
    FileKind.EXECUTORCH: f"{commands_on(FileKind.EXECUTORCH)} it; `symbolicate` takes its instructions "
    "(0:14), and the ETRecord that was made with it has the model's source and explains logs",
    FileKind.LEGACY: _no_code(FileKind.LEGACY),
    FileKind.LEGACY_TAR: "torch.load(..., weights_only=False) reads it, if you trust it; torch.save makes "
    "a zip",
    FileKind.LEGACY_TAR_PART: "copy or download the whole file again",
    FileKind.ONNX: _no_code(FileKind.ONNX),
    FileKind.SAFETENSORS: _no_code(FileKind.SAFETENSORS),
    FileKind.CUT_SAFETENSORS: "copy or download the whole file again",
    FileKind.GGUF: _no_code(FileKind.GGUF),
    FileKind.SHARDED: _no_code(FileKind.SHARDED),
    FileKind.LFS: "`git lfs pull` puts the file itself in its place",
    FileKind.HTML: "a download has gone wrong: look at the page, and download the file itself",
    FileKind.JSON: f"if it was meant to be a model, look at what it says; {LOGS}",
    FileKind.TEXT: f"if it was meant to be a model, look at what it says; {LOGS}",
    FileKind.GZIP: "unpack it first: `gunzip`",
    FileKind.XZ: "unpack it first: `unxz`",
    FileKind.BZIP2: "unpack it first: `bunzip2`",
    FileKind.ZSTD: "unpack it first: `unzstd`",
    FileKind.SEVEN_ZIP: "unpack it first: `7z x`",
    FileKind.TAR: "unpack it first: `tar -x`",
    FileKind.EMPTY: "copy or download it again",
    FileKind.LINK: "a search does not follow it; name it itself, and its files are found",
    FileKind.EMPTY_FOLDER: "no file is in it or below it",
    FileKind.UNKNOWN: "this tool reads what PyTorch saves, safetensors, GGUF, ONNX, ExecuTorch's "
    "programs, ETRecords and ETDumps, and its own companions",
}


@dataclass(frozen=True, slots=True)
class Recognised:
    """The kind of a file, also in words.

    Attributes:
        kind: of the file.
        what: the kind in words, with details of this file: "a state dict of 2 tensors".
        own_advice: advice for this file, where that of its kind does not fit; else "".
    """

    kind: FileKind
    what: str
    own_advice: str = ""

    @property
    def advice(self) -> str:
        """A sentence about what to do with such a file."""
        return self.own_advice or ADVICE[self.kind]

    @property
    def reason(self) -> str:
        """The advice without the commands that work on the file, for one of them."""
        every, some = commands_on(self.kind), commands_without_debug_info(self.kind)
        return self.advice.removesuffix(f"; {every} it").removesuffix(f"; {some} it")

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive of TorchScript, whole or split."""
        return self.kind in ARCHIVE_KINDS

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}"

    def refusal(self, file: str) -> ArchiveError:
        """The error of a command that does not work on such a file."""
        kind = ImpossibleError if self.kind is FileKind.FLATBUFFER else ArchiveError
        return kind(str(self), file=file)


KINDS_IN = {
    FileKind.EXPORTED: kind_in_exported,
    FileKind.LEGACY_EXPORTED: kind_in_legacy_exported,
    FileKind.AOTI: kind_in_exported,
    FileKind.ETRECORD: kind_in_etrecord,
    FileKind.EXECUTORCH: kind_in_executorch,
    FileKind.COMPANION: kind_in_exported,
}
"""The kind of a record by its name, in each of these."""


PYTHON_ENDING = ".py"
OURS_IN_PACKAGES = {BYTEORDER, EMBEDDED, MIGRATED}
"""Records outside a package's ``.data/`` that PyTorch or this tool writes."""


def kind_in(file: FileKind, name: str) -> RecordKind:
    """The kind of a record by its name. In a zip whose names are not PyTorch's, it is ``OTHER``.

    What is debug information by :func:`kind_of` is so in all files that are split, and has no part in their
    archive id: in exported programs, PyTorch reads no record of such a name. The records of a companion have
    the names that they have in its archive.
    """
    kind = kind_of(name)
    if file in KINDS_IN:
        return kind if kind.is_debug else KINDS_IN[file](name)
    if file in PACKAGE_KINDS and not name.startswith(PACKAGED) and name not in OURS_IN_PACKAGES:
        # a user's own file may have any name
        return RecordKind.PYTHON if name.endswith(PYTHON_ENDING) else RecordKind.OTHER
    if file in ARCHIVE_KINDS:
        return kind
    if file is FileKind.ZIP or (kind.is_debug and file not in SAVED_KINDS):
        return RecordKind.OTHER
    return RecordKind.OBJECT if name == DATA else kind
