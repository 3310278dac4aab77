"""What is done to each file of a batch: a function of the library, by its name, and its options."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.batches.jobs import Use
from archive.reader.recognition import (
    ARCHIVE_KINDS,
    JOINED_KINDS,
    REDACTED_KINDS,
    SHRUNK_KINDS,
    SPLIT_KINDS,
    FileKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

FOR_ALL = {"force", "limits", "dry_run"}
"""Options that are not a verb's own."""


class Verb(NamedTuple):
    """A function of the library that makes a file out of a file.

    Attributes:
        home: its module.
        use: whether it reads or writes companions.
        kinds: the kinds of files that it takes from folders.
    """

    home: str
    use: Use = Use.NONE
    kinds: Collection[FileKind] = ARCHIVE_KINDS


VERBS = {
    "split": Verb("archive.rewrite.split", Use.WRITTEN, SPLIT_KINDS),
    "join": Verb("archive.rewrite.split", Use.READ, JOINED_KINDS),
    "shrink": Verb("archive.rewrite.shrink", kinds=SHRUNK_KINDS),
    "restore": Verb("archive.rewrite.shrink", Use.EMBEDDED, SHRUNK_KINDS),
    "redact": Verb("archive.privacy.redact", Use.WRITTEN, REDACTED_KINDS),
    "redact_companion": Verb("archive.privacy.redact.companions", kinds={FileKind.COMPANION}),
    "migrate": Verb("archive.rewrite.migrate.migrate"),
    "lite": Verb("archive.backend.lite"),
    "canonicalise": Verb("archive.rewrite.canonicalise", kinds={FileKind.EXPORTED}),
    "convert": Verb("archive.rewrite.convert", kinds={FileKind.COMPANION}),
}


@dataclass(frozen=True, slots=True)
class Task:
    """What is done to each file. It can be pickled.

    Attributes:
        verb: the name of what is done.
        call: the function, which takes a job's paths, ``force``, ``limits`` and the options.
        options: what it is called with.
        noted: the same for the manifest: other options make another file.
        limits: what a hostile file may cost.
        force: replace existing files.
        mapped: map the files that are read.
        dry_run: write nothing, and tell what would be written.
        many: whether files are told in a manifest, for which digests are taken.
    """

    verb: str
    call: Callable[..., Any]
    options: Mapping[str, Any]
    noted: Mapping[str, Any]
    limits: Limits = DEFAULT_LIMITS
    force: bool = False
    mapped: bool = True
    dry_run: bool = False
    many: bool = False


def task_of(verb: str, given: Mapping[str, Any], **settings: Any) -> Task:  # noqa: ANN401 (the fields of Task)
    """The task of a verb.

    Args:
        verb: its name.
        given: its options by name; the others are as usual.
        settings: further fields of the task.

    Raises:
        ArchiveError: there is no such verb, or it has no such option.
    """
    if verb not in VERBS:
        raise ArchiveError(expected=f"a verb: {', '.join(VERBS)}", found=verb)
    call = getattr(importlib.import_module(VERBS[verb].home), verb)
    parameters = inspect.signature(call).parameters.values()
    # Paths come first; ``convert`` takes its profile by position, too.
    own = {one.name: one for one in parameters if one.name not in {"source", "companion", "out", *FOR_ALL}}
    for name in given:
        if name not in own:
            raise ArchiveError(expected=f"an option of {verb}: {', '.join(own)}", found=name)
    for name, parameter in own.items():
        if parameter.default is parameter.empty and name not in given:
            raise ArchiveError(f"{verb} needs the option {name}")
    defaults = {name: one.default for name, one in own.items() if name not in given}
    return Task(verb, call, dict(given), _noted({**defaults, **given}), **settings)


def _noted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a manifest tells them: profiles and levels by their names, releases by their numbers.

    No kinds are told where none are given, as in manifests from before there were some.
    """
    noted = {name: one.name.lower() if isinstance(one, Enum) else one for name, one in options.items()}
    for name in {"keep", "drop"} & noted.keys():
        if kinds := sorted(set(noted.pop(name))):
            noted[name] = kinds
    if not noted.get("fingerprints", True):  # nor that there are none
        del noted["fingerprints"]
    if "maps" in noted:
        noted["maps"] = list(noted["maps"])  # as JSON gives them back
    if "to" in noted:
        from archive.rewrite.migrate.migrate import target_named  # noqa: PLC0415 (a migration's alone)

        noted["to"] = str(target_named(noted["to"]))
    return noted
