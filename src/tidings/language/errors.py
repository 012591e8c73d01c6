"""The errors that users cause, one class for each kind of mistake.

`PredicateError` is a mistake in the text of a predicate. `NormalFormError` means that a valid
predicate is too large for an operation, `TranslationError` that another dialect cannot express it.
`EventError` means that something is not a valid event. All are `ValueError`s. `caret` shows the
place of a mistake in a text.
"""

from __future__ import annotations

from unicodedata import east_asian_width

_WINDOW = 72  # columns of the text shown around the caret


class PredicateError(ValueError):
    """A predicate that cannot be read.

    `line` and `column` count from 1. `expected` says what should stand there, `found` what does.
    The message shows the line with a caret under the place.
    """

    def __init__(self, text: str, position: int, expected: str, found: str | None = None) -> None:
        before = text[:position]
        self.text = text
        self.position = position
        self.line = before.count("\n") + 1
        self.column = position - (before.rfind("\n") + 1) + 1
        self.expected = expected
        self.found = found if found is not None else _found(text, position)
        super().__init__(f"{self.summary}\n{self.caret}")

    def __reduce__(self) -> tuple[type[PredicateError], tuple[str, int, str, str]]:
        """Pickle by the constructor's arguments, so the error can come from a worker process."""
        return PredicateError, (self.text, self.position, self.expected, self.found)

    @property
    def summary(self) -> str:
        """The message in one line, without the text."""
        return (
            f"line {self.line}, column {self.column}: expected {self.expected}, found {self.found}"
        )

    @property
    def caret(self) -> str:
        """The line of the text, cut to a window, with a caret under the place."""
        return caret(self.text, self.position)


class NormalFormError(ValueError):
    """An operation needs the normal form of a predicate, and that would pass the bound.

    The predicate still matches events, because matching evaluates its expression.
    """

    def __init__(self, max_filters: int) -> None:
        self.max_filters = max_filters
        super().__init__(
            f"the normal form would pass the bound of {max_filters} filters, or of the steps to "
            f"find them; the predicate still matches, but covers, intersects, reduce and filters "
            f"need the normal form (raise both bounds with parse(text, max_filters=…), or split "
            f"the predicate)"
        )

    def __reduce__(self) -> tuple[type[NormalFormError], tuple[int]]:
        """Pickle by the constructor's argument."""
        return NormalFormError, (self.max_filters,)


class TranslationError(ValueError):
    """A predicate, or a part of one, that another dialect cannot express.

    `dialect` names the dialect, `part` is the part in our text form, and `reason` says why.
    """

    def __init__(self, dialect: str, part: str, reason: str) -> None:
        self.dialect = dialect
        self.part = part
        self.reason = reason
        shown = part if len(part) <= 200 else part[:199] + "…"
        super().__init__(f"{dialect} cannot say {shown}: {reason}")

    def __reduce__(self) -> tuple[type[TranslationError], tuple[str, str, str]]:
        """Pickle by the constructor's arguments."""
        return TranslationError, (self.dialect, self.part, self.reason)


class EventError(ValueError):
    """Not a valid event: malformed JSON, a value of an unsupported type, or too deep a nesting.

    `position` is the character, from 0, at which JSON text is malformed; None for other mistakes.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(message)


def caret(text: str, position: int) -> str:
    """The line of a text that holds a position, cut to a window, with a caret under it.

    >>> print(caret("x = 1\\nand y ? 2", 12))
      and y ? 2
            ^
    """
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].partition("\n")[0]
    offset = position - start
    first = max(0, min(offset - _WINDOW // 2, len(line) - _WINDOW))
    shown = "".join(c if c.isprintable() else " " for c in line[first : first + _WINDOW])
    lead = "… " if first else ""
    tail = " …" if first + _WINDOW < len(line) else ""
    width = sum(2 if east_asian_width(c) in "WF" else 1 for c in shown[: offset - first])
    return f"  {lead}{shown}{tail}\n  {' ' * (len(lead) + width)}^"


def _found(text: str, position: int) -> str:
    """Name what stands at a position: the end, a word, a number, or a single character."""
    if position >= len(text):
        return "the end of the text"
    end = position + 1
    if text[position].isalnum() or text[position] == "_":
        while end < len(text) and (text[end].isalnum() or text[end] in "_.-"):
            end += 1
    word = text[position:end]
    return repr(word if len(word) <= 40 else word[:39] + "…")
