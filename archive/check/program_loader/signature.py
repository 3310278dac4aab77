"""The signature: what each input and output of a program's own graph is.

As many specs as inputs and as outputs, in their order and under their names; what an input stands for is
among the weights or constants, and what an output changes is among the inputs.

Source: ``deserialize_signature`` in ``torch/_export/serde/serialize.py`` and
``_verify_exported_program_signature`` in ``torch/_export/verifier.py`` of PyTorch 2.13.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.diagnostics import Diagnostic, wrong
from archive.base.errors import counted, shown
from archive.check.program_loader.graphs import NO_NAME
from archive.check.program_loader.values import SYMBOLIC, Arguments
from archive.formats.exported.program import GRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from archive.check.program_loader.files import Payloads

PLACE = "graph_module.signature"
MUTATIONS = {
    "buffer_mutation": ("buffer", "buffer_name", "Buffer output "),
    "parameter_mutation": ("parameter", "parameter_name", "Parameter output "),
    "user_input_mutation": ("user_input", "user_input_name", "User input output "),
}
"""For each kind of output that changes an input: the input's kind, the field of its name, PyTorch's words."""
NO_WEIGHT = "is not in the state dict."
USER_OUTPUTS = {"user_output", "loss_output"}


class SpecValue(NamedTuple):
    """What a spec says of an input or output: its name, or its value where the graph has none."""

    name: object
    is_name: bool


class SignatureCheck:
    """A signature, compared with the graph, the weights and the constants.

    Args:
        module: the graph module as the schema has it.
        payloads: the program's weights and constants.
    """

    def __init__(self, module: dict[str, Any], payloads: Payloads) -> None:
        self._graph = module["graph"]
        self._inputs = module["signature"]["input_specs"]
        self._outputs = module["signature"]["output_specs"]
        self._payloads = payloads
        self._is_broken = False
        self._arguments = Arguments((), payloads.constants)

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self._inputs)

    def own_faults(self) -> Iterator[Diagnostic]:
        """The faults of specs on their own: what they name is a tensor, a number or a plain value."""
        for fault in chain(
            self._spec_faults("input_specs", self._inputs), self._spec_faults("output_specs", self._outputs)
        ):
            self._is_broken = True
            yield fault

    def faults(self) -> Iterator[Diagnostic]:
        """The faults of specs beside the graph; none where there are some on their own."""
        if not self._is_broken:
            yield from self._input_faults()
            yield from self._output_faults()

    def _spec_faults(self, key: str, specs: list[dict[str, Any]]) -> Iterator[Diagnostic]:
        for number, spec in enumerate(specs):
            ((kind, value),) = spec.items()
            place = f"{PLACE}.{key}[{number}].{kind}"
            if kind in ("user_input", "user_output"):
                yield from spec_faults(value["arg"], f"{place}.arg", self._arguments)
            elif kind == "buffer" and value["persistent"] is None:
                problem = "expected true or false, found nothing"
                yield wrong(f"{place}.persistent", problem, "Failed to specify persistent flag")
            elif kind == "constant_input":
                ((tag, constant),) = value["value"].items()
                try:
                    {"as_int": int, "as_float": float}.get(tag, str)(constant)
                except (TypeError, ValueError):
                    problem = f"expected a number, found {shown(constant)}"
                    yield wrong(f"{place}.value.{tag}", problem, "")

    def _input_faults(self) -> Iterator[Diagnostic]:
        inputs = self._graph["inputs"]
        if len(inputs) != len(self._inputs):
            problem = f"expected {counted(len(inputs), 'spec')}, as many as inputs, found {len(self._inputs)}"
            yield wrong(f"{PLACE}.input_specs", problem, "Number of graph inputs (")
        for number, (argument, spec) in enumerate(zip(inputs, self._inputs, strict=False)):
            ((kind, value),) = spec.items()
            place = f"{PLACE}.input_specs[{number}].{kind}"
            specified, actual = _named_by(kind, value), named(argument)
            if specified.is_name and actual.is_name and specified.name != actual.name:
                problem = f"expected the input's name {shown(actual.name)}, found {shown(specified.name)}"
                yield wrong(f"{place}.arg", problem, "does not match node name")
            # what the input stands for: a weight or constant of the archive
            weights, constants = self._payloads.weights, self._payloads.constants
            if kind == "parameter" and weights is not None:
                name = value["parameter_name"]
                if not _is_in(weights, name):
                    yield _absent(name, f"{place}.parameter_name", "weight", NO_WEIGHT)
                elif not weights[name]["is_param"]:
                    problem = (
                        f"expected a parameter, found {shown(name)}, which isn't one in the table of weights"
                    )
                    yield wrong(f"{place}.parameter_name", problem, "is not an instance of torch.nn.")
            elif kind == "buffer" and weights is not None and constants is not None:
                name = value["buffer_name"]
                is_weight = _is_in(weights, name)
                if value["persistent"] is True and not is_weight and not _is_in(constants, name):
                    yield _absent(name, f"{place}.buffer_name", "weight", NO_WEIGHT)
                elif value["persistent"] is False and is_weight:
                    problem = f"expected a buffer that is not saved, found {shown(name)} among the weights"
                    yield wrong(f"{place}.persistent", problem, "is in the state dict, it should not be.")
            elif kind in ("tensor_constant", "custom_obj") and constants is not None:
                name = value[f"{kind}_name"]
                if not _is_in(constants, name):
                    yield _absent(
                        name, f"{place}.{kind}_name", "constant", "is not in the constants dictionary."
                    )

    def _output_faults(self) -> Iterator[Diagnostic]:
        outputs = [named(argument).name for argument in self._graph["outputs"]]
        if self._graph.get("is_single_tensor_return"):
            place = f"{GRAPH}.is_single_tensor_return"
            yield wrong(place, "expected false in the program's own graph", "is not iterable")
            return
        if len(outputs) != len(self._outputs):
            specs = counted(len(outputs), "spec")
            problem = f"expected {specs}, as many as outputs, found {len(self._outputs)}"
            yield wrong(f"{PLACE}.output_specs", problem, "Number of output nodes ")
            return
        kinds = [next(iter(spec)) for spec in self._outputs]
        # for each kind, the names of outputs that change inputs, and the number of each one's last spec
        changed = {
            kind: {
                str(spec[kind]["arg"]["name"]): number
                for number, spec in enumerate(self._outputs)
                if kind in spec
            }
            for kind in MUTATIONS
        }
        first = kinds.count("token")
        last = first + sum(map(len, changed.values()))
        for number in range(first, min(last, len(outputs))):
            yield from self._change_faults(outputs[number], changed, f"{GRAPH}.outputs[{number}]")
        users = [number for number, kind in enumerate(kinds) if kind in USER_OUTPUTS]
        for output, number in zip(outputs[last:], users, strict=False):
            expected = _named_by(kinds[number], self._outputs[number][kinds[number]]).name
            if output != expected:
                problem = f"expected the output's name {shown(output)}, found {shown(expected)}"
                place = f"{PLACE}.output_specs[{number}].{kinds[number]}.arg"
                yield wrong(place, problem, "is not in the correct order or is not found")

    def _change_faults(
        self, output: object, changed: Mapping[str, Mapping[str, int]], place: str
    ) -> Iterator[Diagnostic]:
        """The faults of an output that changes an input; PyTorch wants them after tokens, before others."""
        kind = next((kind for kind in MUTATIONS if str(output) in changed[kind]), None)
        if kind is None:
            problem = f"expected an output that changes an input, found {shown(output)}"
            yield wrong(place, problem, "Mutation node ")
            return
        source, field, message = MUTATIONS[kind]
        at = changed[kind][str(output)]
        name = self._outputs[at][kind][field]
        if str(name) not in self._changeable[source]:
            there = f"{PLACE}.output_specs[{at}].{kind}.{field}"
            yield _absent(name, there, source.replace("_", " "), message)

    @cached_property
    def _changeable(self) -> dict[str, set[str]]:
        """The names of inputs that an output may change, by their kind."""
        names: dict[str, set[str]] = {"buffer": set(), "parameter": set(), "user_input": set()}
        for spec in self._inputs:
            ((kind, value),) = spec.items()
            if kind in ("user_input", "constant_input"):
                names["user_input"].add(str(_named_by(kind, value).name))
            elif kind in names:
                names[kind].add(str(value[f"{kind}_name"]))
        return names


def spec_faults(argument: dict[str, Any], place: str, arguments: Arguments) -> Iterator[Diagnostic]:
    """The faults of an argument that stands for an input or output: the graph is asked for its name later.

    Args:
        arguments: the arguments of its time.
    """
    ((tag, value),) = argument.items()
    if tag in ("as_sym_int", "as_sym_float"):
        if "as_name" not in value:
            yield wrong(f"{place}.{tag}", "expected a name, found a number", NO_NAME)
    elif tag != "as_tensor":
        yield from arguments.faults(argument, place)


def _is_in(names: Collection[str], name: object) -> bool:
    return isinstance(name, str) and name in names


def _absent(name: object, place: str, what: str, message: str) -> Diagnostic:
    refusal = message if isinstance(name, str) else ""
    return wrong(place, f"expected the name of a {what}, found {shown(name)}", refusal)


def _named_by(kind: str, value: dict[str, Any]) -> SpecValue:
    if kind in ("user_input", "user_output"):
        return named(value["arg"])
    if kind == "constant_input":
        return SpecValue(next(iter(value["value"].values())), is_name=False)
    return SpecValue(value["arg"]["name"], is_name=kind not in ("custom_obj", "token"))


def named(argument: dict[str, Any]) -> SpecValue:
    """What an argument stands for."""
    ((tag, value),) = argument.items()
    if tag == "as_tensor":
        return SpecValue(value["name"], is_name=True)
    if tag in SYMBOLIC and "as_name" in value:
        return SpecValue(value["as_name"], is_name=True)
    if tag == "as_custom_obj":
        return SpecValue(value["name"], is_name=False)
    return SpecValue(None if tag == "as_none" else value, is_name=False)
