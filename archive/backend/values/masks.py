"""What attention hides: by a mask, by a flag, or nothing.

Models of transformers give attention a mask where they are traced or exported, and a flag in eager PyTorch.
Both say the same if the mask hides what the flag does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from archive.debuginfo.values.observed import Hides

QUERY, KEY, VALUE, MASK, CAUSAL = "query", "key", "value", "attn_mask", "is_causal"
ARGUMENTS = {
    "aten::scaled_dot_product_attention": (QUERY, KEY, VALUE, MASK, "dropout_p", CAUSAL),
    "aten::_scaled_dot_product_flash_attention_for_cpu": (QUERY, KEY, VALUE, "dropout_p", CAUSAL),
}
"""The names of the first arguments of each operator of attention."""


def hidden(op: str, given: Any) -> tuple[Hides, list[object]] | None:  # noqa: ANN401 (what observers have)
    """What an operator of attention hides, and its arguments without the mask.

    None of other operators, where its own arguments are not known, and if it hides anything else.

    Args:
        given: its arguments by position and by name; () if they are not known.
    """
    if op not in ARGUMENTS or not given:
        return None
    arguments, named = given
    found: dict[str, Any] = {**dict(zip(ARGUMENTS[op], arguments, strict=False)), **named}
    mask, is_causal = found.pop(MASK, None), found.get(CAUSAL, False)
    tensors = (found.get(name) for name in (QUERY, KEY, VALUE))
    if not all(isinstance(each, torch.Tensor) for each in tensors) or not isinstance(is_causal, bool):
        return None
    what: Hides | None = "later" if is_causal else "nothing"
    if mask is not None:
        what = None if is_causal else hidden_by(mask, found[QUERY].shape[-2], found[KEY].shape[-2])
    return None if what is None else (what, [*found.values()])


def hidden_by(mask: torch.Tensor, queries: int, keys: int) -> Hides | None:
    """What a mask hides: it is true of what is seen, or added to the scores. None if it is anything else."""
    if mask.dtype == torch.bool:
        seen = mask
    elif bool(((mask == 0) | (mask <= torch.finfo(mask.dtype).min)).all()):
        seen = mask == 0
    else:
        return None
    if bool(seen.all()):
        return "nothing"
    is_causal = bool((seen == torch.ones(queries, keys, dtype=torch.bool, device=seen.device).tril()).all())
    return "later" if is_causal else None
