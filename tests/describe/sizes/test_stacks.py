"""The bytes of files as stacks: of every kind, in every view, those of the labels and of the file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.describe.sizes import Account, View
from archive.describe.sizes.account import Piece
from archive.describe.sizes.stacks import MOST_STEPS, stacks
from archive.formats.record_kinds import Group, RecordKind
from tests.support.corpus import FIXTURES
from tests.support.tampering import STACK

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("canaries", "companions/v2", "compiled", "effects", "executorch", "exported", "kinds", "oracles")
FILES = sorted(path for folder in FOLDERS for path in (FIXTURES / folder).rglob("*") if path.is_file())


def measured(path: Path) -> Account | None:
    """The account of a file; None of what is neither a zip nor a companion."""
    try:
        return archive.sizes(path)
    except ArchiveError:
        return None


def test_stacks_of_every_kind_sum_to_the_file_and_to_its_labels() -> None:
    seen: set[str] = set()
    for path in FILES:
        account = measured(path)
        if account is None:
            continue
        seen.add(path.parent.name)
        for view in View:
            made = stacks(account, view)
            assert sum(made.values()) == path.stat().st_size, (path, view)
            assert {stack[0] for stack in made} <= set(map(str, Group))
            if view in {View.KIND, View.PART}:
                by_leaf = Counter[str]()
                for stack, size in made.items():
                    by_leaf[stack[-1]] += size
                assert by_leaf == {label: size.stored for label, size in account.by(view).items()}, path
    assert seen >= {"canaries", "compiled", "effects", "executorch", "exported", "kinds", "oracles", "v2"}


@pytest.mark.parametrize(
    ("view", "depth", "expected"),
    [
        (View.KIND, None, ("debug info", "code", "__torch__", "plain.py.debug_pkl", "source ranges")),
        (View.KIND, 1, ("debug info", "code", "*", "source ranges")),
        (View.KIND, None, ("container", "local headers")),
        (View.PART, None, ("weights", "data", "0", "[tensor]")),
        (View.RECORD, None, ("debug info", "code", "__torch__", "plain.py.debug_pkl")),
        (View.MODULE, 2, ("code", "__torch__", "torch", "*")),
        (View.WEIGHTS, None, ("weights", "blocks", "0", "fc", "weight")),
        (View.WEIGHTS, 1, ("weights", "blocks", "*")),
        (View.WEIGHTS, None, ("code", "[bytecode]")),
    ],
)
def test_a_stack_is_the_path_to_a_label(view: View, depth: int | None, expected: tuple[str, ...]) -> None:
    assert expected in stacks(archive.sizes(STACK), view, depth)


def account_of(*records: str) -> Account:
    """An account of tensors that have a byte each."""
    pieces = (Piece(RecordKind.TENSOR, None, record, None, None, 1, 1) for record in records)
    return Account("m.pt", len(records), tuple(pieces), is_companion=False)


def test_steps_are_bounded_and_none_is_empty() -> None:
    made = stacks(account_of("/".join("a" * 100), "/data//0", "//"), View.RECORD)
    deep, absolute, slashes = made
    assert len(deep) == 1 + MOST_STEPS
    assert deep[-1] == "/".join("a" * (100 - MOST_STEPS + 1))
    assert (absolute, slashes) == (("weights", "data", "0"), ("weights", "//"))
