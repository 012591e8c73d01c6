"""The schemes by name. A new one is a file in the folder of its family and a row here."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tidings.routing.flooding import scheme as flooding
from tidings.routing.layers import medym, medym_mesh
from tidings.routing.options import NoOptions, OptionsError, read_options, split_text
from tidings.routing.reverse_path import entries, rooted, shared_tree
from tidings.routing.scheme import Scheme, same_header
from tidings.routing.source_trees import drp, ips, pif, psf


def _row(name: str, description: str, file: Any, **more: Any) -> Scheme:
    """The row of a file; what the contract leaves open is passed as `more`."""
    functions = vars(file)
    send = functions.get("send") or same_header(file.forward, file.header)
    more |= {name: functions[name] for name in ("accepts", "graph") if name in functions}
    sizes = (file.header_bits, file.size, file.formula)
    return Scheme(name, description, file.build, file.init, send, *sizes, **more)


SCHEMES: Final[dict[str, Scheme]] = {
    "flooding": _row("flooding", "everywhere, duplicates dropped (S1)", flooding, suppresses=True),
    "psf": _row("psf", "per-source forwarding (U2)", psf),
    "ips": _row("ips", "per-source, indistinguishable sources as one (U3)", ips),
    "pif": _row("pif", "per-interface forwarding in the source's tree (U4)", pif),
    "drp": _row("drp", "receivers listed at the source (U5)", drp),
    "medym": _row(
        "medym", "receivers listed for each link (S4)", medym, options=medym.MedymOptions
    ),
    "shared-tree": _row(
        "shared-tree",
        "one tree for all publishers (S10)",
        shared_tree,
        options=shared_tree.SharedOptions,
        detours=True,
    ),
    "rooted": _row(
        "rooted",
        "interests up, events by the root (S14)",
        rooted,
        options=rooted.RootedOptions,
        detours=True,
    ),
    "entries": _row(
        "entries", "wherever a match came from, duplicates dropped (S17)", entries, suppresses=True
    ),
    "medym-mesh": _row("medym-mesh", "lists over the destinations only (S4)", medym_mesh),
}


def scheme(text: str) -> Scheme:
    """The scheme that a text names, with the options that it gives: `name:key=value,...`.

    >>> scheme("psf").description
    'per-source forwarding (U2)'
    """
    name, given = split_text(text)
    row = SCHEMES.get(name)
    if row is None:
        raise OptionsError(f"expected some of {', '.join(SCHEMES)}, found {name!r:.60}")
    options = read_options(row.options, given, name)
    if row.options is NoOptions:
        return row
    return row._replace(name=text, build=partial(row.build, options=options))
