"""Tries all rules on a backend."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

from archive.backend.conformance.availability import availability
from archive.backend.conformance.failing import errors, failures, unsupported
from archive.backend.conformance.findings import BrokenRule, Differs, Note, Report, of_error
from archive.backend.conformance.keeping import refusal, reproducible, state
from archive.backend.conformance.running import events, handles, interface, results
from archive.backend.conformance.running import gradients as gradients_rule
from archive.backend.conformance.subject import Subject
from archive.backend.registry import find_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import torch

    from archive.backend.conformance.findings import Said

    Model: TypeAlias = torch.nn.Module | torch.export.ExportedProgram

RULES: Mapping[str, Callable[[Subject], Said]] = {
    "interface": interface,
    "results": results,
    "gradients": gradients_rule,
    "handles": handles,
    "events": events,
    "errors": errors,
    "failures": failures,
    "state": state,
    "availability": availability,
    "reproducible": reproducible,
    "refusal": refusal,
    "unsupported": unsupported,
}
"""The rules by their names; :mod:`archive.backend.conformance` describes them."""
RULES_WITHOUT_RUNS = ("handles", "availability", "reproducible", "unsupported")
"""The rules that can be tried on a backend that is not available."""
MAX_FINDINGS = 8
"""Most findings that are listed for a rule."""
DEPRECATED = r"`torch\.jit\.\w+` is (deprecated|not supported in Python)|Lite Interpreter is deprecated"


def check(
    backend: str,
    model: Model,
    **named: Any,  # noqa: ANN401 (those of examine)
) -> list[BrokenRule]:
    """The rules that a backend breaks; none if it conforms. See :func:`examine`."""
    return [*examine(backend, model, **named).findings]


def examine(
    backend: str,
    model: Model,
    *,
    good: Sequence[Any],
    bad: Mapping[str, Sequence[Any]] | None = None,
    method: str = "forward",
    method_compile_spec: Mapping[str, Any] | None = None,
    unsupported: Mapping[str, Model] | None = None,
    unavailable: Callable[[], AbstractContextManager[object]] | None = None,
    tolerance: float | None = None,
    elsewhere: bool = True,
    available: bool = True,
    gradients: bool = True,
) -> Report:
    """Try all rules on a backend.

    Args:
        backend: its name.
        model: a module, or an exported program, that the backend can compile; in eval mode if that makes a
            difference.
        good: arguments that the model takes; they are copied for each run.
        bad: arguments that the backend fails with, each by a part of the source line that its error should
            lead to.
        method: the method to run with these arguments.
        method_compile_spec: as for :func:`~archive.backend.lower`; by default the method without options.
        unsupported: models that the backend cannot compile, each by a part of the source line that the error
            should show.
        unavailable: returns a context in which the backend is not available.
        tolerance: relative and absolute tolerance of results; by default that of
            ``torch.testing.assert_close``.
        elsewhere: whether to run the archive in a new process, too, which takes some seconds.
        available: whether the backend should be available here; False on a machine that only lowers.
        gradients: whether the backend should record gradients; False if it is for inference only.

    Returns:
        Findings and notes of all rules.

    Raises:
        LoweringError: no backend has this name.
    """
    subject = Subject(
        find_backend(backend),
        model,
        tuple(good),
        dict(bad or {}),
        method,
        method_compile_spec,
        dict(unsupported or {}),
        unavailable,
        tolerance,
        elsewhere,
        available,
        gradients,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", DEPRECATED, DeprecationWarning)
        said = [*_all(subject)]
    findings = tuple(finding for finding in said if isinstance(finding, BrokenRule))
    return Report(backend, findings, tuple(finding for finding in said if isinstance(finding, Note)))


def _all(subject: Subject) -> Iterator[BrokenRule | Note]:
    """Findings and notes of all rules; a single finding if the model cannot be run or lowered."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Backend \[.*\] is not available", UserWarning)
        try:
            available = bool(subject.backend.runtime().is_available())
            _ = subject.lowered, subject.expected
        except Exception as error:  # noqa: BLE001 (whatever a foreign backend raises)
            found = f"{type(error).__name__}: {error}"  # whole: it is all that there is to see
            yield BrokenRule("interface", "the model to run and to be lowered", found)
            return
        for name, rule in RULES.items():
            if available or name in RULES_WITHOUT_RUNS:
                yield from _tried(name, rule, subject)
            else:
                yield Note(name, "the backend is not available here")


def _tried(name: str, rule: Callable[[Subject], Said], subject: Subject) -> Iterator[BrokenRule | Note]:
    """Findings and notes of a rule. An error that the rule does not expect is a finding."""
    said: list[BrokenRule | Note] = []
    try:
        for finding in rule(subject):
            said.append(  # noqa: PERF401 (those before an error are kept)
                BrokenRule(name, *finding) if isinstance(finding, Differs) else Note(name, finding.text)
            )
    except Exception as error:  # noqa: BLE001
        said.append(BrokenRule(name, "no error", of_error(error)))
    findings = [finding for finding in said if isinstance(finding, BrokenRule)]
    yield from findings[:MAX_FINDINGS]
    if len(findings) > MAX_FINDINGS:
        yield BrokenRule(name, "no more findings", f"{len(findings) - MAX_FINDINGS} more")
    yield from (finding for finding in said if isinstance(finding, Note))
