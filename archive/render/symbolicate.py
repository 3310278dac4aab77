"""What ``symbolicate`` prints besides text: facts for JSON, and the causes of a log's failures as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import counted, one_line

if TYPE_CHECKING:
    from archive.debuginfo.symbolicate import Symbolication, TracebackFrame
    from archive.failures.explainer import LogExplainer
    from archive.formats.exported.traces import FrameMark, Trace
    from archive.reader.lookups.instructions import MethodInstruction
    from archive.reader.lookups.kernels import CalledKernel
    from archive.reader.lookups.nodes import ProgramNode
    from archive.render.document_facts import (
        Causes,
        Frame,
        InstructionFacts,
        KernelFacts,
        Mark,
        NodeFacts,
        SymbolicationFacts,
    )
    from archive.render.fitted_table import Printed


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


def causes_text(explainer: LogExplainer, top: int | None) -> Printed:
    """The causes with most failures, as a table."""
    from archive.render.fitted_table import FittedTable  # noqa: PLC0415 (not for JSON)

    causes = explainer.causes.top(top)
    table = FittedTable([("failures", "number"), ("lines", "number"), ("place", "place"), ("cause", "text")])
    for group in causes:
        cause = group.cause
        lines = f"{group.first:,}" if group.count == 1 else f"{group.first:,}-{group.last:,}"
        place = f"{cause.file}:{cause.line}" if cause.file else "no single source line"
        place += f" ({', '.join(group.models)})" if group.models else ""
        text = ": ".join(part for part in (cause.where, cause.message) if part)
        table.add(f"{group.count:,}", lines, one_line(place), one_line(text))
    shown = sum(group.count for group in causes)
    below = [f"{counted(explainer.explained, 'failure')} explained, {explainer.unknown:,} not"]
    if shown < explainer.explained:
        below.append(f"{explainer.explained - shown:,} of other causes")
    return [table, "", *below]


def causes_facts(explainer: LogExplainer, top: int | None, models: int) -> Causes:
    """The causes of a log's failures.

    Args:
        explainer: has read it.
        top: how many causes; None for all.
        models: how many models there are.
    """
    return {
        "failures": explainer.explained + explainer.unknown,
        "models": models,
        "explained": explainer.explained,
        "ambiguous": explainer.ambiguous,
        "unexplained": explainer.unknown,
        "causes": [
            {
                "count": group.count,
                "first_line": group.first,
                "last_line": group.last,
                "first_time": group.first_time and group.first_time.text,
                "last_time": group.last_time and group.last_time.text,
                "models": list(group.models),
                "file": group.cause.file,
                "line": group.cause.line,
                "where": group.cause.where,
                "message": group.cause.message,
            }
            for group in explainer.causes.top(top)
        ],
        "notes": explainer.notes,
    }
