"""The state of one captured call, the values before it, and the questions that all parts of the capture ask.

The parts need one another: wrapping a value may mean copying a function, whose globals are wrapped when they
are read, and may be objects with methods to copy. To keep them apart, each part knows only the call, and
reaches the others through it; ``attempt`` fills them in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from archive.debuginfo.sites import torchscript_name
from archive.effects.capture.graph.graph_builder import GraphBuilder
from archive.effects.capture.graph.guards import Guards, TensorCopies
from archive.effects.capture.graph.scalars import ShapeProxy
from archive.effects.capture.graph.sites import (
    ModelStatement,
    Owner,
    here,
    is_of_pytorch,
    is_recomputed,
    model_frames,
)
from archive.effects.capture.graph.texts import TextMarks
from archive.effects.capture.graph.variables import (
    DELETED,
    VariableKind,
)
from archive.effects.capture.table.side_effects import SideEffects
from archive.effects.errors import CaptureError
from archive.effects.placeholders import ABSENT
from archive.formats.effects.model import Attribute, Item, Length, Local, Look, Op

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import ContextVar
    from types import CodeType, FrameType

    from archive.effects.capture.graph.variables import Variable
    from archive.effects.capture.table.snapshot import Snapshot
    from archive.formats.effects.model import Source


KEY = "a key that differs from call to call"


@dataclass(slots=True)
class SeenChanges:
    """Changes that calls were seen to make; it grows until a call shows nothing new.

    Attributes:
        written: sources that calls set.
        resized: sources of lists and dicts whose length calls change.
        mutated: sources of lists and dicts that calls change.
        in_place: sources of tensors that entries change in place, so that no graph holds them.
        other_calls: places of calls that take a text and that the table cannot keep.
        set_makers: code of the model that makes sets.
    """

    written: set[Source] = field(default_factory=set)
    resized: set[Source] = field(default_factory=set)
    mutated: set[Source] = field(default_factory=set)
    in_place: set[Source] = field(default_factory=set)
    other_calls: set[tuple[CodeType, int]] = field(default_factory=set)
    set_makers: set[CodeType] = field(default_factory=set)
    copies: TensorCopies = field(default_factory=TensorCopies)

    def size(self) -> int:
        """The number of changes seen, except those of tensors in place."""
        places = len(self.written) + len(self.resized) + len(self.mutated)
        return places + len(self.other_calls) + len(self.set_makers)


@dataclass(slots=True)
class Regions:
    """The modes of PyTorch and Python that a call is in now, and what was noted in them.

    Attributes:
        checkpoints: how many calls of ``torch.utils.checkpoint`` with re-entry run.
        inference: how many regions of inference mode the call is in.
        inference_tensors: identities of tensors that PyTorch would have made in inference mode.
        unchanging: tensors that nothing may change any more, with their version counters.
        cast_weights: parameters that autocast has cast, until it ends.
        context_values: of each ``ContextVar`` that the call has set but not reset.
    """

    checkpoints: int = 0
    inference: int = 0
    inference_tensors: set[int] = field(default_factory=set)
    unchanging: list[tuple[Any, int, ModelStatement | None]] = field(default_factory=list)
    cast_weights: dict[tuple[int, torch.dtype], Any] = field(default_factory=dict)
    context_values: dict[ContextVar[Any], Any] = field(default_factory=dict)


class CapturedCall:
    """The state of one call.

    Args:
        seen: changes seen by earlier attempts; this one adds its own.
        outermost: the code that calls the model. Frames outside it do not belong to the model.

    Attributes:
        written, mutated: the sources seen by earlier attempts; those of this one are in ``seen_written`` and
            ``seen_mutated``.
        makes_sets: whether an earlier attempt met code that makes sets: then copies check what they iterate.
        aliases: further sources of a value, each with the source at which the value was first read.
        first_reads: the statement that first reads each list or dict.
        paths: sources of the module's own modules, parameters and buffers, by identity.
        hook_sets: attributes of modules on which the call puts hooks, in place of the real ones.
        module_handles: of these hooks.
        lists: those that the graph takes as a whole, by source.
        replaced: what the model gets for functions of PyTorch, by their identity.
        ambiguous: cells of functions that share a name, so that the name identifies none of them.
    """

    wrap: Any
    functions: Any
    objects: Any
    kept_calls: Any
    containers: Any

    def __init__(self, snapshot: Snapshot, seen: SeenChanges, outermost: CodeType) -> None:
        self.snapshot = snapshot
        self.seen, self.regions = seen, Regions()
        self.written, self.mutated = set(seen.written), set(seen.mutated)
        self.makes_sets = bool(seen.set_makers)
        self._outermost = outermost
        self.guards = Guards(self.here)
        self.builder = GraphBuilder(self.guards, self.here, self.refuse)
        self.texts = TextMarks(seen.other_calls, self.refuse)
        self.builder.text_of = self.texts.of
        self.side_effects = SideEffects(graph_value=self.builder.known_as)
        self.seen_written: set[Source] = set()
        self.seen_mutated: set[Source] = set()
        self._lengths: dict[Source, Any] = {}
        self.lists: dict[Source, list[Any]] = {}
        self.refusal: CaptureError | None = None
        self.originals: dict[Source, object] = {}
        self.aliases: dict[Source, Source] = {}
        self.proxies: dict[Variable, Any] = {}
        self.real: dict[Variable, Any] = {}
        self.first_reads: dict[Variable, ModelStatement | None] = {}
        self.paths: dict[int, Source] = {}
        self.modules: dict[int, torch.nn.Module] = {}
        self.hook_sets: dict[Variable, dict[str, Any]] = {}
        self.module_handles: list[Any] = []
        self.ambiguous: set[Source] = set()
        self.replaced: Mapping[int, Any] = {}

    # --- the model's statement ---------------------------------------------------------------------

    def frames(self) -> list[FrameType]:
        """The frames of the model that run now, outermost first."""
        return model_frames(self._outermost)

    def here(self) -> ModelStatement | None:
        """The statement of the model that runs now; None if there is none."""
        return here(self.frames(), self.owner_of)

    def owner_of(self, frame: FrameType) -> Owner | None:
        """The module whose method a frame runs; None for functions."""
        code = frame.f_code
        if not code.co_argcount:
            return None
        return self.owner_by(frame.f_locals.get(code.co_varnames[0]))

    def owner_by(self, first: object) -> Owner | None:
        """The module whose proxy is the first argument of a method; None for other arguments."""
        variable = self.side_effects.variable_of(first)
        original = self.real.get(variable) if variable is not None else None
        if not isinstance(original, torch.nn.Module) or variable is None:
            return None
        source = variable.source
        instance = source.name if isinstance(source, Attribute | Local) else ""
        return Owner(id(original), torchscript_name(type(original)), instance)

    def refuse(self, message: str) -> NoReturn:
        """Give up, naming the model's line. The refusal holds even if the model catches the error."""
        frames = self.frames()
        error = CaptureError(message)
        if frames:
            own = [frame for frame in frames if not is_of_pytorch(frame.f_code.co_filename)]
            frame = (own or frames)[-1]
            error = CaptureError(message, frame.f_code.co_filename, frame.f_lineno)
        self.refusal = self.refusal or error
        raise error

    # --- values ------------------------------------------------------------------------------------

    def add_proxy(self, variable: Variable, proxy: Any, real: object) -> None:
        """Note a variable's proxy and its real object."""
        self.proxies[variable], self.real[variable] = proxy, real

    def is_volatile(self, source: Source | None) -> bool:
        """Whether calls change the value at a source, or a container of it."""
        while source is not None:
            if source in self.written:
                return True
            if isinstance(source, Item) and source.base in self.mutated:
                return True
            source = source.base if isinstance(source, Attribute | Item) else None
        return False

    def is_registered(self, tensor: object, source: Source) -> bool:
        """Whether a source is the path by which a tensor is a parameter or buffer of the module."""
        return self.paths.get(id(tensor)) == source

    def constant_key(self, key: object) -> object:
        """A key as a constant, guarded from now on."""
        if isinstance(key, torch.Tensor):
            self.refuse(KEY)
        if type(key) is tuple or type(key) is ShapeProxy:
            return tuple(map(self.constant_key, key))
        return self.builder.fixed(key, KEY)

    def length_of(self, source: Source, length: int) -> Any:
        """The length of a list before the call, as a number of the graph."""
        if source not in self._lengths:
            self.guards.note(Look.TYPE, source, "list")
            self._lengths[source] = self.builder.scalar_input(Length(source), length)
        return self._lengths[source]

    def wrap_item(self, value: object, source: Source, index: int) -> Any:
        """The proxy of an item of a list."""
        return self.wrap(value, Item(source, index))

    # --- changes -----------------------------------------------------------------------------------

    def mutate(self, proxy: object, op: Op, key: object = ABSENT, value: object = ABSENT) -> None:
        """Note a mutation of a list or dict."""
        self.check_once()
        variable = self.side_effects[proxy]
        if variable.source is not None:
            self.seen_mutated.add(variable.source)
        self.side_effects.mutation(variable, op, key, value, self.here())

    def store(self, variable: Variable, name: str, value: object) -> None:
        """Note that an object's attribute is set; the value ``DELETED`` deletes it."""
        self.check_once()
        statement = self.here()
        existed = True
        if variable.source is not None:
            source = variable.source
            if variable.kind is VariableKind.OBJECT:
                source = Attribute(variable.source, name)
                before = self.snapshot.attribute(self.real[variable], name)
                existed = before is not ABSENT
                if existed:
                    self.originals.setdefault(source, before)
            self.seen_written.add(source)
        elif value is DELETED:
            existed = False
        self.side_effects.store_attr(variable, name, value, existed=existed, statement=statement)

    def check_once(self) -> None:
        """Refuse a change that ``torch.utils.checkpoint`` would repeat in the backward pass."""
        if not is_recomputed(self._outermost):
            return
        self.guards.setting("torch.is_grad_enabled")
        if self.guards.settings["torch.is_grad_enabled"]:
            self.refuse("a change inside torch.utils.checkpoint, which repeats it in the backward pass")
