"""What ``symbolicate`` prints besides its text: JSON, and the causes of a log's failures as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypeAlias, TypedDict

from archive.base.errors import counted, several
from archive.render.texts import runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.tables import Holds
    from archive.debuginfo.symbolicate import Style, Symbolication, TracebackFrame
    from archive.failures.explainer import LogExplainer
    from archive.formats.exported.traces import FrameMark, Trace
    from archive.reader.archive import Archive
    from archive.reader.lookups.framed import FramedInstruction
    from archive.reader.lookups.instructions import MethodInstruction
    from archive.reader.lookups.kernels import CalledKernel
    from archive.reader.lookups.nodes import ProgramNode
    from archive.render.fitted_table import Printed

# --- handles and positions


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


def symbolication_facts(symbolication: Symbolication) -> SymbolicationFacts:
    """A symbolication as ``as_json`` takes it."""
    return {
        "handles": symbolication.handles,
        "found": not symbolication.missing,
        "module_hierarchy": symbolication.module_hierarchy,
        "ops": [None if entry.op is None else str(entry.op) for entry in symbolication.entries],
        "frames": [_frame(frame) for frame in symbolication.frames],
        "text": str(symbolication),
    }


def _frame(frame: TracebackFrame) -> Frame:
    span = frame.range
    function = _decoded(frame.function)
    if span is None or span.source.is_null:
        return {"function": function, "file": None, "line": None, "source": None}
    first, last = span.ends
    return {
        "function": function,
        "file": None if span.source.filename is None else str(span.source.filename),
        "line": first.line,
        "first_column": first.column,
        "last_line": last.line,
        "last_column": last.column,
        "source": _decoded(span.text),
    }


def _decoded(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


# --- nodes, kernels and instructions


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


class FramedFacts(TypedDict):
    """An instruction of a program of ExecuTorch, with the frames that it has of it."""

    asked: str
    instruction: str
    method: str
    operation: str
    found: bool
    frames: Sequence[Frame]
    text: str


class FramedSources(TypedDict):
    """The sources of instructions of a program of ExecuTorch."""

    file: str
    instructions: Sequence[FramedFacts]


def framed_facts(asked: str, one: FramedInstruction) -> FramedFacts:
    """An instruction of a program of ExecuTorch."""
    return {
        "asked": asked,
        "instruction": f"{one.method}/0:{one.number}",
        "method": one.method,
        "operation": one.operation,
        "found": one.trace is not None,
        "frames": frames_facts(one.trace),
        "text": one.text,
    }


def node_facts(asked: str, node: ProgramNode) -> NodeFacts:
    """A node of an exported program: the keys of a symbolication, and its own."""
    site = node.site
    return {
        "asked": asked,
        "program": node.program.name,
        "node": site.key,
        "target": site.target,
        "found": node.is_traced,
        "module_hierarchy": node.hierarchy,
        "ops": [node.op],
        "frames": frames_facts(site.frames),
        "text": node.text,
        "modules": [{"path": module.path, "class": module.class_name} for module in site.modules],
    }


def kernel_facts(asked: str, called: CalledKernel) -> KernelFacts:
    """A kernel, with the tracebacks of all nodes that it was made of."""
    kernel = called.kernel
    return {
        "asked": asked,
        "model": called.model.name,
        "kernel": kernel.name,
        "handle": kernel.handle,
        "found": called.is_traced,
        "pre_grad_nodes": kernel.pre_grad_nodes,
        "post_grad_nodes": kernel.post_grad_nodes,
        "tracebacks": [
            {"frames": frames_facts(trace), "text": text}
            for trace, text in zip(kernel.traces, kernel.stack_traces, strict=True)
        ],
        "text": called.text,
    }


def instruction_facts(asked: str, place: MethodInstruction) -> InstructionFacts:
    """An instruction of an ETRecord's method."""
    delegate = place.instruction.delegate
    return {
        "asked": asked,
        "instruction": place.label,
        "method": place.method,
        "handles": place.instruction.handles,
        "backend": None if delegate is None else delegate.backend,
        "nodes": [node.site.key for node in place.nodes],
    }


def frames_facts(trace: Trace | None) -> list[Frame]:
    """The frames of a stack trace, with the keys of a symbolication's, and the mark below the source."""
    return [
        {
            "function": frame.function,
            "file": frame.file,
            "line": frame.line,
            "source": frame.code,
            "mark": None if frame.mark is None else _mark(frame.mark),
        }
        for frame in ([] if trace is None else trace.frames)
    ]


def _mark(mark: FrameMark) -> Mark:
    return {"start": mark.start, "before": mark.before, "carets": mark.carets, "after": mark.after}


class SourceOfHandles(SymbolicationFacts):
    """The source of the debug handles of one failure in TorchScript; ``notes`` say why there is none."""

    notes: Sequence[str]


class NodesOfHandles(TypedDict):
    """The nodes that a debug handle stands for in a program which was lowered in parts.

    Attributes:
        handles: as they were asked for; a node has one.
        found: whether the stack traces of all are recorded.
        text: what is printed of all of them.
        symbolications: one node; of several programs, one each may have that handle.
        notes: why a handle or a stack trace is unknown.
    """

    handles: Sequence[int]
    found: bool
    text: str
    symbolications: Sequence[NodeFacts]
    notes: Sequence[str]


HandlesAnswer: TypeAlias = SourceOfHandles | NodesOfHandles
"""What a server says of handles."""


def handle_facts(opened: Archive, handles: Sequence[int], style: Style, name: str) -> HandlesAnswer:
    """The source of the handles of one failure, inner ones first; notes call the model by a name."""
    from archive.reader.lookups import handles as lookups  # noqa: PLC0415 (not where sources are known)
    from archive.reader.lookups.nodes import why_unknown  # noqa: PLC0415 (the same)

    lowered = lookups.lowered_sources(opened, [handles])
    if lowered is None:
        symbolication = opened.symbolicate(handles, style)
        missing = symbolication.missing
        notes = [f"{name} {why_missing(opened, missing)}"] if missing else []
        return {**symbolication_facts(symbolication), "notes": notes}
    word, (nodes,) = ",".join(map(str, handles)), lowered
    lost = lookups.why_untraced(opened, nodes) if nodes else [why_unknown(opened.programs, word)]
    return {
        "handles": handles,
        "found": bool(nodes) and not lost,
        "text": "\n".join(node.text for node in nodes),
        "symbolications": [node_facts(word, node) for node in nodes],
        "notes": [f"{name}: {why}" for why in lost],
    }


def why_missing(opened: Archive, missing: Sequence[int]) -> str:
    """The reason why handles of TorchScript are unknown, which goes after the file's name."""
    from archive.reader.lacking import why_no_handles  # noqa: PLC0415 (not where sources are known)

    if opened.handles:
        named = (opened.handle_form.foreign(str(handle)) for handle in missing)
        has = next(filter(None, named), "") or f"it has {runs(list(opened.handles))}"
        return f"has no debug handle {', '.join(map(str, missing))}; {has}"
    return (
        _of_instructions(opened, missing[0])
        if opened.instructions
        else f"has no debug handles: {why_no_handles(opened)}"
    )


def _of_instructions(opened: Archive, handle: int) -> str:
    """The debug handles of an ETRecord's instructions, in words, and which instructions have one of them."""
    every = {
        f"{method}/0:{number}": instruction
        for method, instructions in opened.instructions.items()
        for number, instruction in instructions.items()
    }
    own = [
        name
        for name, instruction in every.items()
        if handle in instruction.handles
        or (instruction.delegate and str(handle) in instruction.delegate.events)
    ]
    handles = runs([handle for instruction in every.values() for handle in instruction.handles])
    if own:
        return f"has the debug handle {handle} in {several(own)}: give an instruction in its place"
    example = next(iter(every))
    return (
        f"has no debug handle {handle}: its instructions have {handles or 'none'}; give one, like {example}"
    )


# --- causes of a log's failures


class CauseFacts(TypedDict):
    """Failures of a log that have the same cause.

    Attributes:
        count: how many.
        proven: how many of them the log proves to be of their models, by a unique handle, an id or a name of
            the model, or a hash of a redaction. The others are explained because nothing contradicts it.
        first_line: the line of the log in which the first begins, from 1.
        last_line: that of the last.
        first_time: the earliest time of one, as the log has it; null where no line has a time.
        last_time: the latest.
        models: the files that explain them; of one model, none.
        file: the source file of the innermost line; "" where it is not known, or one of several.
        line: its number, from 1; 0 without a file.
        where: the module hierarchy, or the function of the innermost frame.
        message: their message; if it differs in numbers, types or devices, with ``#``, ``<T>`` and ``<D>``
            for these; "" where it is not known.
    """

    count: int
    proven: int
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
    lacking: int
    unexplained: int
    causes: Sequence[CauseFacts]
    notes: Sequence[str]


class LogCauses(Causes):
    """The failures of a log; ``-`` is the name of standard input."""

    file: str


def causes_facts(explainer: LogExplainer, top: int | None, models: int) -> Causes:
    """The causes of a log's failures.

    Args:
        top: how many causes; None for all.
    """
    return {
        "failures": explainer.explained + explainer.unknown,
        "models": models,
        "explained": explainer.explained,
        "ambiguous": explainer.ambiguous,
        "lacking": explainer.lacking,
        "unexplained": explainer.unknown,
        "causes": [
            {
                "count": group.count,
                "proven": group.proven,
                "first_line": group.first,
                "last_line": group.last,
                "first_time": group.first_time and group.first_time.text,
                "last_time": group.last_time and group.last_time.text,
                "models": list(group.models),
                "file": group.cause.file,
                "line": group.cause.line,
                "where": group.cause.where,
                "message": group.message,
            }
            for group in explainer.causes.top(top)
        ],
        "notes": explainer.notes,
    }


def causes_text(explainer: LogExplainer, top: int | None) -> Printed:
    """The causes with most failures, as a table."""
    from archive.render.fitted_table import FittedTable  # noqa: PLC0415 (not for JSON)

    causes = explainer.causes.top(top)
    has_models = any(group.models for group in causes)
    model: list[tuple[str, Holds]] = [("model", "name")] * has_models
    columns: list[tuple[str, Holds]] = [("failures", "number"), ("proven", "text"), ("lines", "number")]
    table = FittedTable([*columns, ("place", "place"), *model, ("cause", "text")])
    for group in causes:
        cause = group.cause
        lines = f"{group.first:,}" if group.count == 1 else f"{group.first:,}-{group.last:,}"
        place = f"{cause.file}:{cause.line}" if cause.file else "no single source line"
        models = [", ".join(group.models)] * has_models
        text = ": ".join(part for part in (cause.where, group.message) if part)
        table.add(group.count, group.is_proven, lines, place, *models, text)
    shown = sum(group.count for group in causes)
    below = [f"{counted(explainer.explained, 'failure')} explained, {explainer.unknown:,} not"]
    if shown < explainer.explained:
        below.append(f"{explainer.explained - shown:,} of other causes")
    return [table, "", *below]
