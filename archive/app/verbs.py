"""The verbs, functions of the library that make a file of a file, by name; their options → a task."""

from __future__ import annotations

import importlib
import inspect
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError
from archive.batches.jobs import CompanionUse
from archive.batches.working import Task
from archive.reader.recognition import ARCHIVE_KINDS, SAVED_KINDS, FileKind
from archive.reader.recognition.kinds import FOLDER_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SHARED_OPTIONS = {"force", "limits", "dry_run"}
"""Options that are not a verb's own."""


class Verb(NamedTuple):
    """A function of the library that makes a file out of a file, and the kinds that it takes from folders."""

    home: str
    use: CompanionUse = CompanionUse.NONE
    kinds: Collection[FileKind] = ARCHIVE_KINDS


VERBS = {
    "split": Verb("archive.rewrite.split", CompanionUse.WRITTEN, FOLDER_KINDS["split"]),
    "join": Verb("archive.rewrite.join", CompanionUse.READ, FOLDER_KINDS["join"]),
    "shrink": Verb("archive.rewrite.shrink", kinds=FOLDER_KINDS["shrink"]),
    "restore": Verb("archive.rewrite.join", CompanionUse.EMBEDDED, FOLDER_KINDS["restore"]),
    "redact": Verb("archive.privacy.redact", CompanionUse.WRITTEN, FOLDER_KINDS["redact"]),
    "redact_companion": Verb("archive.privacy.redact.companions", kinds={FileKind.COMPANION}),
    "redact_metadata": Verb("archive.privacy.redact.metadata", kinds={FileKind.SAFETENSORS}),
    "redact_checkpoint": Verb("archive.privacy.redact.checkpoints", kinds=SAVED_KINDS),
    "migrate": Verb("archive.rewrite.migrate.migrate", kinds=FOLDER_KINDS["migrate"]),
    "lite": Verb("archive.backend.lite", kinds=FOLDER_KINDS["lite"]),
    "canonicalise": Verb("archive.rewrite.canonicalise", kinds={FileKind.EXPORTED}),
    "convert": Verb("archive.rewrite.convert", kinds={FileKind.COMPANION}),
}


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
