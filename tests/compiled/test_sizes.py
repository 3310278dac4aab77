"""Every byte of a compiled model is labelled: what its loader needs, and debug information."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.describe.listing import listed
from archive.describe.sizes import Size, View
from archive.formats.elf.parse import parse_object
from archive.formats.record_kinds import SpareKind
from tests.support.elf_files import AARCH64, elf_file
from tests.support.exported import PACKAGES, package
from tests.support.sampling import sampled
from tests.support.strategies import patient

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Account

OBJECTS = ("compiled", "plain", "profiled")
"""Packages with a shared object."""
MODEL = "data/aotinductor/model/"


def stored(account: Account, view: str) -> dict[str, int]:
    return {label: size.stored for label, size in account.by(view).items()}


def adds_up(account: Account, size: int) -> bool:
    views = [stored(account, view) for view in View]
    return account.size == size and all(
        sum(view.values()) == size and min(view.values()) >= 0 for view in views
    )


def with_object(data: bytes, method: int = zipfile.ZIP_STORED) -> bytes:
    """A package of a shared object alone."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        made.writestr("m/archive_format", "pt2")
        made.writestr(f"m/{MODEL}x.so", data)
    return out.getvalue()


@pytest.mark.parametrize("name", sampled(PACKAGES, most=3, by=[OBJECTS.__contains__]))
def test_all_views_add_up_and_debug_info_is_what_a_split_takes(name: str, tmp_path: Path) -> None:
    account = archive.sizes(package(name))
    assert adds_up(account, len(package(name)))
    done = archive.split(package(name), tmp_path / "small.pt2", tmp_path / "aside.ptdbg", drop=["modules"])
    assert account.debug_bytes == done.debug_size
    companion = archive.sizes(tmp_path / "aside.ptdbg")
    assert adds_up(companion, done.companion_size)


@pytest.mark.parametrize("name", OBJECTS)
def test_shared_objects_are_what_the_loader_maps_and_what_is_behind(name: str) -> None:
    account = archive.sizes(package(name))
    with archive.open(package(name)) as opened:
        (record,) = (record for record in opened.records.values() if record.name.endswith(".so"))
        made, size = parse_object(record.view()), record.size
    told = listed(package(name)).compiled["model"].mapped_bytes
    kinds, parts = stored(account, "kind"), stored(account, "part")
    assert kinds["shared object"] == made.needed
    assert kinds["object"] == size - made.needed
    mapped = sum(parts[f"ELF {part}"] for part in ("code", "read-only data", "data"))
    assert told is not None
    assert 0 < told - mapped < 1_000  # headers, and padding inside of segments
    assert sum(size for part, size in parts.items() if part.startswith("ELF ")) == size
    assert (parts.get("ELF DWARF", 0) > 1_000_000) == (name == "compiled")


def test_sources_are_debug_info_only_beside_a_shared_object() -> None:
    kinds = stored(archive.sizes(package("compiled")), "kind")
    assert (kinds["sources"], kinds["kernels"]) == (72_567, 2_893)
    assert "C++ code" not in kinds
    kinds = stored(archive.sizes(package("sources")), "kind")
    assert (kinds["C++ code"], kinds["kernels"]) == (60_152, 2_893)
    assert "sources" not in kinds


def test_parts_of_a_small_object_counted_by_hand() -> None:
    made = elf_file()
    account = archive.sizes(with_object(made.data))
    parts = stored(account, "part")
    assert parts["ELF code"] == 100
    assert parts["ELF data"] == 50
    assert parts["ELF DWARF"] == 400
    assert parts["ELF symbols"] == 48 + 20
    behind = len(made.data) - (made.segments + 2 * 56 + 100 + 50)
    assert account.debug_bytes == stored(account, "kind")["object"] == behind


def test_appended_bytes_are_the_models() -> None:
    """They are its weights, where it has 2 GB and more."""
    plain = archive.sizes(with_object(elf_file().data))
    account = archive.sizes(with_object(elf_file(appended=b"w" * 1000).data))
    assert stored(account, "part")["ELF appended"] == 1000
    assert account.debug_bytes == plain.debug_bytes


def test_objects_of_other_machines_are_labelled_though_split_leaves_them_whole() -> None:
    assert archive.sizes(with_object(elf_file(machine=AARCH64).data)).debug_bytes > 500


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"MZ" + bytes(100), "Windows (PE)"),
        (b"\xcf\xfa\xed\xfe" + bytes(100), "Mach-O, 64 bits"),
        (b"", "[shared object]"),
    ],
    ids=["PE", "Mach-O", "empty"],
)
def test_objects_of_other_formats_are_whole_and_called_by_their_format(data: bytes, part: str) -> None:
    account = archive.sizes(with_object(data))
    assert stored(account, "part")[part] == len(data)
    assert account.debug_bytes == 0


def test_a_broken_object_is_unreadable() -> None:
    data = elf_file().data[:100]
    assert archive.sizes(with_object(data)).by("part")["unreadable"] == Size(100, 100)


def test_a_deflated_object_is_apportioned() -> None:
    data = with_object(elf_file().data, zipfile.ZIP_DEFLATED)
    account = archive.sizes(data)
    assert adds_up(account, len(data))
    assert account.by("kind")["object"].inflated > account.by("kind")["object"].stored > 0


@given(st.data())
@patient
def test_changed_objects_are_labelled_too(data: st.DataObject) -> None:
    changed = bytearray(elf_file().data)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    made = with_object(bytes(changed))
    assert adds_up(archive.sizes(made), len(made))


def test_kinds_of_debug_info_have_budgets() -> None:
    account = archive.sizes(package("compiled"))
    assert set(SpareKind) <= account.by("kind").keys()
