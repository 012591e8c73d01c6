"""Separate domains of trust (L1, section 3.1): what each layer may read.

The delivery layer needs addresses and nothing else. Where an application seals, its nodes have one
or both of two keys, and a node that has neither only relays:

- the *application key* is for nodes with publishers and subscribers. Events for subscribers are
  encrypted with it (AES-SIV: no nonce that could be used twice), padded to a power of two.
- the *matching key* is a pair (X25519). All who publish or subscribe know its public half. Whatever
  goes to nodes that match, subscriptions and events and their keys on the ring, is encrypted to it
  as a whole (X25519, HKDF, AES-SIV); only nodes that match have the private half.

Nothing here draws chance: the one-time key of a box follows from the application key and from what
is in the box. So a run can be replayed, and two different boxes never share a key. Equal events get
equal bytes only if they are the same event: its source, life and number are inside.

What a relay still learns: which node sends how much to which nodes, and when.
"""

from __future__ import annotations

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


class SealError(ValueError):
    """A key that is no key, or one that is missing for what a user wants to do."""


class Keyring(Struct, frozen=True):
    """The keys of a node for one application; what it does not have, it cannot read."""

    application: bytes = b""
    matching_public: bytes = b""
    matching_private: bytes = b""

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

    may_use = True

    def wrap(self, packet: Put | Walk) -> Put | Walk | Sealed:
        """A packet for a node that matches."""
        return packet

    def unwrap(self, sealed: Sealed) -> Put | Walk | None:
        """What is in a box; None if this node cannot read it."""
        return None

    def seal_event(self, publication: Publication) -> bytes:
        """An event for subscribers; nothing if it is the one for nodes that match."""
        return b""

    def open_event(self, payload: Payload) -> Publication | None:
        """An event for subscribers; None if this node cannot read it."""
        return payload if isinstance(payload, Publication) else None


class Seal:
    """The seals of one application, with the keys that a node has."""

    def __init__(self, application: str, keys: Keyring) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        keys.check()
        self._application = application.encode()
        self._keys = keys
        self._events: AESSIV | None = None
        if keys.application:
            self._events = AESSIV(_derived(keys.application, b"tidings events", 64))

    @property
    def may_use(self) -> bool:
        """Whether users of this node may publish and subscribe."""
        return bool(self._keys.application and self._keys.matching_public)

    def wrap(self, packet: Put | Walk) -> Put | Walk | Sealed:
        """A packet for a node that matches."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        data = _padded(_encode(packet))
        # A node that only matches passes an event on: its secret is the matching key.
        secret = self._keys.application or self._keys.matching_private
        once = X25519PrivateKey.from_private_bytes(
            _derived(secret, b"tidings box" + self._application, KEY_BYTES, data)
        )
        public = once.public_key().public_bytes_raw()
        box = self._box(once, self._keys.matching_public, public)
        return Sealed(packet.application, public + box.encrypt(data, [self._application]))

    def unwrap(self, sealed: Sealed) -> Put | Walk | None:
        """What is in a box; None if this node cannot read it."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        if not self._keys.matching_private or len(sealed.box) <= KEY_BYTES:
            return None
        private = X25519PrivateKey.from_private_bytes(self._keys.matching_private)
        public, data = sealed.box[:KEY_BYTES], sealed.box[KEY_BYTES:]
        try:
            opened = self._box(private, public, public).decrypt(data, [self._application])
            packet: Put | Walk = _read_packet(_unpadded(opened))
            return packet
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            return None

    def _box(self, private: Any, public: bytes, once: bytes) -> AESSIV:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        return AESSIV(_derived(shared, b"tidings box key", 64, once))

    def seal_event(self, publication: Publication) -> bytes:
        """An event for subscribers; nothing if it is the one for nodes that match."""
        if self._events is None:
            raise SealError("expected the application key, found none")
        return self._events.encrypt(_padded(_encode(publication)), [self._application])

    def open_event(self, payload: Payload) -> Publication | None:
        """An event for subscribers; None if this node cannot read it."""
        from cryptography.exceptions import InvalidTag

        if self._events is None or not isinstance(payload, bytes):
            return None
        try:
            return _read_event(_unpadded(self._events.decrypt(payload, [self._application])))
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            return None


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
