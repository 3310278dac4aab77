"""The ids in metadata that differ from run to run, numbered by their first use.

====================  ============================================================================
id                    where PyTorch writes it
====================  ============================================================================
of a graph            ``graph_id`` in ``from_node``
of a module           the key of an instance in ``nn_module_stack``, by strict export
address               ``<function layer_norm at 0x7f…>`` in ``from_node`` and the functions
of generated code     ``File "<eval_with_key>.11"`` in ``stack_trace``
====================  ============================================================================

The first two are the ``id`` of an object in the process that exported, so they are addresses, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from archive.formats.exported.modules import build_modules, parse_modules
from archive.formats.exported.node_metadata import FUNCTION, FUNCTIONS, MODULES, ORIGINS, STACK_TRACE
from archive.formats.exported.origins import build_origins, parse_origins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.formats.exported.modules import Instance
    from archive.formats.exported.origins import NodeOrigin

ADDRESS = re.compile(r"(?<= at 0x)[0-9a-f]{1,16}(?=>)")
CODE = re.compile(r'(?<=File "<eval_with_key>\.)\d{1,18}(?=[" ])')


class Id(StrEnum):
    """The kinds of ids."""

    GRAPH = "graphs"
    MODULE = "modules"
    ADDRESS = "addresses"
    CODE = "pieces of generated code"


class IdNumbering:
    """Numbers ids by their first use, from 0, separately for each kind."""

    def __init__(self) -> None:
        self._numbers = defaultdict[Id, dict[str, int]](dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many different ids of each kind were numbered."""
        return {kind.value: len(self._numbers[kind]) for kind in Id if self._numbers[kind]}

    def numbered(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """A node's metadata with its ids numbered; whatever is not laid out as PyTorch does it stays."""
        return {key: self._text(key, text) for key, text in metadata.items()}

    def _text(self, key: str, text: str) -> str:
        if key == STACK_TRACE:
            return CODE.sub(lambda match: str(self.number(Id.CODE, match[0])), text)
        if key == MODULES:
            instances = parse_modules(text)
            return text if instances is None else build_modules(tuple(map(self._instance, instances)))
        if key == ORIGINS:
            origins = parse_origins(text)
            return text if origins is None else build_origins(tuple(map(self._origin, origins)))
        return self._addresses(text) if key in (FUNCTION, FUNCTIONS) else text

    def _instance(self, instance: Instance) -> Instance:
        key = instance.key
        if key.id is None:
            return instance
        return instance._replace(key=key._replace(id=self.number(Id.MODULE, str(key.id))))

    def _origin(self, origin: NodeOrigin) -> NodeOrigin:
        graph = self.number(Id.GRAPH, str(origin.graph))
        target = self._addresses(origin.target)
        return origin._replace(target=target, graph=graph, origins=tuple(map(self._origin, origin.origins)))

    def _addresses(self, text: str) -> str:
        return ADDRESS.sub(lambda match: f"{self.number(Id.ADDRESS, match[0]):x}", text)

    def number(self, kind: Id, value: str) -> int:
        """The number of an id."""
        known = self._numbers[kind]
        return known.setdefault(value, len(known))
