"""One captured call: what the model meets in it is wrapped, and what it changes is noted."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from archive.effects.capture.containers import TrackedList
from archive.effects.capture.functions import Functions
from archive.effects.capture.guards import Guards
from archive.effects.capture.hooks import Hooks
from archive.effects.capture.objects import Objects
from archive.effects.capture.open_list import OpenList
from archive.effects.capture.scalars import NUMBERS, is_free, is_scalar, value_of
from archive.effects.capture.shape import Shape
from archive.effects.capture.side_effects import SideEffects
from archive.effects.capture.sites import Owner, Place, here, is_recomputed, model_frames
from archive.effects.capture.sizes import Sizes
from archive.effects.capture.stand_ins import Tracked
from archive.effects.capture.tape import Tape, concrete
from archive.effects.capture.tracked_dict import TrackedDict
from archive.effects.capture.variables import ABSENT, DELETED, Kind
from archive.effects.capture.wrapping import Wrapping
from archive.effects.errors import CaptureError
from archive.formats.effects.model import Attribute, Local, Op

if TYPE_CHECKING:
    from types import FrameType

    from archive.effects.capture.variables import Variable
    from archive.effects.capture.world import World
    from archive.formats.effects.model import Source

CONTAINERS = (TrackedList, TrackedDict, OpenList)
TUPLES: tuple[type, ...] = (tuple, Shape)


class Recorder:
    """What is known in a call.

    Args:
        world: what lives where before it.
        written: sources that calls write.
        resized: sources of lists and dicts whose length calls change.
        mutated: sources of lists and dicts that calls change.
    """

    def __init__(
        self, world: World, written: set[Source], resized: set[Source], mutated: set[Source]
    ) -> None:
        self.world = world
        self.written, self.resized, self.mutated = written, resized, mutated
        self.seen_written: set[Source] = set()
        self.seen_mutated: set[Source] = set()
        self.tape = Tape(self)
        self.guards = Guards(self)
        self.sizes = Sizes(self)
        self.side_effects = SideEffects(graph_value=self._graph_value)
        self.functions = Functions(self)
        self.hooks = Hooks(self)
        self.objects = Objects(self)
        self.wrapping = Wrapping(self)
        self.refusal: CaptureError | None = None
        self.originals: dict[Source, object] = {}
        self.aliases: dict[Source, Source] = {}
        self.stand_ins: dict[Variable, Any] = {}
        self.items: dict[Variable, Any] = {}
        self.met: dict[Variable, Place | None] = {}

    def wrap(self, value: Any, source: Source | None) -> Any:  # noqa: ANN401
        """What the model gets for a value; see ``Wrapping``."""
        return self.wrapping.wrap(value, source)

    # --- where the model is ------------------------------------------------------------------------

    def here(self) -> Place | None:
        """The statement that runs now."""
        return here(self.owner_of)

    def owner_of(self, frame: FrameType) -> Owner | None:
        """The module whose method a frame runs."""
        code = frame.f_code
        if not code.co_argcount:
            return None
        return self.owner_by(frame.f_locals.get(code.co_varnames[0]))

    def owner_by(self, first: object) -> Owner | None:
        """The module whose method is given something as its first argument."""
        variable = self.side_effects.id_to_variable.get(id(first))
        original = self.items.get(variable) if variable is not None else None
        if not isinstance(original, torch.nn.Module) or variable is None:
            return None
        cls = type(original)
        source = variable.source
        instance = source.name if isinstance(source, Attribute | Local) else ""
        package = "" if cls.__module__ == "__main__" else f"{cls.__module__}."
        return Owner(id(original), f"__torch__.{package}{cls.__qualname__}", instance)

    def refuse(self, message: str) -> NoReturn:
        """Give up, naming the model's line; nothing that the model does brings the call back.

        Raises:
            CaptureError: always.
        """
        frames = model_frames()
        error = CaptureError(message)
        if frames:
            error = CaptureError(message, frames[-1].f_code.co_filename, frames[-1].f_lineno)
        self.refusal = self.refusal or error
        raise error

    # --- computing ---------------------------------------------------------------------------------

    def compute(self, function: Any, *args: Any) -> Any:  # noqa: ANN401
        """What a Python operator or function gives for numbers of the graph."""
        value = function(*concrete(args))
        node = self.tape.emit("call_function", function, args, {})
        if type(value) not in NUMBERS:
            self.refuse(f"{function.__name__} of numbers that differ from call to call")
        return self.tape.number(value, node, free=is_free(*args))

    def fixed(self, value: Any) -> Any:  # noqa: ANN401
        """A number itself, which the call relies on from now on; other values as they are.

        Raises:
            CaptureError: it differs from call to call by itself.
        """
        if not is_scalar(value):
            return value
        if not value._free:
            self.refuse("the number it depends on differs from call to call")
        self.guards.number(value)
        return value_of(value)

    def note_changes(self) -> None:
        """Note which statement has changed a tensor in place."""
        for one in self.tape.inputs:
            if not is_scalar(one.stand_in):
                version = one.stand_in._version
                if version != one.version and (one.place is None or one.latest != version):
                    self.check_once()
                    one.place, one.latest = self.here(), version

    def note_silent(self, tensors: list[Any]) -> None:
        """Note that this statement has changed tensors without telling."""
        for tensor in tensors:
            given = self.tape.input_of(tensor)
            if given is not None:
                self.check_once()
                given.silently, given.place = True, self.here()

    def note_differences(self) -> None:
        """Note tensors that have other contents by now, though nobody has told."""
        for one in self.tape.inputs:
            if isinstance(one.original, torch.Tensor) and not one.changed:
                before = self.world.tensor(one.original)
                one.silently = not torch.equal(_bits(one.stand_in), _bits(before))

    def _graph_value(self, value: object) -> Any:  # noqa: ANN401
        given = self.tape.input_of(value)
        return given.source if given is not None else self.tape.node_of(value)

    # --- changing ----------------------------------------------------------------------------------

    def variable_of(self, stand_in: object) -> Variable:
        """The variable of what stands in for something."""
        return self.side_effects[stand_in]

    def change(self, stand_in: object, op: Op, key: object = ABSENT, value: object = ABSENT) -> None:
        """Note what is done to a list or dict."""
        self.check_once()
        variable = self.variable_of(stand_in)
        if variable.source is not None:
            self.seen_mutated.add(variable.source)
        self.side_effects.mutation(variable, op, key, value, self.here())

    def check_once(self) -> None:
        """Refuse a change that is made a second time on the way back, when this cannot be told."""
        if not is_recomputed():
            return
        self.guards.setting("torch.is_grad_enabled")
        if self.guards.settings["torch.is_grad_enabled"]:
            self.refuse("a change inside torch.utils.checkpoint, which makes it again on the way back")

    def key(self, key: object) -> object:
        """A key as a constant, which is relied on.

        Raises:
            CaptureError: it is none.
        """
        if isinstance(key, torch.Tensor) or not is_free(key):
            self.refuse("a key that differs from call to call")
        return (
            tuple(map(self.key, key)) if isinstance(key, tuple) and type(key) in TUPLES else self.fixed(key)
        )

    def store(self, variable: Variable, name: str, value: object, place: Place | None = None) -> None:
        """Note that an attribute, cell or global is set; ``DELETED`` for one that is deleted."""
        self.check_once()
        place = place or self.here()
        existed = True
        if variable.source is not None:
            source = variable.source
            if variable.kind is Kind.OBJECT:
                source = Attribute(variable.source, name)
                before = self.world.attribute(self.items[variable], name)
                existed = before is not ABSENT
                if existed:
                    self.originals.setdefault(source, before)
            self.seen_written.add(source)
        elif value is DELETED:
            existed = False
        self.side_effects.store_attr(variable, name, value, existed=existed, place=place)

    def broken(self) -> tuple[str, str, int] | None:
        """What was changed past what is followed, and where it was met first; None if all is well."""
        message = None
        for variable, stand_in in self.stand_ins.items():
            if type(stand_in) in CONTAINERS and not stand_in.intact():
                message = f"a {variable.kind} was changed by what is not written in Python"
            elif issubclass(type(stand_in), Tracked) and object.__getattribute__(stand_in, "__dict__"):
                message = "an object was changed past its class's methods"
            if message is not None:
                place = self.met.get(variable)
                return (message, "", 0) if place is None else (message, place.filename, place.line)
        name = self.functions.set_attributes()
        return None if name is None else (f"an attribute of a function, {name}, is set", "", 0)

    def is_registered(self, tensor: object, source: Source) -> bool:
        """Whether a tensor is a parameter or buffer of the module, by its path."""
        return self.wrapping.paths.get(id(tensor)) == source

    def function_place(self, function: object) -> Place | None:
        """Where a function begins."""
        if not isinstance(function, FunctionType):
            return None
        code = function.__code__
        return Place(code.co_filename, code.co_firstlineno, None)


def _bits(tensor: Any) -> Any:  # noqa: ANN401
    """What a tensor holds, to be compared: nan is like nan."""
    dense = tensor.detach()
    return dense.nan_to_num() if dense.is_floating_point() else dense
