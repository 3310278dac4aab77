"""The outcome of a command that makes files → text: a summary of a single one, or a line a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import counted, one_line
from archive.render.fitted_table import TOTAL, FittedTable
from archive.render.texts import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.backend.lite import Lite
    from archive.render.fitted_table import Printed
    from archive.rewrite.canonicalise import Canonical
    from archive.rewrite.convert import Conversion
    from archive.rewrite.join import Join
    from archive.rewrite.shrink import Shrinkage
    from archive.rewrite.split import Split

SAME_FILE = "the original file, byte for byte"
SAME_RECORDS = "the original records, byte for byte, in a zip with another layout"
RECORDS_ONLY = "its records, not the file's bytes: another layout"
NO_HANDLES = "failures on a device name no handles"
LITE = "`debug-archive lite` writes an archive with handles, of the .pt"
ANOTHER_FILE = (
    "not the original file: archive and companion are of two files of one model, or one was rewritten"
)


class Sized(NamedTuple):
    """A file and its size in bytes."""

    name: str
    size: int

    def __str__(self) -> str:
        return one_line(self.name)


def split_text(facts: Split, file: Sized, out: Sized, companion: Sized) -> Printed:
    """The summary of a split."""
    left = " and ".join(["model", *["debug handles"] * bool(facts.kept), *facts.kept_kinds])
    return [
        sizes_table(file.size, (file, "the original"), (out, left), (companion, "debug info")),
        "",
        *facts.refused,
        *(f"{name} stayed{_names(facts)}" for name in facts.kept),
        *_stayed(facts),
        *([f"{NO_HANDLES}: {facts.no_handles}; {LITE}"] if facts.no_handles else []),
        f"`debug-archive join` gives {SAME_FILE if facts.exact else SAME_RECORDS}",
    ]


def _stayed(facts: Split | Shrinkage) -> Iterator[str]:
    """The lines about debug info that stayed in a ``.pt2``."""
    yield from (f"{kind} stayed{_USES.get(kind, '')}" for kind in facts.kept_kinds)
    yield from (f"{name} stayed as it is: its JSON is not as PyTorch writes it" for name in facts.whole)
    yield from (f"{name} stayed whole: {why}" for name, why in facts.whole_objects.items())


_USES = {
    "modules": ", which torch.export.unflatten needs",
    "debug handles": ", which ExecuTorch's Inspector needs",
}


def _names(facts: Split) -> str:
    """The failures' names on a device, by the handles that stayed."""
    if facts.refused:
        return ""
    if facts.prefix:
        return f": failures on a device name their handles and the archive, {facts.prefix}"
    but = f", not the archive: handle {facts.largest} has more than 8 digits" if facts.largest else ""
    return f": failures on a device still name their handles{but}"


def join_text(facts: Join, file: Sized, out: Sized, companion: Sized | None = None) -> Printed:
    """The summary of a join, or of a restoration, which has no companion."""
    halves = [(file, "model with embedded debug info" if companion is None else "model")]
    halves += [] if companion is None else [(companion, "debug info")]
    return [
        sizes_table(
            out.size,
            *halves,
            (out, f"with {_came_back(facts)} again"),
        ),
        "",
        f"{out} {'is' if facts.exact or facts.another else 'has'} {_joined(facts)}",
    ]


def _joined(facts: Join) -> str:
    if facts.another:
        return ANOTHER_FILE
    return SAME_FILE if facts.exact else SAME_RECORDS


def _came_back(facts: Join) -> str:
    """The debug info that a join put back."""
    parts = [f"its {counted(facts.records, 'debug record')}"] if facts.records else []
    parts += [f"the metadata of {counted(facts.programs, 'exported program')}"] if facts.programs else []
    parts += [f"all of {counted(facts.objects, 'shared object')}"] if facts.objects else []
    return ", ".join(parts[:-1]) + " and " * bool(parts[1:]) + "".join(parts[-1:])


def shrink_text(facts: Shrinkage, file: Sized, out: Sized) -> Printed:
    """The summary of a shrink: the bytes a kind of record, and who can read what is left."""
    table = FittedTable.of("kind", "before", "after", "%")
    kinds = sorted(facts.kinds.items(), key=lambda kind: max(kind[1]), reverse=True)
    for kind, (before, after) in kinds:
        table.add(kind, f"{before:,}", f"{after:,}", share(after, before))
    table.add(TOTAL, f"{file.size:,}", f"{out.size:,}", share(out.size, file.size), style="bold")
    return [table, "", *_readable(facts)]


def convert_text(facts: Conversion, file: Sized, out: Sized) -> Printed:
    """The summary of a conversion."""
    return [sizes_table(file.size, (file, "debug info"), (out, f"the same, {facts.layout}"))]


def canonical_text(facts: Canonical, file: Sized, out: Sized) -> Printed:
    """The summary of an exported program that was written in its canonical form."""
    numbered = ", ".join(f"{count:,} {kind}" for kind, count in facts.ids.items())
    return [
        sizes_table(file.size, (file, "the original"), (out, "the same, in canonical form")),
        "",
        f"ids numbered by first use: {numbered or 'none'}",
        *(f"{name} stayed: json.dumps writes other bytes" for name in facts.kept),
    ]


def lite_text(facts: Lite, file: Sized, out: Sized) -> Printed:
    """The summary of an archive that was written for the lite interpreter."""
    handles = counted(facts.handles, "debug handle")
    calls = f"; {counted(facts.calls, 'call')} would be missing from PyTorch's own"
    return [
        sizes_table(file.size, (file, "TorchScript"), (out, "for the lite interpreter")),
        "",
        f"{handles}{calls if facts.calls else ''}",
    ]


def size_line(facts: object, file: Sized, out: Sized, *companion: Sized) -> str:
    """A file that was split, shrunk or converted, in one line; and what PyTorch is known to refuse of it."""
    rest = "".join(f", {one.size:,} in the companion" for one in companion)
    refused = "".join(f"; {one}" for one in getattr(facts, "refused", ()))
    return f"{file}: {file.size:,} -> {out.size:,} bytes ({share(out.size, file.size)}){rest}{refused}"


def split_line(facts: Split, *sizes: Sized) -> str:
    """A file that was split, in one line."""
    return size_line(facts, *sizes) + (f"; {NO_HANDLES}" if facts.no_handles else "")


def join_line(facts: Join, file: Sized, out: Sized, *_: Sized) -> str:
    """A file that was joined or restored, in one line."""
    return f"{file}: {file.size:,} -> {out.size:,} bytes, {_joined(facts)}"


def copied_text(reason: str, file: Sized, out: Sized) -> Printed:
    """The summary of a file that was copied, since there was nothing to do."""
    return [f"{file}: {reason}; copied as it is to {out}: {out.size:,} bytes"]


def would_text(out: Sized, *, replaced: bool) -> str:
    """What a dry run says of a target."""
    return f"would {'replace' if replaced else 'write'} {out}: {out.size:,} bytes"


def back_note(command: str) -> str:
    """What a row says where the command gives back the file's records, not its bytes."""
    return f"; `{command}` gives {RECORDS_ONLY}"


def back_total(files: int, layouts: int, command: str) -> str:
    """What the last line says: how many files come back to the byte, if not all do."""
    return f"; `{command}` gives {_exact(files, layouts)}" if layouts else ""


def joined_total(all_facts: Sequence[Join], left: int) -> str:
    """What the last line says of files that were joined: how many are the original to the byte.

    Args:
        all_facts: of those that were made.
        left: how many an earlier run made, which this one has not compared with their originals.
    """
    if not all_facts:
        return ""
    another = sum(facts.another for facts in all_facts)
    layouts = sum(not facts.exact for facts in all_facts) - another
    rest = f", {another:,} not the original" if another else ""
    rest += f", {left:,} left as they were" if left else ""
    return f"; {_exact(len(all_facts), layouts, another)}{rest}"


def _exact(files: int, layouts: int, another: int = 0) -> str:
    rest = f", {layouts:,} in another layout" if layouts else ""
    return f"{files - layouts - another:,} of {files:,} byte for byte{rest}"


def total_line(files: int, kinds: Iterable[tuple[str, int]], sums: Sequence[int], unmade: str) -> str:
    """The last line about several files: how many came to what, the bytes of those made, and what lacks."""
    before, after, companions = sums
    went = f"{counted(files, 'file')}: {', '.join(f'{count:,} {kind}' for kind, count in kinds)}"
    rest = f", {companions:,} in companions" if companions else ""
    return f"{went}; {before:,} -> {after:,} bytes ({share(after, before)}){rest}{unmade}" if before else went


def whole_line(left: int, before: int, after: int) -> str:
    """What the whole folder comes to, with models that are left as they are, where they are."""
    whole, small = before + left, after + left
    sums = f"{whole:,} -> {small:,} bytes ({share(small, whole)})"
    return f"with {left:,} bytes of models that stay as they are, not copied: {sums}"


def unmade_text(kinds: Iterable[tuple[str, int]], size: int | None) -> str:
    """What a sum is without: files of which nothing was made, and their bytes if these are known; else ""."""
    files = " and ".join(f"{count:,} {kind}" for kind, count in kinds)
    return f", without {files}{'' if size is None else f', {size:,} bytes'}" if files else ""


def _readable(facts: Shrinkage) -> list[str]:
    """The lines about who can read what is left, and how to get the original back."""
    if facts.is_package:
        same = "compared with the original: its model and files are the same to the byte"
        unchecked = "whether torch.package loads it was not checked"
        if facts.level == "compact":
            return [f"{same}, and its source ranges say the same; {unchecked}"]
        return [
            f"{same}; {unchecked}",
            "errors show no model source; debug-archive reads it as before",
            _back(facts),
        ]
    if facts.is_exported or facts.is_compiled:
        return _exported(facts) if facts.is_exported else _compiled(facts)
    lines = [*facts.refused]
    where = "where it loads the original"
    if facts.mended:
        what = f"{facts.mended:,} tags of no source range in the call-stack map"
        lines.append(f"mended: {what}, for which PyTorch's lite interpreter refuses the original")
        where = "as far as its code and tensors go"
    loads = f"{'except for the refusals above, ' if facts.refused else ''}PyTorch loads it {where}"
    if facts.level == "compact" and "source ranges" not in facts.kinds:
        return [*lines, f"{loads}; neither has model source for errors"]
    if facts.level == "compact" and facts.unread:
        mends = "`debug-archive migrate --to latest` mends that"
        return [*lines, f"{loads}, and reads the source ranges of neither: tag-first rows; {mends}"]
    if facts.level == "compact":
        return [*lines, f"{loads}, and shows the same model source in errors"]
    return [
        *lines,
        f"{loads}, without model source in errors; debug-archive reads it as before",
        _back(facts),
    ]


def _exported(facts: Shrinkage) -> list[str]:
    """The lines about exported programs that were shrunk, which are compared but not loaded."""
    unchecked = "`verify` checks whether PyTorch loads it"
    if facts.level == "compact":
        return [f"compared with the original: its programs and weights are the same to the byte; {unchecked}"]
    return [
        f"compared with the original: its programs are the same but for debug info; {unchecked}",
        "errors show no model source; debug-archive reads it as before",
        *_stayed(facts),
        _back(facts),
    ]


def _compiled(facts: Shrinkage) -> list[str]:
    """The lines about compiled models that were shrunk, which are compared but not loaded."""
    unchecked = "whether PyTorch loads it was not checked"
    if facts.level == "compact":
        but = f" but for {facts.cut:,} bytes of shared objects that are never mapped" if facts.cut else ""
        return [f"compared with the original: its records are the same to the byte{but}; {unchecked}"]
    return [
        f"compared with the original: its records are the same but for debug info; {unchecked}",
        "debug-archive reads it as before",
        *_stayed(facts),
        _back(facts),
    ]


def _back(facts: Shrinkage) -> str:
    return f"`debug-archive restore` gives {SAME_FILE if facts.exact else SAME_RECORDS}"


def sizes_table(whole: int, *rows: tuple[Sized, str]) -> FittedTable:
    """A table of files: their bytes, their share of the archive with debug info, and their contents."""
    table = FittedTable([("file", "name"), ("bytes", "number"), ("%", "number"), ("holds", "text")])
    for file, holds in rows:
        table.add(str(file), f"{file.size:,}", share(file.size, whole), holds)
    return table
