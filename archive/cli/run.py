"""``debug-archive run``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from archive.base.errors import one_line
from archive.cli import options, printing
from archive.cli.forms import facts_options
from archive.cli.inputs import input_value
from archive.cli.status import Cause, ExitStatus
from archive.debuginfo.values.gaps import DEFAULT_TOLERANCE
from archive.debuginfo.values.observed import VALUE_VIEWS
from archive.io.output import check_target
from archive.io.urls import name_of
from archive.render.values import (
    comparison_facts,
    comparison_text,
    first_lines,
    observed_text,
    run_facts,
    watched_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.backend.values.inputs import Inputs
    from archive.backend.values.running import Run
    from archive.base.limits import Limits
    from archive.debuginfo.values.observed import ObservedOperation, ValueView


@click.command("run")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="FILE|SIZES|VALUE",
    help="What the model is run with: a file of tensors (.pt, .npz, .npy, .safetensors: one argument, a list "
    "of them, or arguments by name); random:SEED, by the shapes that an exported program has; or an argument "
    "as `profile` takes it: sizes and type (1x3x32x32, 16:int64), or a value as JSON. May be repeated.",
    show_default="the sample inputs that the file has",
)
@click.option(
    "-c", "--companion", type=click.Path(dir_okay=False), help="Debug info of FILE, if that was split off."
)
@click.option(
    "--method", default="forward", show_default=True, help="The method to run, or the program of several."
)
@click.option(
    "--base",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Run this form of the model, too, with the same inputs, and show where FILE parts from it.",
)
@click.option(
    "--base-companion", type=click.Path(dir_okay=False), help="Debug info of the base, if split off."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=DEFAULT_TOLERANCE,
    show_default=True,
    help="Largest difference of two values, by the largest value of the base's tensor.",
)
@click.option(
    "--by",
    "view",
    type=click.Choice(VALUE_VIEWS),
    default="operation",
    show_default=True,
    help="What a row stands for; with --base, the worst operation of each.",
)
@click.option(
    "--first-nan", is_flag=True, help="Show only the first line that makes a NaN or infinite number."
)
@click.option("--watch", metavar="FILE:LINE", help="Show every value of this line of the model's source.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False),
    metavar="SAFETENSORS",
    help="Write all values to this file, in the order of the run.",
)
@options.top_option("Rows to show; 0 for all.", default=0)
@options.force_option()
@options.limit_option
@facts_options()
def command(
    file: str,
    inputs: tuple[str, ...],
    *,
    base: str | None,
    view: ValueView,
    rows: int,
    first_nan: bool,
    watch: str | None,
    save: str | None,
    as_json: bool,
    **given: Any,  # noqa: ANN401 (as click gives them)
) -> ExitStatus:
    """Run a model, and show what each of its operations computed, at its line of the model's source.

    PyTorch loads and runs FILE and the base: their code must be trusted. FILE is a TorchScript or lite
    archive, or an exported program. TorchScript runs without optimisation, random numbers have seed 0.

    With --base, two forms of one model run with the same inputs: scripted, traced, frozen, quantised,
    lowered, exported. Their operations are put side by side by module, line and operator; the first line
    beyond the tolerance is named.

    Exit status: 0 well, 1 with --base a value is beyond the tolerance, or with --first-nan there is one, 2
    error.

    \b
    Examples:
      debug-archive run model.pt --input 1x3x224x224
      debug-archive run model.pt2 --input random:0 --by line
      debug-archive run model.pt --input inputs.npz --first-nan
      debug-archive run model.pt --input inputs.pt --watch models/net.py:57
      debug-archive run quantised.pt2 --base model.pt --input inputs.pt --tolerance 0.01
      debug-archive run model.pt --input inputs.pt --save values.safetensors
    """  # noqa: D301 (click reads the backspace)
    if base is not None and (first_nan or watch or save):
        raise click.UsageError("--first-nan, --watch and --save are of one run: leave --base out")
    if base is None and given["base_companion"] is not None:
        raise click.UsageError("--base-companion is of a --base")
    if save is not None:
        check_target(save, force=given["force"])  # refused before anything runs
    asked = _Asked(inputs, given["method"], given["limits"])
    with ExitStack() as stack:
        run = stack.enter_context(asked.run(file, given["companion"], keep=bool(base or watch or save)))
        if base is not None:
            other = stack.enter_context(asked.run(base, given["base_companion"], keep=True))
            diff = run.diff(other, tolerance=given["tolerance"])
            if as_json:
                printing.write_document(comparison_facts(name_of(file), name_of(base), diff))
            else:
                printing.show(comparison_text(diff, name_of(file), name_of(base), view, rows))
            return Cause.PARTS.when(diff.is_beyond)
        if save is not None:
            run.save(save, force=given["force"])
        if as_json:
            printing.write_document(run_facts(name_of(file), run.observed))
        elif watch is not None:
            printing.show(watched_text(*_watched(run, watch)))
        elif first_nan:
            printing.show(_first_text(run))
        else:
            printing.show(observed_text(run.observed, view, rows))
        return Cause.PARTS.when(first_nan and (run.first_nan or run.first_inf))


class _Asked(NamedTuple):
    """What both models of a command are run with."""

    inputs: Sequence[str]
    method: str
    limits: Limits

    def run(self, file: str, companion: str | None, *, keep: bool) -> Run:
        """Run a model."""
        with options.importing_pytorch("run"):
            from archive.backend.values import running  # noqa: PLC0415 (imports PyTorch)
            from archive.backend.values.inputs import RANDOM  # noqa: PLC0415 (the same)

        seeds = [int(seed["seed"]) for text in self.inputs if (seed := RANDOM.fullmatch(text))]
        if seeds and len(self.inputs) > 1:
            raise click.UsageError("--input random:SEED makes all inputs: give it alone")
        given = _inputs(self.inputs) if not seeds else None
        return running.run(
            file,
            *(given.args if given else ()),
            named=given.named if given else None,
            companion=companion,
            method=self.method,
            keep=keep,
            seed=seeds[0] if seeds else None,
            limits=self.limits,
        )


def _inputs(texts: Sequence[str]) -> Inputs:
    """The arguments that ``--input`` gives, those of files and single ones in their order."""
    from archive.backend.values.inputs import Inputs, is_file, read_inputs  # noqa: PLC0415 (imports PyTorch)

    args, named = list[Any](), dict[str, Any]()
    for text in texts:
        read = read_inputs(text) if is_file(text) else Inputs((input_value(text),), {})
        args += read.args
        named |= read.named
    return Inputs(tuple(args), named)


def _watched(run: Run, line: str) -> tuple[list[ObservedOperation], list[str]]:
    """The operations of a line, and the text of each one's value."""
    found = run.at(line)
    if not found:
        lines = dict.fromkeys(operation.line for operation in run.operations)
        shown = ", ".join([*map(one_line, lines)][:5])
        raise click.UsageError(
            f"--watch {one_line(line)}: no operation ran there; lines that ran: {shown}, …"
        )
    return found, [str(run.value(operation)) for operation in found]


def _first_text(run: Run) -> Iterator[str]:
    """The first operations that make a NaN or an infinite number."""
    firsts = {"NaN": run.first_nan, "infinite number": run.first_inf}
    for name, operation in firsts.items():
        if operation is not None:
            yield from first_lines(name, operation)
    if not any(firsts.values()):
        yield f"no NaN and no infinite number in {len(run.operations):,} operations"
