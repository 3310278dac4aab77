"""A model with a name of each kind, as TorchScript has them; long, so that each is looked for.

TorchScript reads the annotations, which must be no texts.
"""

import enum
from typing import Dict, NamedTuple  # noqa: UP035 (TorchScript knows this one)

import torch


class Verdict(NamedTuple):
    suspicion: torch.Tensor
    gradation: int


class PartialVerdict(NamedTuple):
    hidden_portion: torch.Tensor
    hidden_weight: float


class Tier(enum.Enum):
    GOLDEN_TIER = 1
    WOODEN_TIER = 2


@torch.jit.interface
class Adjudicator(torch.nn.Module):
    def adjudicate(self, evidence_rows: torch.Tensor) -> torch.Tensor:
        pass


class SternJudge(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stern_factor = 2.0

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows

    @torch.jit.export
    def adjudicate(self, evidence_rows: torch.Tensor) -> torch.Tensor:
        return evidence_rows * self.stern_factor


def helper_function(rows: torch.Tensor, given_tier: Tier) -> torch.Tensor:
    if given_tier == Tier.GOLDEN_TIER:
        return rows + given_tier.value
    return rows


class SecretScoring(torch.nn.Module):
    judge_module: Adjudicator
    threshold_constant: torch.jit.Final[float]
    chosen_tier: Tier

    def __init__(self) -> None:
        super().__init__()
        self.judge_module = SternJudge()
        self.blacklist_embedding = torch.nn.Embedding(7, 3)
        self.head_modules = torch.nn.ModuleDict({"fraud-head": torch.nn.Linear(3, 3)})
        self.stage_modules = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.ReLU()])
        self.register_buffer("running_secret", torch.ones(3))
        self.scale_parameter = torch.nn.Parameter(torch.ones(3))
        self.lookup_table = {"shared_word": 3}
        self.shared_word = 2
        self.threshold_constant = 0.5
        self.chosen_tier = Tier.WOODEN_TIER

    def _private_step(self, partial_rows: torch.Tensor) -> PartialVerdict:
        return PartialVerdict(partial_rows * self.running_secret, 0.25)

    def _forked_part(self, forked_rows: torch.Tensor) -> torch.Tensor:
        return forked_rows + 1

    @torch.jit.export
    def public_method(self, public_argument: torch.Tensor) -> Dict[str, torch.Tensor]:  # noqa: UP006
        return {"answer_key": self._private_step(public_argument).hidden_portion}

    def forward(self, customer_ids: torch.Tensor) -> Verdict:
        embedded_rows = self.blacklist_embedding(customer_ids)
        for one_stage in self.stage_modules:
            embedded_rows = one_stage(embedded_rows)
        for head_module in self.head_modules.values():
            embedded_rows = head_module(embedded_rows)
        step_outcome = self._private_step(embedded_rows)
        judged_rows = self.judge_module.adjudicate(step_outcome.hidden_portion * self.scale_parameter)
        judged_rows = helper_function(judged_rows, Tier.GOLDEN_TIER)
        waited_rows = torch.jit.wait(torch.jit.fork(self._forked_part, judged_rows))
        if self.chosen_tier == Tier.WOODEN_TIER:
            waited_rows = waited_rows * self.lookup_table["shared_word"] * self.shared_word
        if waited_rows.size(0) > 100:
            raise ValueError("spoken_word in a message")
        spoken_word = waited_rows + self.threshold_constant
        return Verdict(spoken_word, 3)


GONE = (
    *("SecretScoring", "blacklist_embedding", "head_modules", "stage_modules", "running_secret"),
    *("scale_parameter", "lookup_table", "threshold_constant", "chosen_tier", "judge_module", "SternJudge"),
    *("stern_factor", "Adjudicator", "adjudicate", "evidence_rows", "_private_step", "partial_rows"),
    *("_forked_part", "forked_rows", "PartialVerdict", "hidden_portion", "hidden_weight", "Tier", "Verdict"),
    *("GOLDEN_TIER", "WOODEN_TIER", "helper_function", "given_tier", "embedded_rows", "judged_rows"),
    *("waited_rows", "step_outcome", "named_models"),
)
"""Names that no caller needs."""
CALLERS = ("public_method", "public_argument", "customer_ids", "suspicion", "gradation")
"""Names that callers need."""
VALUES = ("shared_word", "answer_key")
"""Keys of dicts; the first is an attribute, too."""
