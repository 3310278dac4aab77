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
from archive.io.output import check_target
from archive.io.urls import name_of
from archive.reader.recognition import FileKind, recognise
from archive.render import node_data
from archive.render.rows import GAPS, RUN, RUN_KEYS, by_view
from archive.render.value_facts import comparison_facts, first_facts, gap_facts, run_facts
from archive.render.values import (
    VALUE_VIEWS,
    comparison_text,
    first_text,
    gaps_by,
    observed_text,
    watched_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.backend.values.inputs import Inputs
    from archive.backend.values.running import Run
    from archive.base.limits import Limits
    from archive.debuginfo.values.gaps import ValueDiff
    from archive.debuginfo.values.observed import ObservedOperation
    from archive.render.node_data import GraphNodeData
    from archive.render.values import ValueView

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
    "as `profile` takes it: sizes and type (1x3x32x32: random floats of seed 0; 16:int64: zeros), or a value "
    "as JSON. May be repeated.",
    show_default="the sample inputs that the file has",
)
@options.companion_option(
    "Debug info of FILE, if that was split off; of an ETDump, the ETRecord of the program that ran.",
    is_file=True,
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
    "--base-companion",
    type=click.Path(dir_okay=False),
    help="The same of the base.",
    show_default="of an ETDump, FILE if that is an ETRecord",
)
@click.option(
    "--buffer",
    type=click.Path(dir_okay=False),
    help="The values that ExecuTorch's runtime noted, if FILE or the base is an ETDump: its debug buffer.",
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
    archive, an exported program, a model that AOTInductor compiled, whose results are all that is seen, or an
    ETRecord, whose program runs. TorchScript runs without optimisation, random numbers have seed 0.

    FILE or the base may be an ETDump with its debug buffer: values that ExecuTorch's runtime noted on a
    device. Nothing of it runs. It is compared with the other one, whichever of both it is.

    With --base, two forms of one model run with the same inputs: scripted, traced, frozen, quantised,
    lowered, exported, compiled. Their operations are put side by side by module, line and operator; the
    first line beyond the tolerance is named.

    \b
    Examples:
      debug-archive run model.pt --input 1x3x224x224
      debug-archive run model.pt2 --input random:0 --by line
      debug-archive run model.pt --input inputs.npz --first-nan
      debug-archive run model.pt --input inputs.pt --watch models/net.py:57
      debug-archive run int8.pt2 --base model.pt --input in.pt --tolerance 0.01
      debug-archive run model.pt --input inputs.pt --save values.safetensors
      debug-archive run m.etrecord --input in.pt --base m.etdp --buffer debug.bin
      debug-archive run m.pt --input in.pt --format model-explorer > means.json
    """  # noqa: D301 (click reads the backspace)
    if base is not None and (first_nan or watch or save):
        raise click.UsageError("--first-nan, --watch and --save are of one run: leave --base out")
    for_explorer = showing.form == MODEL_EXPLORER
    if watch and (as_json or first_nan):
        raise click.UsageError("--watch, and --first-nan or a form like --json, show a run in different ways")
    if base is None and given["base_companion"] is not None:
        raise click.UsageError("--base-companion is of a --base")
    if save is not None:
        check_target(save, force=given["force"])  # refused before anything runs
    asked = _Asked(inputs, given["method"], given["limits"])
    model, reference = _models(file, base, given)
    if reference is not None:
        diff = _diff(asked, model, reference, given["tolerance"])
        names = name_of(model.file), name_of(reference.file)
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
    if model.is_dump and first_nan:
        raise click.UsageError("an ETDump does not say what an operation was given: leave --first-nan out")
    with asked.run(model, keep=bool(first_nan or watch or save)) as run:
        _note_lacking(run, model)
        for doubt in run.observed.doubts:
            printing.note(f"{model.file}: {doubt}")
        if save is not None:
            run.save(save, force=given["force"])
        if for_explorer:
            nodes = node_data.odd_elements if first_nan else node_data.means
            _write_nodes(name_of(file), nodes(run.observed))
        elif as_json and first_nan:
            printing.write_document(first_facts(name_of(file), run.observed), text=RUN)
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


def _models(file: str, base: str | None, given: Mapping[str, Any]) -> tuple[_Model, _Model | None]:
    """What runs, and what it is compared with: an ETDump always with the other one."""
    model = _Model(file, given["companion"], given["buffer"])
    reference = None if base is None else _Model(base, given["base_companion"], given["buffer"])
    dumps = [each for each in (model, reference) if each is not None and each.is_dump]
    if len(dumps) > 1:
        raise click.UsageError("an ETDump is compared with a model that runs")
    if (given["buffer"] is not None) is not bool(dumps):
        why = "values of an ETDump are in a file of their own" if dumps else "it has the values of an ETDump"
        raise click.UsageError(f"--buffer: {why}")
    if reference is not None and dumps:
        dump, other = (model, reference) if dumps[0] is model else (reference, model)
        of_other = other.file if other.kind is FileKind.ETRECORD else None
        model, reference = dump._replace(companion=dump.companion or of_other), other
    if dumps and model.companion is None:
        option = "--base-companion" if dumps[0].file == base else "-c"
        raise click.UsageError(f"an ETDump is read with the ETRecord of the program that ran: {option}")
    return model, reference


def _write_nodes(file: str, data: GraphNodeData) -> None:
    printing.write_document({"file": file, "data": data}, text=node_data.NodeDataText())


def _diff(asked: _Asked, model: _Model, base: _Model, tolerance: float) -> ValueDiff:
    """How far a model is from its base; both run with the same inputs.

    These are the command's, or else what one of the two has: an exported program, if one is.
    """
    turned = not asked.inputs or any(map(is_random, asked.inputs))
    turned = model.is_dump or (turned and base.is_program and not model.is_program)
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
    places, count = [operation.place for operation in run.operations], f"{len(run.operations):,} operations"
    among = sum(place.among > 0 for place in places)
    if among:
        what = f"{among:,} of {count} may be of several lines"
        printing.note(f"{model.file}: {what}: the lite interpreter does not say of which")
    lacking = sum(place.source is None for place in places) - among
    if lacking:
        many = f"{model.file}: {lacking:,} of {count} have no line in its debug info"
        printing.note(many + ("" if model.companion else "; -c gives a companion, if it was split off"))


class _Model(NamedTuple):
    """A file to be run, and its debug info if that was split off; of an ETDump, its ETRecord and values."""

    file: str
    companion: str | None
    buffer: str | None = None

    @property
    def kind(self) -> FileKind:
        """The kind of the file."""
        return recognise(self.file).kind

    @property
    def is_program(self) -> bool:
        """Whether it is an exported program, which has the shapes of its inputs, and often some inputs."""
        return self.kind in {FileKind.EXPORTED, FileKind.ETRECORD}

    @property
    def is_dump(self) -> bool:
        """Whether it is an ETDump, of a run that is over."""
        return self.kind is FileKind.ETDUMP


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
        if model.is_dump:
            return running.run(
                model.file,
                companion=model.companion,
                buffer=model.buffer,
                method=self.method,
                keep=keep,
                limits=self.limits,
            )
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
