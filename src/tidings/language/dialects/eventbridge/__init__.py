"""The `eventbridge` dialect: JSON event patterns of Amazon EventBridge, as event-ruler reads them.

`syntax` reads a text into a tree, `translation` turns the tree into an expression of ours,
`evaluation` answers residuals, and `writing` turns expressions back into text. `DIALECTS` asks for
the four functions below.
"""

from tidings.language.dialects.eventbridge.translation import names, read, test
from tidings.language.dialects.eventbridge.writing import write

__all__ = ["names", "read", "test", "write"]
