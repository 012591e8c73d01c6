"""Options of schemes and protocols: a struct for each, read from a text, a table or arguments.

A text is a name, then perhaps a colon and options: `cbcb`, `cbcb:characters=200,filters=8`. A table
of TOML and arguments `key=value` give the same values. Nothing is guessed: an unknown option, a
value of another type and an option given twice are errors that name what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

O = TypeVar("O", bound=Struct)  # noqa: E741


class OptionsError(ValueError):
    """A name that does not exist, or an option that its owner does not have, or not so."""


class NoOptions(Struct, frozen=True):
    """The options of a scheme or a protocol that has none."""


NONE: Final = NoOptions()


def split_text(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options that a text gives.

    >>> split_text("cbcb:characters=200,filters=8")
    ('cbcb', {'characters': '200', 'filters': '8'})
    """
    name, _, rest = text.partition(":")
    parts = [part.strip() for part in rest.split(",")] if rest.strip() else []
    return name.strip(), read_pairs(parts, text)


def split_list(text: str) -> list[str]:
    """Several texts, separated by commas; `key=value` belongs to the text before it.

    >>> split_list("pif, tcgm:clusters=5,threshold=2, psf")
    ['pif', 'tcgm:clusters=5,threshold=2', 'psf']
    """
    found: list[str] = []
    for part in text.split(","):
        if found and "=" in part and ":" not in part and ":" in found[-1]:
            found[-1] += f",{part.strip()}"
        else:
            found.append(part.strip())
    return found


def read_pairs(pairs: Iterable[str], where: str) -> dict[str, str]:
    """Options given as `key=value`, each once."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise OptionsError(f"{where}: expected options such as key=value, found {pair!r}")
        if key in found:
            raise OptionsError(f"{where}: option {key}: given twice")
        found[key] = value.strip()
    return found


def read_options(kind: type[O], given: Mapping[str, Any], where: str) -> O:
    """The options of a kind, from values that are texts or already of their type.

    >>> class Sizes(Struct, frozen=True):
    ...     clusters: int = 5
    >>> read_options(Sizes, {"clusters": "7"}, "tcgm")
    Sizes(clusters=7)
    """
    known = kind.__struct_fields__
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        expected = f"one of {', '.join(known)}" if known else "none"
        raise OptionsError(f"{where}: option: expected {expected}, found {unknown!r:.40}")
    plain = {key: value for key, value in given.items() if not isinstance(value, str)}
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    try:  # a text may stand for a number; a number of TOML must not stand for a text
        msgspec.convert(plain, _part(kind, tuple(plain)))
        return msgspec.convert({**plain, **texts}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise OptionsError(f"{where}: option: {_plainly(str(error))}") from None


def _part(kind: type[Struct], names: tuple[str, ...]) -> Any:
    """A struct with some of the fields of another."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return msgspec.defstruct(kind.__name__, [(name, types[name]) for name in names])


def _plainly(error: str) -> str:
    """An error of the decoder, with the name of the option first."""
    what, at, path = error.partition(" - at `$.")
    what = what[:1].lower() + what[1:]
    return f"{path.rstrip('`')}: {what}" if at else what
