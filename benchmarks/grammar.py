"""The parser: ours beside one that Lark (LALR) makes from a grammar of the same constraints.

`python -m benchmarks.grammar [--json]`. Lark only builds its tree; ours builds the expression. This
is the measurement behind docs/decisions/0002-hand-written-parser.md.
"""

from __future__ import annotations

import random

from lark import Lark

from benchmarks.language import predicates_of_three
from benchmarks.measure import command_line, measure, report
from tidings import parse
from tidings.language.expression import constraints

GRAMMAR = r"""
start: conjunction ("or"i conjunction)*
conjunction: negation ("and"i negation)*
negation: "not"i negation | "(" start ")" | comparison
comparison: NAME SYMBOL value | NAME WORD value
    | NAME "between"i value "and"i value | NAME "in"i "(" value ("," value)* ")"
value: TEXT | NUMBER
SYMBOL: "<=" | ">=" | "!=" | "<>" | "=" | "<" | ">"
WORD.2: /prefix|suffix|contains|like/i
NAME: /[^\W\d]\w*(?:[.-]\w+)*/
TEXT: /'[^']*(?:''[^']*)*'/
NUMBER: /[+-]?[0-9]+(\.[0-9]+)?/
%import common.WS
%ignore WS
"""


def main() -> None:
    """Read the same texts both ways."""
    parser, command = command_line("benchmarks.grammar", str(__doc__).splitlines()[0])
    arguments = parser.parse_args()
    texts = predicates_of_three(5_000, random.Random(arguments.seed))
    lark = Lark(GRAMMAR, parser="lalr")
    for text in texts[:100]:
        found = len(list(lark.parse(text).find_data("comparison")))
        assert found == len(list(constraints(parse(text).expression))) == 3
    ours = measure("ours", len(texts), lambda: [parse(t) for t in texts], arguments.repeats)
    theirs = measure("Lark", len(texts), lambda: [lark.parse(t) for t in texts], arguments.repeats)
    ours.facts["times as fast"] = round(theirs.best_us / ours.best_us, 1)
    report([ours, theirs], command, arguments.json)


if __name__ == "__main__":
    main()
