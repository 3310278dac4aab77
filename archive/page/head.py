"""The head of a page: the file, its kind, who may have written it, and the sums of what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError
from archive.describe.head import releases_named
from archive.describe.inspect import platforms_of
from archive.page.units import plain
from archive.reader.provenance import provenance
from archive.reader.recognition import ARCHIVE_KINDS, SAVED_KINDS, is_saved_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from archive.describe.sizes import Account
    from archive.page.shown import Shown
    from archive.reader.archive import Archive

    FactT = TypeVar("FactT")


def head(opened: Archive, account: Account, name: str, shown: Shown) -> dict[str, Any]:
    """The facts of a file without what was found in it; those that can't be read are empty.

    Args:
        name: the file's name, without folders.
    """
    nothing: tuple[str, Sequence[str]] = "", ()
    release, evidence = _read(lambda: _release(opened), nothing)
    return {
        "file": plain(name),
        "kind": opened.recognised.what,
        "release": release,
        "label": _read(lambda: "" if opened.companion is None else opened.companion.label, ""),
        "evidence": list(evidence),
        "platform": _read(lambda: " or ".join(platforms_of(opened) or ()), ""),
        "size": account.size,
        "debug_bytes": account.debug_bytes,
        "archive_id": _read(lambda: opened.archive_id, b"").hex(),
        "top": plain(_read(lambda: _top(opened), "")),
        "source": str(shown),
    }


def _top(opened: Archive) -> str:
    """The class of the object in ``data.pkl``; a dict, which may be long, is not read for it."""
    is_dict = opened.recognised.kind in SAVED_KINDS and is_saved_dict(opened.container)
    return "" if is_dict else opened.qualified_top


def _read(read: Callable[[], FactT], otherwise: FactT) -> FactT:
    try:
        return read()
    except ArchiveError:  # among the findings
        return otherwise


def _release(opened: Archive) -> tuple[str, Sequence[str]]:
    """The releases that may have written the file, and why."""
    if opened.recognised.kind in ARCHIVE_KINDS and opened.companion is None:
        origin = provenance(opened)
        against = [f"but {sign}" for sign in origin.against]
        return str(origin), [plain(str(sign)) for sign in (*origin.evidence, *against)]
    releases = releases_named(opened)
    evidence = [f"{name}: exported by PyTorch {release}" for release, name in releases.items()]
    return ", ".join(f"PyTorch {release}" for release in sorted(releases)), evidence
