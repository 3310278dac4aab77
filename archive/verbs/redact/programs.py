"""Stack traces of exported programs with other paths, and without lines of code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import ImpossibleError
from archive.formats.exported.json_text import read_json
from archive.formats.exported.kinds import STACK_TRACE
from archive.formats.exported.rewriting import with_metadata
from archive.formats.exported.traces import Trace, build_trace

if TYPE_CHECKING:
    from archive.formats.exported.program import NodeSite
    from archive.reader.archive import Archive
    from archive.verbs.redact.rules import Removed, Rules

FILE = re.compile(r'File "([^"\n]+)"')


def redacted_programs(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes]:
    """The records of all programs with other stack traces, by name.

    Raises:
        ImpossibleError: ``json.dumps`` did not write one of them, so that no companion would give it again.
        LimitError: they would take more memory than allowed.
    """
    if opened.programs.whole:
        why = f"{opened.programs.whole[0]} cannot be redacted: its JSON is not as PyTorch writes it"
        raise ImpossibleError(why, file=opened.file)
    sites = [site for program in opened.programs.values() for site in program.sites.values()]
    names = rules.renamed(_bytes(file) for site in sites for file in _files(site))
    removed.renamed(names)
    made = {}
    for name, record in opened.programs.records.items():
        program = opened.programs[name]
        metadata = [_redacted(site, rules, names, removed) for site in program.sites.values()]
        made[record] = with_metadata(read_json(opened.records[record].view(), opened.allowance), metadata)
        opened.allowance.take(len(made[record]), "bytes of a record", record=record)
    return made


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _files(site: NodeSite) -> list[str]:
    """The files in a node's stack trace."""
    if site.frames is not None:
        return [frame.file for frame in site.frames.frames]
    return FILE.findall(site.trace or "")


def _redacted(site: NodeSite, rules: Rules, names: dict[bytes, bytes], removed: Removed) -> dict[str, str]:
    """A node's metadata. A stack trace that is none as Python prints them goes."""
    metadata = dict(site.metadata)
    if site.trace is None:
        return metadata
    if site.frames is None:
        del metadata[STACK_TRACE]
        for line in _bytes(site.trace).split(b"\n"):
            removed.line(line, kept=False)
        removed.paths.update(map(_bytes, _files(site)))
        return metadata
    frames = []
    for one in site.frames.frames:
        file = str(names[_bytes(one.file)], "utf-8", "surrogatepass")
        bare = rules.source == "none"
        for line in _bytes(one.code or "").split(b"\n"):
            removed.line(line, kept=not bare)
        frame = one._replace(file=file)
        frames.append(frame._replace(code=None, mark=None) if bare else frame)
    _, indented, ended = site.frames
    metadata[STACK_TRACE] = build_trace(Trace(tuple(frames), indented, ended))
    return metadata
