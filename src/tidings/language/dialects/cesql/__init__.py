"""The `cesql` dialect: CloudEvents SQL 1.0.

`syntax` reads a text into a tree, `translation` turns the tree into an expression of ours,
`evaluation` answers residuals, and `writing` turns expressions back into text. `DIALECTS` asks for
the four functions below.
"""

from tidings.language.dialects.cesql.translation import names, read, test
from tidings.language.dialects.cesql.writing import write

__all__ = ["names", "read", "test", "write"]
