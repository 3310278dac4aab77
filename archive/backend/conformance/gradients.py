"""The rule ``gradients``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.conformance.findings import Differs, Unseen, of_error
from archive.backend.conformance.subject import differences, fresh
from archive.backend.delegate import Delegate
from archive.backend.tensors import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.conformance.findings import Said
    from archive.backend.conformance.subject import Subject

    Gradients = dict[str, torch.Tensor | None]


def gradients(subject: Subject) -> Said:
    """Check that inputs and parameters get the gradients that they get from the model."""
    if not subject.gradients:
        yield Unseen("the test tells that the backend records none")
        return
    try:
        expected = _gradients(subject, getattr(subject.model, subject.method))
    except (RuntimeError, NotImplementedError) as error:
        yield Unseen(f"the model has none: {of_error(error)}")
        return
    if not any(one is not None for one in expected.values()):
        yield Unseen("the model's results have none")
        return
    module = subject.lowered.module
    ways = {
        "TorchScript": getattr(module, subject.method),
        "the runtime": partial(Delegate.of(module).run, subject.method),
    }
    for way, run in ways.items():
        try:
            found = _gradients(subject, run)
        except Exception as error:  # noqa: BLE001 (whatever a foreign backend raises)
            yield Differs(f"{way} to run where gradients are recorded", of_error(error))
            continue
        for name, one in expected.items():
            if one is None:
                continue
            if (other := found[name]) is None:
                yield Differs(f"{way}: a gradient of {name}", "none")
            else:
                yield from differences(f"{way}: the gradient of {name}", one, other, subject.tolerance)


def _gradients(subject: Subject, run: Callable[..., Any]) -> Gradients:
    """The gradients of inputs and parameters by name; None for those that no result depends on."""
    inputs = fresh(tuple(subject.good))
    leaves = {
        f"input {place}": one for place, one in enumerate(tensors_in(inputs)) if one.is_floating_point()
    }
    for one in leaves.values():
        one.requires_grad_()
    leaves |= {name: one for name, one in subject.model.named_parameters() if one.requires_grad}
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        results = [one for one in tensors_in(run(*_copied(inputs))) if one.requires_grad]
        if not results or not leaves:
            return dict.fromkeys(leaves)
        seeds = [torch.linspace(0.5, 1.5, one.numel(), dtype=one.dtype).view_as(one) for one in results]
        found = torch.autograd.grad(results, [*leaves.values()], seeds, allow_unused=True)
    return dict(zip(leaves, found, strict=True))


def _copied(value: Any) -> Any:  # noqa: ANN401
    """A differentiable copy: a model may change its tensors in place, which PyTorch forbids for leaves."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        made = map(_copied, value)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value
