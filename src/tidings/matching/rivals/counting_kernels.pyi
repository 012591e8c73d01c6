from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

EQUAL: int
UNEQUAL: int
LESS: int
LESS_EQUAL: int
GREATER: int
GREATER_EQUAL: int
PREFIX: int
SUFFIX: int
CONTAINS: int
OPERATORS: int

TEXT: int
INTEGER: int
REAL: int
BOOLEAN: int
NUMBER: int
ANY: int
TYPES: int

EPOCH: int
FOUND: int
MATCHED: int
IGNORED: int
EXCLUDED: int
PROGRESS: int

ARRAY: int
TREE: int
HASH: int

SLOT: np.dtype[Any]
NODE: np.dtype[Any]
RUN: np.dtype[Any]

_Array = NDArray[Any]

class Search:
    def __init__(
        self,
        left: Sequence[_Array],
        right: Sequence[_Array],
        selectivity: Sequence[_Array],
        state: Sequence[_Array],
        names: dict[str, int],
        interfaces: list[Any],
        split: Callable[[int], tuple[float, int]],
        kind: int,
    ) -> None: ...
    def match(
        self, event: Mapping[str, Any], others: Sequence[int], outside: Sequence[int]
    ) -> list[Any]: ...

def number_constraints(slots: _Array, starts: _Array) -> int: ...
def count_nodes(slots: _Array, offsets: _Array, text: _Array) -> int: ...
def build_tries(
    slots: _Array, offsets: _Array, text: _Array, starts: _Array, nodes: _Array, depth: int
) -> None: ...
def count_links(constraints: _Array, ends: _Array, begin: _Array, sizes: _Array) -> None: ...
def link_filters(constraints: _Array, ends: _Array, begin: _Array, filters: _Array) -> None: ...
def find_determinants(
    constraints: _Array,
    ends: _Array,
    owner: _Array,
    attributes: _Array,
    chosen: _Array,
    out: _Array,
) -> None: ...
