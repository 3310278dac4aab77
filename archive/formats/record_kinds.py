"""The kind of a record, by its name; which code and source ranges belong together; kinds inside records.

The names are those of ``torch/csrc/jit/serialization/export_module.cpp`` (records), ``caffe2/serialize/
inline_container.cc`` (version, byteorder, serialization id) and ``torch/package`` (``.data/``).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.container import names as container_names
from archive.container.serialization_id import RECORD_NAME
from archive.formats.effects import EFFECTS

if TYPE_CHECKING:
    from collections.abc import Collection, Container

UNNAMED_ROOT = "archive"
"""The folder of all records where PyTorch saves to something without a name: a buffer."""

DATA = "data.pkl"
"""The module tree: :mod:`archive.formats.inert_values`."""

CONSTANTS, ATTRIBUTES = "constants.pkl", "attributes.pkl"
"""Tensors that generated code names, and the values of ``LEGACY_TREE``."""

BYTECODE = "bytecode.pkl"
"""The methods of the lite interpreter: :mod:`archive.formats.bytecode`."""

CALLSTACK_MAP = container_names.CALLSTACK_MAP
"""The operation of each debug handle: :mod:`archive.formats.callstack_map`."""

METHOD_HANDLES, MODULE_PATHS = "mobile_debug_handles.pkl", "mobile_debug.pkl"
"""The debug handle, or module path, of each instruction: :mod:`archive.formats.method_handles`."""

HANDLE_RECORDS = {CALLSTACK_MAP, METHOD_HANDLES}
"""The records that name debug handles."""

RANGES_SUFFIX, DELEGATED = ".debug_pkl", container_names.DELEGATED
"""What follows the name of the code in that of its record of source ranges, and the record of lowered
modules' source ranges: :mod:`archive.formats.source_ranges`."""

VERSION_RECORDS = (".data/version", "version")
"""The record of the archive format's version, in the order in which PyTorch looks for it."""

BYTEORDER = "byteorder"
LITTLE_ENDIAN, BIG_ENDIAN = b"little", b"big"
"""The byte order of tensors, since PyTorch 2.1."""

FORMAT_VERSION, STORAGE_ALIGNMENT = ".format_version", container_names.STORAGE_ALIGNMENT
"""What ``torch.save`` says of its zip: a version, and the alignment of storages."""

TRACED_INPUTS = "traced_inputs.pkl"
"""The example inputs that PyTorch 2.0 and later keep of a traced model."""

LEGACY_TREE = "model.json"
"""The module tree of PyTorch 1.0 to 1.2."""

CODE_FOLDERS = container_names.CODE_FOLDERS
"""Where archives have their code, and where ``torch.package`` puts the code of its TorchScript modules."""

CODE = (CODE_FOLDERS[0], ".py")
"""Folder and ending of an archive's code."""

LEGACY_DEBUG = ("debug/", ".pkl")
"""Folder and ending of its source ranges in PyTorch 1.2."""

PACKAGE_CODE = CODE_FOLDERS[1]
"""The folder of code and its source ranges in a ``torch.package``."""

DATA_FOLDER = "data/"
"""The folder of the tensors of ``data.pkl``, and of those of a ``.pt2``."""

EXTRA_FOLDER = "extra/"
"""The folder of the files that a loader returns, by the names of ``_extra_files``."""

LEGACY_EXTRA_FOLDER = "extra_files/"
"""The same in what ``torch.export.save`` of PyTorch 2.1 to 2.7 wrote."""

OF_LOADERS = (EXTRA_FOLDER, LEGACY_EXTRA_FOLDER)
"""The folders whose files are the user's, whatever their names."""

PACKAGED, STORAGE = ".data/", ".storage"
"""Folder and ending of the tensors of a ``torch.package``; the folder also has records about the package."""

PROGRAMS = ("models/", ".json")
"""Folder and ending of exported programs."""

ONLY_PROGRAM = "model"
"""The only program's name by ``torch.export.save``, the only model's by ``aoti_compile_and_package``.

``torch.export.load`` reads no other program.
"""

COMPILED = "data/aotinductor/"
"""The folder with a folder of files for each compiled model."""

SAMPLE_INPUTS = "data/sample_inputs/"
"""The folder of the inputs with which programs were exported."""

SHARED_OBJECTS = (".so", ".dylib", ".pyd", ".dll")
"""Endings of shared objects in a compiled model's folder, on all platforms."""

KERNELS = "kernel_information.json"
"""The file that leads from a compiled model's kernels to its source."""

EXPORTED_FORMAT = "archive_format"
"""The record that only ``.pt2`` archives have."""

LEGACY_PROGRAM = "serialized_exported_program.json"
"""The exported program in what ``torch.export.save`` of PyTorch 2.1 to 2.7 wrote, outside any folder."""

ETRECORD = "ETRECORD_V0"
"""The record that only ETRecords have: :mod:`archive.formats.etrecord`."""

EXPORTED, GRAPH_ID = "exported_program", "export_graph_id"
"""An ETRecord's program as it was exported, and the ``id`` of its graph then."""

HANDLES, DELEGATES, OUTPUTS = "debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map"
"""An ETRecord's maps of instructions."""

BESIDE = ("_state_dict", "_constants", "_example_inputs")
"""What follows the name of an ETRecord's program in those of its tensors and example inputs."""


BUNDLED_INPUTS = b"_bundled_inputs_deflated_"
"""Attributes in which ``torch.utils.bundled_inputs`` puts sample inputs of TorchScript's methods begin so."""


class RecordKind(StrEnum):
    """The kinds of records in a model archive."""

    TENSOR = "tensor"
    MODULES = "module tree"
    CONSTANTS = "constants"
    CODE = "generated code"
    RANGES = "source ranges"
    DELEGATED = "delegated source ranges"
    CALLSTACKS = "call-stack map"
    HANDLES = "method handles"
    PATHS = "module paths"
    COMPANION = "embedded companion"
    ASIDE = "original, kept aside"
    BYTECODE = "bytecode"
    OBJECT = "saved object"
    EFFECTS = "effects"
    PROGRAM = "exported program"
    WEIGHTS = "table of tensors"
    INPUTS = "sample inputs"
    COMPILED = "compiled model"
    SHARED_OBJECT = "shared object"
    CPP = "C++ code"
    KERNELS = "kernel information"
    INSTRUCTIONS = "map of instructions"
    FRAMES = "frames"
    EXTRA = "extra file"
    FORMAT = "archive format"
    HEADER = "header"
    VALUES = "keys and values"
    GRAPH = "graph"
    EXTERNAL = "external data"
    NAMED = "named data"
    INDEX = "index of shards"
    PYTHON = "Python source"
    OTHER = "other"

    @property
    def is_debug(self) -> bool:
        """Whether records of this kind are debug information: PyTorch runs the model without them."""
        return self in DEBUG_KINDS

    @property
    def group(self) -> Group:
        """What it counts as."""
        return GROUP_BY_KIND.get(self, Group.OTHER)


class Group(StrEnum):
    """What the bytes of a file count as, in every sum over records."""

    WEIGHTS = "weights"
    CODE = "code"
    DEBUG = "debug info"
    CONTAINER = "container"
    OTHER = "other"


class MetadataKind(StrEnum):
    """The kinds of metadata of an exported program's nodes. All are debug information."""

    TRACES = "traces"
    MODULES = "modules"
    FUNCTIONS = "functions"
    ORIGINS = "origins"
    HANDLES = "debug handles"
    OTHER = "other metadata"


class SpareKind(StrEnum):
    """The kinds of debug information in compiled models."""

    OBJECT = "object"
    """The bytes after the segments of shared objects."""
    KERNELS = "kernels"
    SOURCES = "sources"


EMBEDDED = f"{EXTRA_FOLDER}debug.ptdbg"
"""The companion that an archive holds itself; PyTorch returns it as the extra file ``debug.ptdbg``."""

EMBEDDED_IN_EXPORTED = "debug/model.ptdbg"
"""The same in a ``.pt2``: PyTorch reads nothing below ``debug/``, but assumes that extra files are UTF-8."""

MIGRATED = f"{EXTRA_FOLDER}migrated.ptdbg"
"""The backup that a migrated archive keeps of its original: see :mod:`archive.rewrite.migrate.aside`."""


class DebugRecord(NamedTuple):
    """A record of debug information: PyTorch runs the model without it.

    A new one is *carried* by its row in ``DEBUG_RECORDS``: ``split`` takes it out and ``join`` puts it back
    to the byte, ``inspect`` and ``sizes`` count it, ``diff`` compares its bytes, and it has no part in the
    identity of the model. ``migrate`` cannot rewrite it, and leaves it out only with consent.

    Attributes:
        name: its name; None for records of source ranges, which are named after code (``holds_ranges``).
        has_columns: a schema declares it. ``diff`` compares its columns, and ``sizes`` separates text from
            rows.
        leads_to_source: it leads from handles, or positions in code, to the model's source. ``split`` always
            takes it out.
    """

    kind: RecordKind
    name: str | None
    has_columns: bool = False
    leads_to_source: bool = False


DEBUG_RECORDS = (
    DebugRecord(RecordKind.RANGES, None, has_columns=True, leads_to_source=True),
    DebugRecord(RecordKind.DELEGATED, DELEGATED, has_columns=True, leads_to_source=True),
    DebugRecord(RecordKind.CALLSTACKS, CALLSTACK_MAP, has_columns=True, leads_to_source=True),
    DebugRecord(RecordKind.HANDLES, METHOD_HANDLES, has_columns=True),
    DebugRecord(RecordKind.PATHS, MODULE_PATHS, has_columns=True, leads_to_source=True),
    DebugRecord(RecordKind.COMPANION, EMBEDDED),
    DebugRecord(RecordKind.COMPANION, EMBEDDED_IN_EXPORTED),
    DebugRecord(RecordKind.ASIDE, MIGRATED),
)
"""Every record of debug information."""

DEBUG_KINDS = {record.kind for record in DEBUG_RECORDS}
KINDS_IN_COLUMNS = {record.kind for record in DEBUG_RECORDS if record.has_columns}
KINDS_TO_SOURCE = {record.kind for record in DEBUG_RECORDS if record.leads_to_source}

WEIGHT_KINDS = {RecordKind.TENSOR, RecordKind.EXTERNAL, RecordKind.NAMED}
"""Elements of tensors."""

RUN_KINDS = {
    RecordKind.MODULES,
    RecordKind.CONSTANTS,
    RecordKind.CODE,
    RecordKind.BYTECODE,
    RecordKind.PROGRAM,
    RecordKind.COMPILED,
    RecordKind.SHARED_OBJECT,
    RecordKind.CPP,
    RecordKind.EFFECTS,
    RecordKind.GRAPH,
    RecordKind.PYTHON,
}
"""What is run, or what modules are made of. What ``torch.save`` pickled isn't code."""

MAPS_TO_SOURCE = {RecordKind.KERNELS, RecordKind.INSTRUCTIONS, RecordKind.FRAMES}
"""Debug info of compiled models and of ExecuTorch that isn't carried as a `DebugRecord`: nothing runs it."""

GROUP_BY_KIND = {
    **dict.fromkeys(WEIGHT_KINDS, Group.WEIGHTS),
    **dict.fromkeys(RUN_KINDS, Group.CODE),
    **dict.fromkeys(DEBUG_KINDS | MAPS_TO_SOURCE, Group.DEBUG),
}
"""What each kind of records counts as; all others are ``OTHER``."""

PICKLED_KINDS = {RecordKind.MODULES, RecordKind.CONSTANTS, RecordKind.BYTECODE}
"""Kinds of model records that are pickles if their names end in ``.pkl``."""

KIND_BY_NAME = {
    **{record.name: record.kind for record in DEBUG_RECORDS if record.name is not None},
    DATA: RecordKind.MODULES,
    LEGACY_TREE: RecordKind.MODULES,
    ATTRIBUTES: RecordKind.MODULES,
    CONSTANTS: RecordKind.CONSTANTS,
    BYTECODE: RecordKind.BYTECODE,
    EFFECTS: RecordKind.EFFECTS,
    **dict.fromkeys(VERSION_RECORDS, RecordKind.FORMAT),
    BYTEORDER: RecordKind.FORMAT,
    RECORD_NAME: RecordKind.FORMAT,
    FORMAT_VERSION: RecordKind.FORMAT,
    STORAGE_ALIGNMENT: RecordKind.FORMAT,
}
KIND_BY_FOLDER = {
    EXTRA_FOLDER: RecordKind.EXTRA,
    COMPILED: RecordKind.OTHER,
    SAMPLE_INPUTS: RecordKind.OTHER,
    DATA_FOLDER: RecordKind.TENSOR,
    "tensors/": RecordKind.TENSOR,
    "constants/": RecordKind.TENSOR,
    **dict.fromkeys(CODE_FOLDERS, RecordKind.CODE),
}
FOLDER = re.compile("|".join(map(re.escape, KIND_BY_FOLDER)))
"""A folder in which all records are of a kind: what is asked of each of very many names."""
ETRECORD_KINDS = {
    ETRECORD: RecordKind.FORMAT,
    GRAPH_ID: RecordKind.FORMAT,
    EXPORTED: RecordKind.PROGRAM,
    **dict.fromkeys((HANDLES, DELEGATES, OUTPUTS), RecordKind.INSTRUCTIONS),
    "reference_outputs": RecordKind.INPUTS,
    "representative_inputs": RecordKind.INPUTS,
}
LEGACY_EXPORTED_KINDS = {
    LEGACY_PROGRAM: RecordKind.PROGRAM,
    "version": RecordKind.FORMAT,
    "serialized_example_inputs.pt": RecordKind.INPUTS,
}
KIND_BY_PATTERN = (
    (re.compile(r"\.data/\d+\.storage"), RecordKind.TENSOR),
    (re.compile(r"\.data/ts_code/\d+/data\.pkl"), RecordKind.MODULES),
    (re.compile(r"\.data/ts_code/\d+/constants\.pkl"), RecordKind.CONSTANTS),
)
"""Records of ``torch.package``. Others below ``.data/`` are about the archive itself."""


def kind_of(name: str) -> RecordKind:
    """The kind of a record, by its name without root."""
    if name in KIND_BY_NAME:
        return KIND_BY_NAME[name]
    if holds_ranges(name):
        return RecordKind.RANGES
    folder = FOLDER.match(name)
    if folder is not None:
        return KIND_BY_FOLDER[folder[0]]
    return next((kind for form, kind in KIND_BY_PATTERN if form.fullmatch(name)), RecordKind.OTHER)


def version_record(records: Container[str]) -> str | None:
    """The name of the record from which PyTorch reads the archive format's version; None if there is none."""
    return next((name for name in VERSION_RECORDS if name in records), None)


def place_of_companion(records: Container[str]) -> str:
    """The name of the record for an archive's companion, whether or not it has one."""
    return EMBEDDED_IN_EXPORTED if EXPORTED_FORMAT in records else EMBEDDED


def is_program(name: str) -> bool:
    """Whether a record of a ``.pt2`` is an exported program."""
    return name.startswith(PROGRAMS[0]) and name.endswith(PROGRAMS[1])


def kind_in_exported(name: str) -> RecordKind:
    """The kind of a record of a ``.pt2``, by its name without root.

    The names are those of ``torch/export/pt2_archive/constants.py``.
    """
    if name in (EXPORTED_FORMAT, "archive_version"):
        return RecordKind.FORMAT
    if name.startswith(COMPILED):
        if name.endswith(f"/{KERNELS}"):
            return RecordKind.KERNELS
        if name.endswith(SHARED_OBJECTS):
            return RecordKind.SHARED_OBJECT
        return RecordKind.CPP if name.endswith(".cpp") else RecordKind.COMPILED
    if name.startswith(PROGRAMS[0]):
        return RecordKind.PROGRAM
    if name.startswith(SAMPLE_INPUTS):
        return RecordKind.INPUTS
    if name.startswith(DATA_FOLDER) and name.endswith("_config.json"):
        return RecordKind.WEIGHTS
    return kind_of(name)


def kind_in_legacy_exported(name: str) -> RecordKind:
    """The kind of a record in what ``torch.export.save`` of PyTorch 2.1 to 2.7 wrote.

    2.1 wrote tensors into ``….json``, later releases into ``….pt``.
    """
    if name.startswith(("serialized_state_dict.", "serialized_constants.")):
        return RecordKind.TENSOR
    folder = RecordKind.EXTRA if name.startswith(LEGACY_EXTRA_FOLDER) else RecordKind.OTHER
    return LEGACY_EXPORTED_KINDS.get(name, folder)


def programs_in(names: Collection[str], root: str) -> dict[str, str]:
    """The records of exported programs by the programs' names; empty for archives of other kinds.

    Args:
        names: of the archive's records.
        root: the folder that they are in.
    """
    if EXPORTED_FORMAT in names:  # a file of a torch.package may have any name
        folder, ending = PROGRAMS
        return {
            record.removeprefix(folder).removesuffix(ending): record for record in divided_programs(names)
        }
    if LEGACY_PROGRAM in names and not root:
        return {ONLY_PROGRAM: LEGACY_PROGRAM}
    return {} if root else {name: name for name in divided_programs(names)}


def divided_programs(names: Collection[str]) -> list[str]:
    """The records of exported programs that ``split`` divides: the archive id leaves out their metadata."""
    if EXPORTED_FORMAT in names:
        return [name for name in names if is_program(name)]
    return [name for name in names if name + BESIDE[0] in names] if ETRECORD in names else []


def label_in(program: str, key: str) -> str:
    """The label of something in a program or compiled model: its key, after the name if a user chose one."""
    return key if program == ONLY_PROGRAM else f"{program}:{key}"


def inputs_of_program(name: str) -> str:
    """The record of the inputs with which a program was exported."""
    return f"{SAMPLE_INPUTS}{name}.pt"


def records_of_program(name: str) -> set[str]:
    """The names that the record of an exported program may have: see :func:`programs_in`."""
    folder, ending = PROGRAMS
    return {folder + name + ending, LEGACY_PROGRAM, name}


def kind_in_etrecord(name: str) -> RecordKind:
    """The kind of a record of an ETRecord."""
    if name in ETRECORD_KINDS:
        return ETRECORD_KINDS[name]
    *tensors, inputs = BESIDE
    if name.endswith(inputs):
        return RecordKind.INPUTS
    if name.endswith(tuple(tensors)):
        return RecordKind.TENSOR
    return RecordKind.PROGRAM if "/" in name else RecordKind.OTHER


PROGRAM_RECORD, FRAMES_RECORD, BLOBS, NAMED, SEGMENTS = "program", "frames", "blobs/", "named/", "segments/"
"""The records of ExecuTorch's programs besides tensors: :mod:`archive.formats.tensor_files.executorch`."""
EXECUTORCH_KINDS = {PROGRAM_RECORD: RecordKind.GRAPH, FRAMES_RECORD: RecordKind.FRAMES}
EXECUTORCH_FOLDERS = {DATA_FOLDER: RecordKind.TENSOR, BLOBS: RecordKind.COMPILED, NAMED: RecordKind.NAMED}


def kind_in_executorch(name: str) -> RecordKind:
    """The kind of a record of an ExecuTorch program."""
    if name in EXECUTORCH_KINDS:
        return EXECUTORCH_KINDS[name]
    folders = (kind for folder, kind in EXECUTORCH_FOLDERS.items() if name.startswith(folder))
    return next(folders, RecordKind.OTHER)


def is_code(name: str) -> bool:
    """Whether a record is generated code, which has source ranges."""
    return name.startswith(CODE_FOLDERS) and name.endswith(CODE[1])


def holds_ranges(name: str) -> bool:
    """Whether a record holds source ranges."""
    return (name.endswith(RANGES_SUFFIX) and not name.startswith(OF_LOADERS)) or is_legacy(name)


def is_legacy(name: str) -> bool:
    """Whether a record of source ranges is where PyTorch 1.2 put it."""
    return name.startswith(LEGACY_DEBUG[0]) and name.endswith(LEGACY_DEBUG[1])


def range_records_of(code: str) -> tuple[str, str]:
    """The names that the source ranges of a code record may have; PyTorch 1.2's is the last."""
    inner = code.removeprefix(CODE[0]).removesuffix(CODE[1])
    return code + RANGES_SUFFIX, LEGACY_DEBUG[0] + inner + LEGACY_DEBUG[1]


def module_of(code: str) -> str:
    """The module whose code a record has, with dots: ``__torch__.models.resnet``."""
    folder = PACKAGE_CODE if code.startswith(PACKAGE_CODE) else CODE[0]
    return code.removeprefix(folder).removesuffix(CODE[1]).replace("/", ".")


def code_record(module: str) -> str:
    """The record of a module's code in an archive that isn't a ``torch.package``."""
    folder, ending = CODE
    return folder + module.replace(".", "/") + ending


def code_of(debug: str) -> str:
    """The code record that a record of source ranges belongs to."""
    if debug.endswith(RANGES_SUFFIX):
        return debug.removesuffix(RANGES_SUFFIX)
    inner = debug.removeprefix(LEGACY_DEBUG[0]).removesuffix(LEGACY_DEBUG[1])
    return CODE[0] + inner + CODE[1]
