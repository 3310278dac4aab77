"""All models of the table in ``docs/reference/lowered.md``."""

from __future__ import annotations

from tests.zoo import layers, packages, sequences, stateful, vision

SAMPLES = {
    one.name: one
    for one in (
        *layers.SAMPLES,
        *vision.SAMPLES,
        *sequences.SAMPLES,
        *stateful.SAMPLES,
        *packages.SAMPLES,
    )
}
"""Each model by its name."""
