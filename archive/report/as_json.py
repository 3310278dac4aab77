"""Facts → JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from archive.base.errors import escaped
from archive.base.strings import StringView, Text

if TYPE_CHECKING:
    from archive.debuginfo.symbolicate import Symbolication, TracebackFrame
    from archive.failures.lookups.kernels import CalledKernel
    from archive.failures.lookups.nodes import Node
    from archive.formats.exported.traces import Trace


def as_json(value: object) -> str:
    """Facts (dataclasses, mappings, sequences) as indented JSON; no two texts become one."""
    import json  # noqa: PLC0415 (texts do without)

    return json.dumps(_plain(value), indent=2, ensure_ascii=False)


def json_escape(character: str) -> str:
    """A character as an escape of JSON: one, or two for a character beyond U+FFFF."""
    import json  # noqa: PLC0415 (texts do without)

    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def _plain(value: object) -> Any:  # noqa: ANN401 (JSON; one return a type)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {escaped(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | StringView | Text):
        return escaped(bytes(value).decode(errors="surrogateescape"))
    if isinstance(value, str):
        return escaped(value)
    return value


def symbolication_facts(symbolication: Symbolication) -> dict[str, object]:
    """A symbolication as :func:`as_json` takes it."""
    return {
        "handles": symbolication.handles,
        "found": not symbolication.missing,
        "module_hierarchy": symbolication.module_hierarchy,
        "ops": [None if entry.op is None else str(entry.op) for entry in symbolication.entries],
        "frames": [_frame(frame) for frame in symbolication.frames],
        "text": str(symbolication),
    }


def node_facts(node: Node) -> dict[str, object]:
    """A node of an exported program as :func:`as_json` takes it: the keys of a symbolication, and its own."""
    site = node.site
    return {
        "program": node.program.name,
        "node": site.key,
        "target": site.target,
        "found": node.is_traced,
        "module_hierarchy": node.hierarchy,
        "ops": [node.op],
        "frames": frames_facts(site.frames),
        "text": node.text,
        "modules": [{"path": one.path, "class": one.class_name} for one in site.modules],
        "trace": site.trace,
    }


def kernel_facts(called: CalledKernel) -> dict[str, object]:
    """A kernel as :func:`as_json` takes it, with the tracebacks of all nodes that it was made of."""
    kernel = called.kernel
    return {
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


def frames_facts(trace: Trace | None) -> list[dict[str, object]]:
    """The frames of a stack trace, with the keys of a symbolication's, and the mark below the source."""
    return [
        {
            "function": frame.function,
            "file": frame.file,
            "line": frame.line,
            "source": frame.code,
            "mark": None if frame.mark is None else frame.mark._asdict(),
        }
        for frame in ([] if trace is None else trace.frames)
    ]


def _frame(frame: TracebackFrame) -> dict[str, object]:
    span = frame.range
    if span is None or span.source.is_null:
        return {"function": frame.function, "file": None, "line": None, "source": None}
    return {
        "function": frame.function,
        "file": None if span.source.filename is None else str(span.source.filename),
        "line": span.line,
        "source": span.text,
    }
