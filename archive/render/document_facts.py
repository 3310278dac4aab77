"""What documents of ``--json`` (:mod:`archive.render.documents`) say of a file, by command.

``docs/schemas`` is made of these classes and of their docstrings. Other facts are declared where they are
made: what became of a split file is :class:`~archive.rewrite.split.Split`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.diagnostics import Diagnostic
    from archive.batches.outcome import OutcomeKind
    from archive.compare.changes import Change
    from archive.compare.digest import Of
    from archive.debuginfo.profiles.saved import ProfileChange, SavedRow
    from archive.debuginfo.profiles.timeline import ProfileRow
    from archive.describe.sizes import Size, SizeChange, View, WeightSize
    from archive.privacy.leaks import LeakKind

# --- symbolicate


class Frame(TypedDict):
    """A frame of a call stack, innermost last.

    Attributes:
        function: its function; null where none is recorded.
        file: the source file; null where no source is recorded.
        line: the line, from 1.
        first_column: the first character of the range, from 1.
        last_line: the line of the range's last character.
        last_column: that character in it, from 1.
        source: the text of the range; of an exported program, the line.
        mark: what part of the line ran, in columns of a terminal; only of exported programs.
    """

    function: str | None
    file: str | None
    line: int | None
    first_column: NotRequired[int | None]
    last_line: NotRequired[int | None]
    last_column: NotRequired[int | None]
    source: str | None
    mark: NotRequired[Mark | None]


class Mark(TypedDict):
    """The mark below a line of code: blanks, tildes, carets, tildes."""

    start: int
    before: int
    carets: int
    after: int


class SymbolicationFacts(TypedDict):
    """The source of a debug handle, or of a chain of them.

    Attributes:
        handles: the handles, outermost first.
        found: whether all are known.
        module_hierarchy: the modules that lead to the operator.
        ops: the operator of each handle.
        frames: the call stack, outermost first.
        text: what PyTorch prints.
    """

    handles: Sequence[int]
    found: bool
    module_hierarchy: str
    ops: Sequence[str | None]
    frames: Sequence[Frame]
    text: str


class PositionFacts(TypedDict):
    """The source of a byte of generated code; ``text`` is null where none is recorded."""

    record: str
    byte: int
    text: bytes | None


class Symbolications(TypedDict):
    """The sources of handles and positions in one model."""

    file: str
    symbolications: Sequence[SymbolicationFacts]
    positions: Sequence[PositionFacts]


NodeModule = TypedDict("NodeModule", {"path": str, "class": str})
"""A module that leads to a node: its path and the name of its class."""


class NodeFacts(TypedDict):
    """A node of an exported program.

    Attributes:
        asked: the name that was asked for.
        program: the program that it is in.
        node: its name, after those of the graphs that it is in.
        target: what it calls: ``torch.ops.aten.linear.default``.
        found: whether its stack trace is recorded.
        module_hierarchy: the modules that lead to the operator.
        ops: the operator.
        frames: the stack trace, outermost first.
        text: what is printed of it.
        modules: those of the hierarchy, outermost first.
    """

    asked: str
    program: str
    node: str
    target: str
    found: bool
    module_hierarchy: str
    ops: Sequence[str]
    frames: Sequence[Frame]
    text: str
    modules: Sequence[NodeModule]


class Traceback(TypedDict):
    """A stack trace of one node that a kernel was made of."""

    frames: Sequence[Frame]
    text: str


class KernelFacts(TypedDict):
    """A kernel of a compiled model, and the stack traces of all nodes that it was made of."""

    asked: str
    model: str
    kernel: str
    handle: int | None
    found: bool
    pre_grad_nodes: Sequence[str]
    post_grad_nodes: Sequence[str]
    tracebacks: Sequence[Traceback]
    text: str


class InstructionFacts(TypedDict):
    """An instruction of an ETRecord's method, and the nodes that it stands for."""

    asked: str
    instruction: str
    method: str
    handles: Sequence[int]
    backend: str | None
    nodes: Sequence[str]


class NamedSources(TypedDict):
    """The sources of nodes, kernels and instructions of one file."""

    file: str
    symbolications: Sequence[NodeFacts]
    kernels: NotRequired[Sequence[KernelFacts]]
    instructions: NotRequired[Sequence[InstructionFacts]]


class CauseFacts(TypedDict):
    """Failures of a log that have the same cause.

    Attributes:
        count: how many.
        first_line: the line of the log in which the first begins, from 1.
        last_line: that of the last.
        first_time: the earliest time of one, as the log has it; null where no line has a time.
        last_time: the latest.
        models: the files that explain them; of one model, none.
        file: the source file of the innermost line; "" where it is not known, or one of several.
        line: its number, from 1; 0 where there is no file.
        where: the module hierarchy, or the function of the innermost frame.
        message: the wording of the message; "" where it is not known.
    """

    count: int
    first_line: int
    last_line: int
    first_time: str | None
    last_time: str | None
    models: Sequence[str]
    file: str
    line: int
    where: str
    message: str


class Causes(TypedDict):
    """The failures of a log by their causes, the most frequent first."""

    failures: int
    models: int
    explained: int
    ambiguous: int
    unexplained: int
    causes: Sequence[CauseFacts]
    notes: Sequence[str]


class LogCauses(Causes):
    """The failures of a log; ``-`` is the name of standard input."""

    file: str


# --- inspect --source


# --- verify, leaks, digest


class Verified(TypedDict):
    """What was found wrong in a file; nothing in one that is well.

    Attributes:
        file: its name.
        diagnostics: what is wrong, or worth knowing.
        checked: what was looked at, in sentences; empty for stores.
    """

    file: str
    diagnostics: Sequence[Diagnostic]
    checked: NotRequired[Sequence[str]]


class FoundAt(TypedDict):
    """A place of a text.

    Attributes:
        record: the record's name, or another piece of the file.
        byte: of the record; null where there is none, as in names.
        within: the path in the record's JSON.
    """

    record: str
    byte: int | None
    within: NotRequired[str]


class FindingFacts(TypedDict):
    """A text that gives something away.

    Attributes:
        kind: what it is.
        text: the text.
        count: how often it was found.
        places: the first places.
        counted: whether it makes the exit status 1.
        allowed: whether a pattern allows it.
        remedy: how it gets out.
    """

    kind: LeakKind
    text: bytes
    count: int
    places: Sequence[FoundAt]
    counted: bool
    allowed: bool
    remedy: str


class LeaksFacts(TypedDict):
    """What a file gives away.

    Attributes:
        file: its name.
        kind: its kind.
        findings: the texts.
        more: by kind, how many further findings are of texts that are not listed.
        read: the bytes that were searched, as stored and inflated.
        passed_over: bytes of tensors that were not.
        problems: what could not be read.
    """

    file: str
    kind: str
    findings: Sequence[FindingFacts]
    more: Mapping[str, int]
    read: int
    passed_over: int
    problems: Sequence[str]


class DigestFacts(TypedDict):
    """The digest of a file; ``expected`` and ``same`` where it is compared with a list.

    ``left_out`` is how many weights lack the prefix that others have.
    """

    file: str
    of: NotRequired[Of]
    digest: NotRequired[str]
    parts: NotRequired[Mapping[str, str]]
    left_out: NotRequired[int]
    error: NotRequired[str]
    expected: NotRequired[str]
    same: NotRequired[bool]


# --- sizes


class FileHead(TypedDict):
    """A file, its size, and its bytes of debug info."""

    file: str
    size: int
    debug_bytes: int


class VerdictFacts(TypedDict):
    """The outcome of a budget.

    Attributes:
        glob: the glob in the file of budgets that gave it; null for one of the command line.
        label: one of the view; "debug" for all debug records; "" for the file.
        growth: whether it bounds the difference from the base file.
        most: the bound in bytes.
        measured: stored bytes, or those by which they grew; null if that was not checked.
        over: bytes over the budget; 0 if it is kept, or was not checked.
        problem: why it was not checked; "" if it was.
    """

    glob: str | None
    label: str
    growth: bool
    most: int
    measured: int | None
    over: int
    problem: str


class SizesFacts(FileHead):
    """Where the bytes of a file go, by label of a view."""

    by: View
    labels: Mapping[str, Size]
    budgets: Sequence[VerdictFacts]


class WeightsFacts(FileHead):
    """Where the bytes of a file go, by tensor, or by module where ``--depth`` is given."""

    by: Literal["weights"]
    labels: Mapping[str, WeightSize]
    budgets: Sequence[VerdictFacts]


class ChangesFacts(FileHead):
    """What changed since ``base``, which is null where there is no such file, by label of a view."""

    by: View
    base: FileHead | None
    labels: Mapping[str, SizeChange]
    budgets: Sequence[VerdictFacts]


# --- report


class ReportFacts(TypedDict):
    """A page that was written about a file.

    Attributes:
        file: the file.
        out: the page.
        kind: of the file, in words.
        size: of the file, in bytes.
        debug_bytes: those of its debug info.
        findings: how many errors and warnings the page lists.
        page_size: bytes of the page.
        source: how much of the model's source it shows.
        left_out: what it has no place for, each a sentence.
    """

    file: str
    out: str
    kind: str
    size: int
    debug_bytes: int
    findings: int
    page_size: int
    source: Literal["full", "basename", "none"]
    left_out: Sequence[str]


# --- diff


class DiffSide(TypedDict):
    """One of two files."""

    file: str
    kind: str


class DiffFacts(TypedDict):
    """The difference of two files; of folders, ``file`` is their relative path.

    Attributes:
        identical: whether both are the same to the byte.
        same_model: whether all that belongs to the model was compared, and is the same.
        unchecked: what was not compared, each a sentence.
        changes: the differences, model first and layout last.
    """

    file: NotRequired[str]
    old: DiffSide
    new: DiffSide
    identical: bool
    same_model: bool
    unchecked: Sequence[str]
    changes: Sequence[Change]


class Lonely(TypedDict):
    """A file that only one of two folders has."""

    file: str
    status: Literal["gone", "added"]


# --- commands that make files


class Made(TypedDict):
    """What became of a file. The other keys are the command's own, where it has done its work.

    Attributes:
        file: the input.
        out: the file that was written, or would be.
        companion: the same of the companion.
        outcome: what became of it.
        reason: why, where that is not as usual.
    """

    file: str
    out: NotRequired[str]
    companion: NotRequired[str]
    outcome: OutcomeKind
    reason: NotRequired[str]


# --- stores


class EntryFacts(TypedDict):
    """A companion in a store.

    Attributes:
        archive_id: of its archive, in hex.
        redacted_id: that of the redacted archive that it fits, too; "" for none.
        prefix: of unique handles; 0 for none.
        serialization_id: of its archive.
        top: class of the top module.
        qualified_top: the same with its module.
        root: the root folder of its archive.
        file: the file that was added.
        added: when, in seconds since 1970.
        size: bytes of the companion.
        kept_size: bytes that the store keeps of it.
        digest: of its bytes.
        handles: its debug handles, as first and last of each run.
        code: its records of generated code.
    """

    archive_id: str
    redacted_id: str
    prefix: int
    serialization_id: str
    top: str
    qualified_top: str
    root: str
    file: str
    added: int
    size: int
    kept_size: int
    digest: str
    handles: Sequence[Sequence[int]]
    code: Sequence[str]


class AddedFacts(TypedDict):
    """What became of a file that was to be added; the other keys are those of ``store ls``."""

    file: str
    outcome: str
    reason: NotRequired[str]


class GivenFacts(EntryFacts):
    """A companion that was written to ``output``; ``exact`` is whether it is what was added, to the byte."""

    output: str
    exact: bool


class RemovedFacts(TypedDict):
    """A companion that was removed."""

    archive_id: str
    outcome: Literal["removed"]


class CleanedFacts(TypedDict):
    """What was removed from a store.

    Attributes:
        file: the store.
        drafts: files that killed processes had left.
        bases: bases that no companion needed any more.
        repacked: companions that are stored as a difference from a base now.
        freed: bytes.
        claims: claims of prefixes for archives of which nothing is kept; null in a folder, which has none.
    """

    file: str
    drafts: int
    bases: int
    repacked: int
    freed: int
    claims: int | None


# --- profile, demo


class ProfileFacts(TypedDict):
    """A run of a model; times are in ns, of all runs.

    Attributes:
        file: the archive.
        backend: what ran the model.
        operations: how many ran.
        total_ns: all self times together.
        peak_bytes: the most memory at a time; null if none was recorded.
        of_allocator: whether it is that of PyTorch's allocator.
        runs: how often the model ran.
        module: the rows by module.
        line: by line.
        operator: by operator.
        instruction: by instruction of ExecuTorch; of ETDumps with their ETRecord.
        delegate: by backend that ExecuTorch calls; of ETDumps.
        methods: how often each ran; of ETDumps with their ETRecord.
        whole_ns: of runs as ExecuTorch's runtime has them; null where one did not end; of ETDumps.
        left_out: what backends noted outside of the times of their calls; of ETDumps.
    """

    file: str
    backend: str
    operations: int
    total_ns: int
    peak_bytes: int | None
    of_allocator: bool
    runs: int
    module: Sequence[ProfileRow]
    line: Sequence[ProfileRow]
    operator: Sequence[ProfileRow]
    instruction: NotRequired[Sequence[ProfileRow]]
    delegate: NotRequired[Sequence[ProfileRow]]
    methods: NotRequired[Mapping[str, int]]
    whole_ns: NotRequired[int | None]
    left_out: NotRequired[int]


class SavedProfileFacts(TypedDict):
    """A saved profile by one view; times are in ns, per run."""

    file: str
    total_ns: float
    module: NotRequired[Sequence[SavedRow]]
    line: NotRequired[Sequence[SavedRow]]
    operator: NotRequired[Sequence[SavedRow]]
    instruction: NotRequired[Sequence[SavedRow]]
    delegate: NotRequired[Sequence[SavedRow]]


class ProfileComparison(TypedDict):
    """What changed since a saved profile; times are in ns, per run."""

    file: str
    before_ns: float
    after_ns: float
    changes: Sequence[ProfileChange]


class DemoFacts(TypedDict):
    """What the demo showed, a key a step; ``problem`` is null where every claim held."""

    file: str
    kept: bool
    steps: Mapping[str, Any]
    seconds: Mapping[str, float]
    problem: str | None
