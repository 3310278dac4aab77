"""The verbs, functions of the library that make a file of a file, by name; their options → a task."""

from __future__ import annotations

import importlib
import inspect
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError
from archive.batches.jobs import CompanionUse, plan
from archive.batches.working import Task
from archive.reader.recognition import SAVED_KINDS, FileKind
from archive.reader.recognition.kinds import FOLDER_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.batches.jobs import FilePlan

SHARED_OPTIONS = {"force", "limits", "dry_run"}
"""Options that are not a verb's own."""


class Verb(NamedTuple):
    """A function of the library that makes a file of a file: its module, and its use of companions."""

    home: str
    use: CompanionUse = CompanionUse.NONE


VERBS = {
    "split": Verb("archive.rewrite.split", CompanionUse.WRITTEN),
    "join": Verb("archive.rewrite.join", CompanionUse.READ),
    "shrink": Verb("archive.rewrite.shrink"),
    "restore": Verb("archive.rewrite.join", CompanionUse.EMBEDDED),
    "redact": Verb("archive.privacy.redact", CompanionUse.WRITTEN),
    "redact_companion": Verb("archive.privacy.redact.companions"),
    "redact_metadata": Verb("archive.privacy.redact.metadata"),
    "redact_checkpoint": Verb("archive.privacy.redact.checkpoints"),
    "migrate": Verb("archive.rewrite.migrate.migrate"),
    "lite": Verb("archive.backend.lite"),
    "canonicalise": Verb("archive.rewrite.canonicalise"),
    "convert": Verb("archive.rewrite.convert"),
}
VERB_KINDS = FOLDER_KINDS | {
    "redact_companion": {FileKind.COMPANION},
    "redact_metadata": {FileKind.SAFETENSORS},
    "redact_checkpoint": SAVED_KINDS,
    "canonicalise": {FileKind.EXPORTED},
    "convert": {FileKind.COMPANION},
}
"""The kinds of files that each verb takes from folders: those of its command, or some of them."""


def planned(verb: str, inputs: Sequence[str], out: str, companion: str | None, **settings: Any) -> FilePlan:  # noqa: ANN401 (those of plan)
    """The plan of a verb's work on files, folders and globs."""
    return plan(inputs, out, companion, VERBS[verb].use, VERB_KINDS[verb], **settings)


def task_of(verb: str, given: Mapping[str, Any], **settings: Any) -> Task:  # noqa: ANN401 (the fields of Task)
    """The task of a verb."""
    if verb not in VERBS:
        raise ArchiveError(expected=f"a verb: {', '.join(VERBS)}", found=verb)
    call = getattr(importlib.import_module(VERBS[verb].home), verb)
    parameters = inspect.signature(call).parameters.values()
    # Paths come first; ``convert`` takes its layout by position, too.
    shared = {"source", "companion", "out", *SHARED_OPTIONS}
    own = {parameter.name: parameter for parameter in parameters if parameter.name not in shared}
    for name in given:
        if name not in own:
            raise ArchiveError(expected=f"an option of {verb}: {', '.join(own)}", found=name)
    for name, parameter in own.items():
        if parameter.default is parameter.empty and name not in given:
            raise ArchiveError(f"{verb} needs the option {name}")
    defaults = {name: parameter.default for name, parameter in own.items() if name not in given}
    return Task(verb, call, dict(given), _noted({**defaults, **given}), **settings)


def _noted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a manifest has them: layouts by their names, releases by their numbers.

    Kinds, fingerprints and labels are left out where none are given, as in manifests from before there were
    some.
    """
    noted = {
        name: value.name.lower() if isinstance(value, Enum) else value for name, value in options.items()
    }
    for name in {"maps", "replace"} & noted.keys():
        noted[name] = list(noted[name])  # as JSON gives them back
    for name in {"keep", "drop"} & noted.keys():
        if kinds := sorted(set(noted.pop(name))):
            noted[name] = kinds
    for name in {"fingerprints", "label"} & noted.keys():
        if not noted[name]:
            del noted[name]
    if "to" in noted:
        from archive.rewrite.migrate.migrate import target_named  # noqa: PLC0415 (only migrations need it)

        noted["to"] = str(target_named(noted["to"]))
    return noted
