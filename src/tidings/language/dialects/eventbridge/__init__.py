"""The `eventbridge` dialect: JSON event patterns of Amazon EventBridge, as event-ruler reads them.

`syntax` reads a text into branches, `translation` turns these into an expression of ours,
`evaluation` evaluates residuals, and `writing` turns expressions of ours into text. `DIALECTS`
calls the functions below.
"""

from tidings.language.dialects.eventbridge.translation import (
    fields,
    names,
    read,
    test,
    tested_for_null,
)
from tidings.language.dialects.eventbridge.writing import write

__all__ = [
    "fields",
    "names",
    "read",
    "test",
    "tested_for_null",
    "write",
]
