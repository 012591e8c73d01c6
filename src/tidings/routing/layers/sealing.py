"""What matching and delivery nodes may read (L1, separate domains of trust)."""

from __future__ import annotations

from tidings.routing.packets import Payload, Publication, Text


class Open:
    """Nothing is sealed: every node on the path may read everything."""

    def seal_text(self, text: str) -> Text:
        """A predicate, for the nodes that match."""
        return text

    def open_text(self, text: Text) -> str:
        """A predicate that another node has placed here."""
        return text if isinstance(text, str) else "false"

    def seal_event(self, publication: Publication) -> tuple[Payload, bytes]:
        """An event: for the nodes that match, and for subscribers where that is something else."""
        return publication, b""

    def open_event(self, content: Payload) -> Publication | None:
        """An event for the nodes that match; None if this node cannot read it."""
        return content if isinstance(content, Publication) else None

    def open_payload(self, payload: Payload) -> Publication | None:
        """An event for subscribers; None if this node cannot read it."""
        return payload if isinstance(payload, Publication) else None
