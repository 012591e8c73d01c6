"""An owner's side of the store: its subscriptions, put where they must lie, until all have said so.

To each node that holds something goes one change at a time; the next waits for its answer, so
changes cannot overtake each other. What is not answered is repeated. A node that says that it holds
something else gets everything anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidings.routing.layers.store import digest_of_entry
from tidings.routing.packets import Put, Slot, Stored
from tidings.routing.protocol import Timing, earliest

FORGOTTEN: Final = 0  # in place of a number: the node has dropped what it held


class Channel:
    """What one node must hold, and what it has yet to hear of or to confirm."""

    __slots__ = ("at", "changed", "digest", "known", "put", "sent", "wanted")

    def __init__(self) -> None:
        self.wanted: dict[Slot, str] = {}
        self.digest = 0  # of that
        self.known = False  # whether it holds what it was told, or perhaps anything
        self.changed: dict[Slot, None] = {}  # what it has not been told
        self.sent: dict[Slot, None] = {}  # what it has not confirmed
        self.put: Put | None = None  # what it has yet to answer
        self.at = 0  # when to repeat that

    def set(self, slot: Slot, text: str | None) -> None:
        """It must hold another text in a slot, or none."""
        before = self.wanted.pop(slot, None)
        if before is not None:
            self.digest ^= digest_of_entry(slot, before)
        if text is not None:
            self.wanted[slot] = text
            self.digest ^= digest_of_entry(slot, text)
        if before != text:
            self.changed[slot] = None


class Placing:
    """The subscriptions of one node and where they lie."""

    def __init__(
        self, application: str, owner: str, life: int, timing: Timing, number: int = 0
    ) -> None:
        self.application = application
        self.owner = owner
        self.life = life
        self.timing = timing
        self.public = b""  # the owner's key, if those who hold something need it
        self.channels: dict[str, Channel] = {}
        self._told: set[str] = set()  # nodes that may hold something
        self._number = number  # of the newest change
        self._look_at: int | None = None  # when the first answer may be late

    def set(self, node: str, slot: Slot, text: str | None) -> None:
        """From now on a node must hold this text in a slot, or none."""
        channel = self.channels.get(node)
        if channel is None:
            channel = self.channels[node] = Channel()
            self._told.add(node)
        channel.set(slot, text)

    def restart(self, node: str) -> None:
        """A node has come back: it may hold what it held, or nothing."""
        if node in self._told:
            channel = self.channels.setdefault(node, Channel())
            channel.known = False
            channel.put = None

    def rekey(self, public: bytes) -> None:
        """The owner has another key: whoever holds something must hear of it."""
        if public != self.public:
            self.public = public
            for node in list(self.channels):
                self.restart(node)

    def forget(self, node: str) -> None:
        """A node is gone."""
        self.channels.pop(node, None)

    def lies(self, node: str, slot: Slot, text: str) -> bool:
        """Whether a node has confirmed that it holds a subscription."""
        channel = self.channels.get(node)
        if channel is None or not channel.known or channel.wanted.get(slot) != text:
            return False
        return slot not in channel.changed and slot not in channel.sent

    def due(self, node: str, now: int, compare: bool = False) -> Put | None:
        """What a node must be told now, if anything; `compare` asks whether it still agrees."""
        channel = self.channels[node]
        if channel.put is not None:
            if now < channel.at:
                return None
            channel.at = now + self.timing.retry
            return channel.put
        if channel.known and not channel.changed and not compare:
            return None
        return self._next(channel, now)

    def _next(self, channel: Channel, now: int) -> Put:
        anew = not channel.known
        slots: Iterable[Slot] = channel.wanted if anew else channel.changed
        self._number += 1
        channel.at = now + self.timing.retry
        self._look_at = earliest(self._look_at, channel.at)
        wanted = channel.wanted
        channel.put = Put(
            self.application,
            self.owner,
            self.life,
            self._number,
            anew,
            added=tuple((slot, wanted[slot]) for slot in slots if slot in wanted),
            removed=tuple(slot for slot in slots if slot not in wanted),
            digest=channel.digest,
            public=self.public,
        )
        channel.sent = dict.fromkeys(slots)
        channel.changed = {}
        return channel.put

    def kept(self, kept: Stored, now: int) -> Put | None:
        """A node answers; returns what it must be told next."""
        channel = self.channels.get(kept.keeper)
        if channel is None or kept.life != self.life:
            return None
        if kept.number == FORGOTTEN:
            self.restart(kept.keeper)
            return self.due(kept.keeper, now)
        if channel.put is None:
            return None
        if kept.number != channel.put.number:
            return None
        channel.known = kept.agrees
        channel.sent = {}
        channel.put = None
        return self.due(kept.keeper, now)

    def late(self, now: int) -> list[tuple[str, Put]]:
        """What was not answered in time, to be said again."""
        if self._look_at is None or now < self._look_at:
            return []
        found = [(node, self.due(node, now)) for node, c in self.channels.items() if c.put]
        self._look_at = min((c.at for c in self.channels.values() if c.put), default=None)
        return [(node, put) for node, put in found if put is not None]

    def timer(self) -> int | None:
        """When to look for what was not answered."""
        return self._look_at

    def is_settled(self) -> bool:
        """Whether all that must lie somewhere lies there; something else may lie there, too."""
        return all(
            channel.known
            and channel.wanted.keys().isdisjoint(channel.sent)
            and channel.wanted.keys().isdisjoint(channel.changed)
            for channel in self.channels.values()
        )
