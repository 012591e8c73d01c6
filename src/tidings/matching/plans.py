"""A table as text: which filters are found how, and which attributes hold the most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidings.matching.native.engine import Index

PATHS: Final = ("by key", "in order", "in blocks", "always")
MOST_ATTRIBUTES: Final = 10  # shown of a segment


def plan_text(index: Index) -> str:
    """The segments of an index, their access paths and attributes."""
    subscriptions, filters, constraints, size = index.sizes()
    lines = [
        f"{subscriptions:,} subscriptions, {filters:,} filters, {constraints:,} constraints, "
        f"{size:,} bytes"
    ]
    for number, segment in enumerate(index.plan()):
        paths = ", ".join(f"{segment[path]:,} {path}" for path in PATHS if segment[path])
        lines.append(
            f"segment {number}: {segment['filters']:,} filters, {segment['bytes']:,} bytes; {paths}"
        )
        attributes = sorted(segment["attributes"], key=_weight, reverse=True)
        lines += [f"  {_attribute(one)}" for one in attributes[:MOST_ATTRIBUTES] if _weight(one)]
        if len(attributes) > MOST_ATTRIBUTES:
            lines.append(f"  … ({len(attributes)} attributes in all)")
    return "\n".join(lines)


def _weight(attribute: dict[str, Any]) -> int:
    """How much an event with this attribute has to look at, roughly."""
    return 64 * int(attribute["blocks"]) + int(attribute["ordered"]) + len(attribute["keys"])


def _attribute(attribute: dict[str, Any]) -> str:
    name = f"{attribute['name']!r} {attribute['kind']}".rstrip()
    parts = []
    if attribute["keys"]:
        parts.append("keys by " + ", ".join(attribute["keys"]))
    if attribute["ordered"]:
        parts.append(f"{attribute['ordered']:,} in order")
    if attribute["blocks"]:
        parts.append(f"{attribute['blocks']:,} blocks")
    return f"{name}: {'; '.join(parts)}"
