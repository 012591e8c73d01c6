"""Unicode simple case folding: how operators that ignore case compare text.

Simple folding maps one code point to one code point (statuses C and S of Unicode's CaseFolding), so
the length never changes and `_` in a pattern still stands for one character. `'ß'` therefore does
not equal `'ss'`, but `'ẞ'` equals `'ß'`, `'K'` (Kelvin) equals `'k'` and final `'ς'` equals `'σ'`.
The data is the interpreter's own Unicode tables, and three pairs that Unicode has added since: so
RE2, which evaluates `imatches`, folds alike.
"""

from __future__ import annotations

from functools import cache, lru_cache

_HIGHEST_CASED = 0x1E943  # the last code point with a case mapping (Adlam)
_ADDED = {"\u1fd3": "\u0390", "\u1fe3": "\u03b0", "\ufb05": "\ufb06"}  # by Unicode 15.1


@lru_cache(maxsize=65536)
def _fold_character(character: str) -> str:
    """Fold one code point; it stays as it is if only a longer folding exists."""
    folded = _ADDED.get(character) or character.casefold()
    if len(folded) == 1:
        return folded
    # Full folding is longer here (status F). The simple folding, if any, is the lower case.
    lower = character.lower()
    return lower if len(lower) == 1 else character


def fold(text: str) -> str:
    """Fold a text for a comparison that ignores case.

    >>> fold("Straße") == fold("STRAẞE"), fold("ΣΑΣ") == fold("σας")
    (True, True)
    """
    if text.isascii():
        return text.lower()
    return "".join(map(_fold_character, text))


@cache
def _orbits() -> dict[str, str]:
    """For each folded character to which several characters fold, all of them."""
    orbits: dict[str, str] = {}
    for code in range(_HIGHEST_CASED + 1):
        character = chr(code)
        folded = _fold_character(character)
        if folded != character:
            orbits[folded] = orbits.get(folded, folded) + character
    return orbits


def orbit(character: str) -> str:
    """All characters that fold to this folded one, itself included."""
    return _orbits().get(character, character)


def caseless(text: str) -> bool:
    """Whether every character of a folded text stands only for itself."""
    return all(orbit(character) == character for character in text)
