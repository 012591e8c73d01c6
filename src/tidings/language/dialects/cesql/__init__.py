"""The `cesql` dialect: CloudEvents SQL 1.0.

`syntax` reads a text into a tree, `translation` turns the tree into an expression of ours,
`evaluation` evaluates residuals, and `writing` turns expressions of ours into text. `DIALECTS`
calls the four functions below.
"""

from tidings.language.dialects.cesql.translation import names, read, test
from tidings.language.dialects.cesql.writing import write

__all__ = ["names", "read", "test", "write"]
