"""The state of one captured call, and the questions that all parts of the capture ask it.

The parts need one another: to wrap a value may be to copy a function, whose globals are wrapped when they are
read, and may be objects with methods to copy. To keep them apart, each part knows the call alone, and reaches
the others through these protocols, which ``attempt`` fills in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import torch

from archive.effects.capture.graph.graph_builder import GraphBuilder
from archive.effects.capture.graph.guards import Copies, Guards
from archive.effects.capture.graph.scalars import Shape
from archive.effects.capture.graph.sites import Owner, Statement, here, is_recomputed, model_frames
from archive.effects.capture.graph.texts import Texts
from archive.effects.capture.graph.variables import ABSENT, DELETED, VariableKind
from archive.effects.capture.table.side_effects import SideEffects
from archive.effects.errors import CaptureError
from archive.formats.effects.model import Attribute, Item, Length, Local, Look, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextvars import ContextVar
    from types import CellType, CodeType, FrameType, FunctionType, ModuleType

    from archive.effects.capture.graph.variables import Variable
    from archive.effects.capture.table.snapshot import Snapshot
    from archive.formats.effects.model import ClosureCell, GlobalName, Source


# --- protocols


class Wrap(Protocol):
    """Wraps values: the model gets a proxy, or the value itself if nobody can change it."""

    def __call__(self, value: Any, source: Source | None) -> Any:  # noqa: ANN401
        """Wrap a value, given its source; None for a value that is the same in each call."""


class FunctionCopies(Protocol):
    """Copies of the model's functions, with globals and cells of their own."""

    @property
    def numbers(self) -> Mapping[type, object]:
        """The proxies of ``int``, ``float``, ``bool`` and ``list``."""

    @property
    def types(self) -> Mapping[type, Any]:
        """These, and the proxies of ``list``, ``dict`` and the like."""

    @property
    def mathematics(self) -> Any:  # noqa: ANN401
        """The proxy of ``math``; its ``of`` gives those of its functions."""

    @property
    def compares(self) -> Statement | None:
        """The first statement met that asks which values are the same object; None if there is none."""

    def copy(self, function: Any) -> Any:  # noqa: ANN401
        """The copy of a function."""

    def original(self, copy: object) -> FunctionType | None:
        """The function that a copy is of; None if it is no copy."""

    def source_of(self, cell: CellType) -> ClosureCell | None:
        """The source of a cell of copies; None for a cell that the call has made."""

    def namespace(self, module: ModuleType) -> object:
        """The proxy of a Python module of the model."""

    def settle(self) -> None:
        """Note what the code that runs now has stored in globals and cells."""

    def stored_globals(self) -> Iterator[tuple[dict[str, Any], str, object]]:
        """The globals that were stored: the real globals, the name, the value."""

    def cells(self) -> Iterator[tuple[CellType, CellType]]:
        """The real cells, and those of the copies."""

    def names(self, module: str) -> dict[str, Any] | None:
        """The real globals of a Python module; None if no function of it was met."""

    def real(self, source: GlobalName | ClosureCell) -> object:
        """The value of a global or a cell, whatever calls have put there; ``ABSENT`` if it has none."""


class ObjectProxies(Protocol):
    """Proxies of objects and classes: attributes are read from the snapshot, and stored in the table."""

    def new_proxy(self, cls: type) -> Any:  # noqa: ANN401
        """A proxy for an object of a class."""

    def class_of(self, proxy: object) -> Any:  # noqa: ANN401
        """The class that ``type`` gives for a proxy."""

    def real_of(self, cls: Any) -> Any:  # noqa: ANN401
        """The class behind a class's proxy; other classes as they are."""

    def load(self, proxy: Any, name: str, *, custom: bool = False) -> Any:  # noqa: ANN401
        """Read an attribute."""

    def load_class(self, proxy: Any, cls: type, name: str) -> Any:  # noqa: ANN401
        """Read an attribute of a class, through the class's proxy."""

    def save_class(self, cls: type, name: str, value: object) -> None:
        """Set an attribute of a class; the value ``DELETED`` deletes it."""

    def load_super(self, cls: type, proxy: Any, name: str) -> Any:  # noqa: ANN401
        """Read the attribute that ``super(cls, proxy)`` finds."""

    def load_own(self, proxy: Any, name: str) -> Any:  # noqa: ANN401
        """Read an object's own attribute, past its class's properties."""

    def save(self, proxy: Any, name: str, value: object, *, custom: bool = False) -> None:  # noqa: ANN401
        """Set an attribute; ``custom``: past the class's own ``__setattr__``."""

    def remove(self, proxy: Any, name: str, *, custom: bool = False) -> None:  # noqa: ANN401
        """Delete an attribute."""

    def make(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Make a new object of a class."""


class KeptCalls(Protocol):
    """Calls that the table keeps: of ``print``, loggers and ``warnings.warn``."""

    @property
    def printed(self) -> Callable[..., None]:
        """Note a call of ``print``."""

    def note(self, function: GlobalName, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Note a call, to be made again at replay."""

    def in_place_of(self, value: object) -> Any:  # noqa: ANN401
        """The proxy of ``logging``, ``warnings``, a logger or a function of them; None for other values."""


KEY = "a key that differs from call to call"


# --- call


@dataclass(slots=True)
class Found:
    """Changes that calls were seen to make; it grows until a call shows nothing new.

    Attributes:
        written: sources that calls set.
        resized: sources of lists and dicts whose length calls change.
        mutated: sources of lists and dicts that calls change.
        in_place: sources of tensors that entries change in place.
        other_calls: places of calls that take a text, and that the table cannot keep.
        set_makers: code of the model that makes sets.
        copies: of parameters and buffers.
    """

    written: set[Source] = field(default_factory=set)
    resized: set[Source] = field(default_factory=set)
    mutated: set[Source] = field(default_factory=set)
    in_place: set[Source] = field(default_factory=set)
    other_calls: set[tuple[CodeType, int]] = field(default_factory=set)
    set_makers: set[CodeType] = field(default_factory=set)
    copies: Copies = field(default_factory=Copies)

    def size(self) -> int:
        """The number of changes seen, but for those of tensors in place."""
        places = len(self.written) + len(self.resized) + len(self.mutated)
        return places + len(self.other_calls) + len(self.set_makers)


class CapturedCall:
    """The state of one call.

    Args:
        snapshot: the values before the call.
        found: changes that earlier attempts have seen; resized sources are added as they are seen.
        outermost: the code that calls the model. Frames outside of it are none of the model's.

    Attributes:
        wrap: see ``Wrap``.
        in_place: sources of tensors that entries change in place, so that no graph holds them.
        set_makers: code of the model that makes sets, as far as it was met.
        makes_sets: whether an earlier attempt has met some; then copied functions look at what they iterate.
        functions: see ``FunctionCopies``.
        objects: see ``ObjectProxies``.
        kept_calls: see ``KeptCalls``.
        containers: the proxies of deques, ordered dicts, and objects that derive from containers.
        guards: conditions that the call relies on.
        builder: builds the graph.
        texts: texts of values that differ from call to call.
        side_effects: the table of effects.
        seen_written: sources that this call sets.
        seen_mutated: sources of lists and dicts that this call changes.
        refusal: the first error with which the call was refused.
        originals: real values by source, as they were before the call.
        aliases: further sources of a value, each with the source at which the value was first read.
        proxies: by variable.
        real: real objects by variable.
        met: the statement that first reads each list or dict.
        paths: sources of the module's own modules, parameters and buffers, by identity.
        copies: of parameters and buffers, for all calls.
        modules: the module itself and its parts, by identity.
        context_values: of each ``ContextVar`` that the call has set, and not reset.
        hook_sets: attributes of modules on which the call puts hooks, in place of the real ones.
        module_handles: of these hooks.
        lists: those that the graph takes as a whole, by source.
        cast_weights: parameters that autocast has cast, until it ends.
        replaced: what the model gets for functions of PyTorch, by their identity.
        checkpoints: how many calls of ``torch.utils.checkpoint`` with re-entry run now.
        inference: how many regions of inference mode the call is in.
        inference_tensors: identities of tensors that PyTorch would have made in inference mode.
        unchanging: tensors that nothing may change any more, with their version counters.
        ambiguous: cells of functions that share a name, so that the name leads to none of them.
    """

    wrap: Wrap
    functions: FunctionCopies
    objects: ObjectProxies
    kept_calls: KeptCalls
    containers: Any

    def __init__(self, snapshot: Snapshot, found: Found, outermost: CodeType) -> None:
        self.snapshot = snapshot
        self.written, self.resized, self.mutated = set(found.written), found.resized, set(found.mutated)
        self.copies, self.in_place = found.copies, found.in_place
        self.set_makers, self.makes_sets = found.set_makers, bool(found.set_makers)
        self._outermost = outermost
        self.guards = Guards(self.here)
        self.builder = GraphBuilder(self.guards, self.here, self.refuse)
        self.texts = Texts(found.other_calls, self.refuse)
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
        self.met: dict[Variable, Statement | None] = {}
        self.paths: dict[int, Source] = {}
        self.modules: dict[int, torch.nn.Module] = {}
        self.context_values: dict[ContextVar[Any], Any] = {}
        self.hook_sets: dict[Variable, dict[str, Any]] = {}
        self.module_handles: list[Any] = []
        self.ambiguous: set[Source] = set()
        self.cast_weights: dict[tuple[int, torch.dtype], Any] = {}
        self.replaced: Mapping[int, Any] = {}
        self.checkpoints = self.inference = 0
        self.inference_tensors: set[int] = set()
        self.unchanging: list[tuple[Any, int, Statement | None]] = []

    # --- the model's statement ---------------------------------------------------------------------

    def frames(self) -> list[FrameType]:
        """The frames of the model that run now, outermost first."""
        return model_frames(self._outermost)

    def here(self) -> Statement | None:
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
        cls = type(original)
        source = variable.source
        instance = source.name if isinstance(source, Attribute | Local) else ""
        package = "" if cls.__module__ == "__main__" else f"{cls.__module__}."
        return Owner(id(original), f"__torch__.{package}{cls.__qualname__}", instance)

    def refuse(self, message: str) -> NoReturn:
        """Give up, naming the model's line. The refusal holds even if the model catches the error.

        Raises:
            CaptureError: always.
        """
        frames = self.frames()
        error = CaptureError(message)
        if frames:
            error = CaptureError(message, frames[-1].f_code.co_filename, frames[-1].f_lineno)
        self.refusal = self.refusal or error
        raise error

    # --- values ------------------------------------------------------------------------------------

    def add_proxy(self, variable: Variable, proxy: Any, real: object) -> None:  # noqa: ANN401
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
        """A key as a constant, guarded from now on.

        Raises:
            CaptureError: the key differs from call to call.
        """
        if isinstance(key, torch.Tensor):
            self.refuse(KEY)
        if type(key) is tuple or type(key) is Shape:
            return tuple(map(self.constant_key, key))
        return self.builder.fixed(key, KEY)

    def length_of(self, source: Source, length: int) -> Any:  # noqa: ANN401
        """The length of a list before the call, as a number of the graph."""
        if source not in self._lengths:
            self.guards.note(Look.TYPE, source, "list")
            self._lengths[source] = self.builder.scalar_input(Length(source), length)
        return self._lengths[source]

    def wrap_item(self, value: object, source: Source, index: int) -> Any:  # noqa: ANN401
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
        """Refuse a change that ``torch.utils.checkpoint`` would make again in backward."""
        if not is_recomputed(self._outermost):
            return
        self.guards.setting("torch.is_grad_enabled")
        if self.guards.settings["torch.is_grad_enabled"]:
            self.refuse("a change inside torch.utils.checkpoint, which makes it again on the way back")
