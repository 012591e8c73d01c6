"""`MATCHERS`: all matchers by name. A new matcher is one module and one row here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidings.matching.contract import Matcher
from tidings.matching.rivals.counting import Counting
from tidings.matching.rivals.search_tree import SearchTree
from tidings.matching.scan import Scan
from tidings.matching.table import Table

MATCHERS: Final[dict[str, Callable[..., Matcher]]] = {
    "scan": Scan,
    "counting": Counting,
    "search-tree": SearchTree,
    "table": Table,
}
