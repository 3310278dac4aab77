"""``debug-archive run``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from archive.base.errors import one_line
from archive.cli import options, printing
from archive.cli.forms import MODEL_EXPLORER, ROW_FORMS, facts_options
from archive.cli.inputs import input_value
from archive.cli.showing import showing
from archive.cli.status import Cause, ExitStatus
from archive.debuginfo.values.gaps import DEFAULT_TOLERANCE
from archive.debuginfo.values.observed import VALUE_VIEWS
from archive.io.output import check_target
from archive.io.urls import name_of
from archive.reader.recognition import FileKind, recognise
from archive.render import node_data
from archive.render.rows import GAPS, RUN, RUN_KEYS, by_view
from archive.render.values import (
    comparison_facts,
    comparison_text,
    first_text,
    gap_facts,
    gaps_by,
    observed_text,
    run_facts,
    watched_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.values.inputs import Inputs
    from archive.backend.values.running import Run
    from archive.base.limits import Limits
    from archive.debuginfo.values.gaps import ValueDiff
    from archive.debuginfo.values.observed import ObservedOperation, ValueView
    from archive.render.node_data import GraphNodeData


RANDOM = "random:"
"""Begins inputs that are made, before their seed."""


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
@facts_options(*ROW_FORMS, MODEL_EXPLORER)
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
      debug-archive run model.pt --input inputs.pt --format model-explorer > means.json
    """  # noqa: D301 (click reads the backspace)
    if base is not None and (first_nan or watch or save):
        raise click.UsageError("--first-nan, --watch and --save are of one run: leave --base out")
    for_explorer = showing.form == MODEL_EXPLORER
    if (as_json and (watch or (first_nan and not for_explorer))) or (first_nan and watch):
        raise click.UsageError("--first-nan, --watch and a form like --json show a run in different ways")
    if base is None and given["base_companion"] is not None:
        raise click.UsageError("--base-companion is of a --base")
    if save is not None:
        check_target(save, force=given["force"])  # refused before anything runs
    asked = _Asked(inputs, given["method"], given["limits"])
    model = _Model(file, given["companion"])
    if base is not None:
        diff = _diff(asked, model, _Model(base, given["base_companion"]), given["tolerance"])
        names = name_of(file), name_of(base)
        if for_explorer:
            _write_nodes(names[0], node_data.differences(diff))
        elif as_json:
            facts = comparison_facts(*names, diff)
            if showing.form in ROW_FORMS:
                facts["pairs"] = [*map(gap_facts, gaps_by(diff, view))]
            printing.write_document(facts, text=GAPS)
        else:
            printing.show(comparison_text(diff, *names, view, rows))
        return Cause.PARTS.when(diff.is_beyond)
    with asked.run(model, keep=bool(watch or save)) as run:
        _note_lacking(run, model)
        if save is not None:
            run.save(save, force=given["force"])
        if for_explorer:
            nodes = node_data.odd_elements if first_nan else node_data.means
            _write_nodes(name_of(file), nodes(run.observed))
        elif as_json and showing.form in ROW_FORMS and view != "operation":
            rows_by_view = {"file": name_of(file), view: run.observed.rows_by(view)}
            printing.write_document(rows_by_view, text=by_view(view, RUN_KEYS))
        elif as_json:
            printing.write_document(run_facts(name_of(file), run.observed), text=RUN)
        elif watch is not None:
            printing.show(watched_text(*_watched(run, watch)))
        elif first_nan:
            printing.show(first_text(run.observed))
        else:
            printing.show(observed_text(run.observed, view, rows))
        return Cause.PARTS.when(first_nan and (run.first_inf or run.observed.has_nan))


def _write_nodes(file: str, data: GraphNodeData) -> None:
    printing.write_document({"file": file, "data": data}, text=node_data.NodeDataText())


def _diff(asked: _Asked, model: _Model, base: _Model, tolerance: float) -> ValueDiff:
    """How far a model is from its base; both run with the same inputs.

    These are the command's, or else what one of the two has: an exported program, if one is.
    """
    turned = not asked.inputs or any(map(is_random, asked.inputs))
    turned = turned and base.is_program and not model.is_program
    with ExitStack() as stack:
        first, second = (base, model) if turned else (model, base)
        one = stack.enter_context(asked.run(first, keep=True))
        other = stack.enter_context(asked.run(second, keep=True, inputs=one.inputs))
        mine, reference = (other, one) if turned else (one, other)
        _note_lacking(mine, model)
        _note_lacking(reference, base)
        return mine.diff(reference, tolerance=tolerance)


def _note_lacking(run: Run, model: _Model) -> None:
    """Say how many operations have no line."""
    lacking = sum(operation.place.source is None for operation in run.operations)
    if lacking:
        many = (
            f"{model.file}: {lacking:,} of {len(run.operations):,} operations have no line in its debug info"
        )
        printing.note(many + ("" if model.companion else "; -c gives a companion, if it was split off"))


class _Model(NamedTuple):
    """A file to be run, and its debug info if that was split off."""

    file: str
    companion: str | None

    @property
    def is_program(self) -> bool:
        """Whether it is an exported program, which has the shapes of its inputs, and often some inputs."""
        return recognise(self.file).kind is FileKind.EXPORTED


class _Asked(NamedTuple):
    """What both models of a command are run with."""

    inputs: Sequence[str]
    method: str
    limits: Limits

    def run(self, model: _Model, *, keep: bool, inputs: Inputs | None = None) -> Run:
        """Run a model.

        Args:
            inputs: what to run it with, in place of what the command says.
        """
        with options.importing_pytorch("run"):
            from archive.backend.values import running  # noqa: PLC0415 (imports PyTorch)

        seeds = [text.removeprefix(RANDOM) for text in self.inputs if is_random(text)]
        if seeds and len(self.inputs) > 1:
            raise click.UsageError(f"--input {RANDOM}SEED makes all inputs: give it alone")
        seed = int(seeds[0]) if seeds and inputs is None else None
        if inputs is None:
            inputs = _inputs(self.inputs if seed is None else ())
        return running.run(
            model.file,
            *inputs.args,
            named=inputs.named,
            companion=model.companion,
            method=self.method,
            keep=keep,
            seed=seed,
            limits=self.limits,
        )


def is_random(text: str) -> bool:
    """Whether an input is random ones, of a seed."""
    return text.startswith(RANDOM) and text.removeprefix(RANDOM).isdecimal()


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
