"""The `jms` dialect: message selectors of Jakarta Messaging 3.1 (section 3.8.1).

`syntax` reads a text into a tree, `translation` turns the tree into an expression of ours,
`evaluation` evaluates residuals, and `writing` turns expressions of ours into text. `DIALECTS`
calls the four functions below.
"""

from tidings.language.dialects.jms.translation import names, read, test
from tidings.language.dialects.jms.writing import write

__all__ = ["names", "read", "test", "write"]
