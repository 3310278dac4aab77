"""All attacks by name, and the modules that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.attacks import (
    arguments,
    companions,
    compiled,
    containers,
    dumps,
    effects,
    executorch,
    hidden,
    logs,
    many,
    payloads,
    programs,
    records,
    saved_texts,
    tensor_files,
    tensor_texts,
    tensors,
    texts,
)

if TYPE_CHECKING:
    from tests.attacks.attack import Attack

GROUPS: dict[str, dict[str, Attack]] = {
    "Payloads": payloads.ATTACKS,
    "Records": records.ATTACKS,
    "Effects": effects.ATTACKS,
    "Logs with archives": logs.ATTACKS,
    "Containers": containers.ATTACKS,
    "Companions": companions.ATTACKS,
    "Exported programs": programs.ATTACKS,
    "Compiled models": compiled.ATTACKS,
    "ETDumps": dumps.ATTACKS,
    "Programs of ExecuTorch": executorch.ATTACKS,
    "Texts": texts.ATTACKS,
    "Hidden texts": hidden.ATTACKS,
    "Tensors and differences": tensors.ATTACKS,
    "Files of tensors": tensor_files.ATTACKS,
    "Texts of files of tensors": tensor_texts.ATTACKS,
    "Texts of checkpoints": saved_texts.ATTACKS,
    "Many of one thing": many.ATTACKS,
    "Globs and patterns": arguments.ATTACKS,
}
"""Heading → attacks."""
ATTACKS = {name: attack for group in GROUPS.values() for name, attack in group.items()}
assert len(ATTACKS) == sum(map(len, GROUPS.values()))  # no name twice
