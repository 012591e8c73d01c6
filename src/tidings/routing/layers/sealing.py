"""Separate domains of trust (L1, section 3.1): what each layer may read.

The delivery layer needs addresses and nothing else. Where an application seals, its nodes have one
or both of two keys, and a node that has neither only relays:

- the *application key* is for nodes with publishers and subscribers. Events for subscribers are
  encrypted with it (AES-SIV: no nonce that could be used twice), padded to a power of two. In the
  mode `subscriber` there is none: each node with subscribers has a pair of its own (X25519) and
  tells the nodes that match its public half; they encrypt an event with a key of its own, and that
  key once for each destination. So only those who get an event can read it.
- the *matching key* is a pair (X25519). All who publish or subscribe know its public half. Whatever
  goes to nodes that match, subscriptions and events and their keys on the ring, is encrypted to it
  as a whole (X25519, HKDF, AES-SIV); only nodes that match have the private half.

Nothing here draws chance: the one-time key of a box follows from the application key and from what
is in the box. So a run can be replayed, and two different boxes never share a key. Equal events get
equal bytes only if they are the same event: its source, life and number are inside.

A node may have several keyrings. It seals with the first and opens with any, so keys can be changed
one node after the other: first all nodes get the new keys behind the old, then before, then alone.

What a relay still learns: which node sends how much to which nodes, when, and how many stops a walk
has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from tidings.routing.packets import Payload, Publication, Put, Sealed, Walk

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KEY_BYTES: Final = 32
SMALLEST: Final = 64  # bytes of a padded event

_encode = msgspec.msgpack.Encoder().encode
_read_packet: Any = msgspec.msgpack.Decoder(Put | Walk).decode
_read_event = msgspec.msgpack.Decoder(Publication).decode


class Addressed(Struct, frozen=True, array_like=True):
    """An event in the mode `subscriber`: a key for each destination, and what it opens."""

    opener: bytes  # public half of the pair that is used once
    wraps: dict[str, bytes]  # by node: the key of the event, sealed
    body: bytes


_read_addressed = msgspec.msgpack.Decoder(Addressed).decode


class SealError(ValueError):
    """A key that is no key, or one that is missing for what a user wants to do."""


class Keyring(Struct, frozen=True):
    """The keys of a node for one application; what it does not have, it cannot read."""

    application: bytes = b""
    matching_public: bytes = b""
    matching_private: bytes = b""
    subscriber_private: bytes = b""  # the node's own, in the mode `subscriber`

    def __repr__(self) -> str:  # a key is never shown
        held = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"<Keyring: {', '.join(held) or 'no key'}>"

    def check(self) -> None:
        """Refuse keys of another length."""
        for name in self.__struct_fields__:
            size = len(getattr(self, name))
            if size not in (0, KEY_BYTES):
                raise SealError(f"key {name}: expected {KEY_BYTES} bytes, found {size}")


def keyring_of(secret: bytes) -> Keyring:
    """All keys of an application, derived from one secret: for whoever sets it up."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    if len(secret) < KEY_BYTES:
        raise SealError(f"secret: expected at least {KEY_BYTES} bytes, found {len(secret)}")
    private = _derived(secret, b"tidings matching", KEY_BYTES)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return Keyring(_derived(secret, b"tidings application", KEY_BYTES), public, private)


class Open:
    """Nothing is sealed: every node on the path may read everything."""

    takes_open = True
    may_use = True
    public = b""

    def wrap(self, packet: Put | Walk) -> Put | Walk | Sealed:
        """A packet for a node that matches."""
        return packet

    def unwrap(self, sealed: Sealed) -> Put | Walk | None:
        """What is in a box; None if this node cannot read it."""
        return None

    def seal_event(self, publication: Publication) -> bytes:
        """An event for subscribers; nothing if it is the one for nodes that match."""
        return b""

    def addressed(self, publication: Publication, publics: Mapping[str, bytes]) -> Payload:
        """An event for subscribers at these nodes, as a node that matches hands it over."""
        return publication

    def open_event(self, payload: Payload) -> Publication | None:
        """An event for subscribers; None if this node cannot read it."""
        return payload if isinstance(payload, Publication) else None

    def is_for_us(self, payload: Payload) -> bool:
        """Whether this node should be able to read an event."""
        return True

    def is_key(self, public: bytes) -> bool:
        """Whether events can be sealed with what a subscriber's node says is its key."""
        return True


class Seal:
    """The seals of one application in the mode `application`, with the keys that a node has."""

    takes_open = False  # what goes to nodes that match: else a node without keys could subscribe

    def __init__(self, application: str, keys: Keyring | Sequence[Keyring], node: str = "") -> None:
        self._application = application.encode()
        self._node = node
        self.change(keys)

    def change(self, keys: Keyring | Sequence[Keyring]) -> None:
        """Seal with the first of these keyrings from now on, and open with any."""
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        self._keyrings = (keys,) if isinstance(keys, Keyring) else tuple(keys) or (Keyring(),)
        for keyring in self._keyrings:
            keyring.check()
        self._keys = self._keyrings[0]
        self._events = [
            AESSIV(_derived(keyring.application, b"tidings events", 64))
            for keyring in self._keyrings
            if keyring.application
        ]

    @property
    def may_use(self) -> bool:
        """Whether users of this node may publish and subscribe."""
        return bool(self._keys.application and self._keys.matching_public)

    public = b""  # what nodes that match must know to seal for this one

    def wrap(self, packet: Put | Walk) -> Put | Walk | Sealed:
        """A packet for a node that matches."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        data = _padded(_encode(packet))
        once = X25519PrivateKey.from_private_bytes(
            _derived(self._secret(), b"tidings box" + self._application, KEY_BYTES, data)
        )
        public = once.public_key().public_bytes_raw()
        box = _box(once, self._keys.matching_public, public)
        left = len(packet.stops) if isinstance(packet, Walk) else 0
        return Sealed(packet.application, public + box.encrypt(data, [self._application]), left)

    def _secret(self) -> bytes:
        """What nobody else knows, or only others of the same domain.

        A node that only matches passes an event on: its secret is the matching key.
        """
        keys = self._keys
        return keys.application or keys.subscriber_private or keys.matching_private

    def unwrap(self, sealed: Sealed) -> Put | Walk | None:
        """What is in a box; None if this node cannot read it."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        public, data = sealed.box[:KEY_BYTES], sealed.box[KEY_BYTES:]
        for keyring in self._keyrings:
            if not keyring.matching_private or not data:
                continue
            private = X25519PrivateKey.from_private_bytes(keyring.matching_private)
            try:
                opened = _box(private, public, public).decrypt(data, [self._application])
                packet: Put | Walk = _read_packet(_unpadded(opened))
                return packet
            except (InvalidTag, ValueError, msgspec.MsgspecError):
                continue
        return None

    def seal_event(self, publication: Publication) -> bytes:
        """An event for subscribers; nothing if it is the one for nodes that match."""
        if not self._keys.application:
            raise SealError("expected the application key, found none")
        return self._events[0].encrypt(_padded(_encode(publication)), [self._application])

    def addressed(self, publication: Publication, publics: Mapping[str, bytes]) -> Payload:
        """An event for subscribers at these nodes, as a node that matches hands it over."""
        raise SealError("expected an event that its publisher has sealed, found an open one")

    def open_event(self, payload: Payload) -> Publication | None:
        """An event for subscribers; None if this node cannot read it."""
        from cryptography.exceptions import InvalidTag

        if not isinstance(payload, bytes):
            return None
        for events in self._events:
            try:
                return _read_event(_unpadded(events.decrypt(payload, [self._application])))
            except (InvalidTag, ValueError, msgspec.MsgspecError):
                continue
        return None

    def is_for_us(self, payload: Payload) -> bool:
        """Whether this node should be able to read an event."""
        return bool(self._events)

    def is_key(self, public: bytes) -> bool:
        """Whether events can be sealed with what a subscriber's node says is its key."""
        return True


class SealEach(Seal):
    """The seals in the mode `subscriber`: an event can be read by its destinations alone."""

    @property
    def may_use(self) -> bool:
        """Whether users of this node may publish and subscribe."""
        return bool(self._keys.subscriber_private and self._keys.matching_public)

    @property
    def public(self) -> bytes:  # type: ignore[override]
        """What nodes that match must know to seal for this one."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        if not self._keys.subscriber_private:
            return b""
        private = X25519PrivateKey.from_private_bytes(self._keys.subscriber_private)
        return private.public_key().public_bytes_raw()

    def seal_event(self, publication: Publication) -> bytes:
        """Nothing: only a node that matches knows for whom it is."""
        return b""

    def addressed(self, publication: Publication, publics: Mapping[str, bytes]) -> Payload:
        """An event for subscribers at these nodes, as a node that matches hands it over."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        data = _padded(_encode(publication))
        secret, purpose = self._secret(), self._application
        key = _derived(secret, b"tidings event key" + purpose, 64, data)
        once = X25519PrivateKey.from_private_bytes(
            _derived(secret, b"tidings wrap" + purpose, KEY_BYTES, data)
        )
        opener = once.public_key().public_bytes_raw()
        wraps = {
            node: _box(once, public, opener).encrypt(key, [self._application, node.encode()])
            for node, public in publics.items()
        }
        return _encode(Addressed(opener, wraps, AESSIV(key).encrypt(data, [self._application])))

    def open_event(self, payload: Payload) -> Publication | None:
        """An event for subscribers; None if this node cannot read it."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        found = self._wrap_of(payload)
        if found is None:
            return None
        addressed, wrap = found
        marks = [self._application, self._node.encode()]
        for keyring in self._keyrings:
            if not keyring.subscriber_private:
                continue
            private = X25519PrivateKey.from_private_bytes(keyring.subscriber_private)
            try:
                key = _box(private, addressed.opener, addressed.opener).decrypt(wrap, marks)
                data = AESSIV(key).decrypt(addressed.body, [self._application])
                return _read_event(_unpadded(data))
            except (InvalidTag, ValueError, msgspec.MsgspecError):
                continue
        return None

    def is_for_us(self, payload: Payload) -> bool:
        """Whether this node should be able to read an event."""
        return self.may_use and self._wrap_of(payload) is not None

    def is_key(self, public: bytes) -> bool:
        """Whether events can be sealed with what a subscriber's node says is its key."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        try:  # some points give the same secret with whatever key
            _box(X25519PrivateKey.from_private_bytes(bytes(KEY_BYTES)), public, public)
        except ValueError:
            return False
        return True

    def _wrap_of(self, payload: Payload) -> tuple[Addressed, bytes] | None:
        if not isinstance(payload, bytes):
            return None
        try:
            addressed = _read_addressed(payload)
        except (ValueError, msgspec.MsgspecError):
            return None
        wrap = addressed.wraps.get(self._node)
        return None if wrap is None else (addressed, wrap)


SEALS: Final[dict[str, type[Seal]]] = {"application": Seal, "subscriber": SealEach}


def seal_of(
    mode: str, application: str, keys: Keyring | Sequence[Keyring], node: str
) -> Seal | Open:
    """The seals of an application in a mode."""
    return Open() if mode == "none" else SEALS[mode](application, keys, node)


def _box(private: Any, public: bytes, once: bytes) -> AESSIV:
    """What two ends can encrypt with who know a private half and the other's public half."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    return AESSIV(_derived(shared, b"tidings box key", 64, once))


def _derived(secret: bytes, purpose: bytes, size: int, salt: bytes | None = None) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), size, salt, purpose).derive(secret)


def _padded(data: bytes) -> bytes:
    """Its length, the data, and zeros up to a power of two."""
    size = max(SMALLEST, 1 << (len(data) + 3).bit_length())
    return (len(data).to_bytes(4, "big") + data).ljust(size, b"\0")


def _unpadded(data: bytes) -> bytes:
    size = int.from_bytes(data[:4], "big")
    if size > len(data) - 4:
        raise ValueError("a length that does not fit")
    return data[4 : 4 + size]
