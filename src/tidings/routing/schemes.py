"""The schemes by name. A new one is a file in the folder of its family and a row here."""

from __future__ import annotations

from typing import Any, Final

from tidings.routing.flooding import scheme as flooding
from tidings.routing.scheme import Scheme
from tidings.routing.source_trees import drp, ips, pif, psf


def _row(name: str, description: str, file: Any, suppresses: bool = False) -> Scheme:
    functions = (file.build, file.init, file.header, file.forward)
    sizes = (file.header_bits, file.size, file.formula)
    return Scheme(name, description, *functions, *sizes, suppresses)


SCHEMES: Final[dict[str, Scheme]] = {
    "flooding": _row("flooding", "everywhere, duplicates dropped (S1)", flooding, suppresses=True),
    "psf": _row("psf", "per-source forwarding (U2)", psf),
    "ips": _row("ips", "per-source, indistinguishable sources as one (U3)", ips),
    "pif": _row("pif", "per-interface forwarding in the source's tree (U4)", pif),
    "drp": _row("drp", "receivers listed at the source (U5)", drp),
}
