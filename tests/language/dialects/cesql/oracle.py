"""The slow twin of the `cesql` dialect, from the text of CloudEvents SQL 1.0 alone.

Expressions are drawn as trees of tuples, spelled as text for the dialect, and evaluated here
without its parser or translation, in the "complete evaluation mode" of section 4.1: every
subexpression has a value and a list of errors, and an error never stops the rest.

    ("lit", value) ("name", name) ("exists", name) ("call", function, e, ...)
    ("and" "or" "xor", e, e) ("not", e) ("neg", e) ("math", operator, e, e)
    ("cmp", operator, e, e) ("like", negated, e, pattern) ("in", negated, e, e, ...)
"""

from collections.abc import Mapping
from typing import Any

from tests.language.dialects.sql_oracle import COMPARE, MANY, Tree, elements, quotient, readings
from tests.language.oracle import like

Result = tuple[Any, list[str]]

LOWEST, HIGHEST = -(2**31), 2**31 - 1
ZERO = {"text": "", "integer": 0, "boolean": False}
MISSING = object()  # what a missing attribute is until the subexpression around it has a type

# Unicode's White_Space property.
SPACES = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029}
SPACES |= {0x202F, 0x205F, 0x3000}

FUNCTIONS: dict[str, tuple[list[str], str]] = {
    "LENGTH": (["text"], "integer"),
    "LOWER": (["text"], "text"),
    "UPPER": (["text"], "text"),
    "TRIM": (["text"], "text"),
    "LEFT": (["text", "integer"], "text"),
    "RIGHT": (["text", "integer"], "text"),
    "SUBSTRING": (["text", "integer", "integer"], "text"),
    "ABS": (["integer"], "integer"),
    "INT": (["integer"], "integer"),
    "STRING": (["text"], "text"),
    "BOOL": (["boolean"], "boolean"),
}


# Spelling


def spelled(tree: Tree) -> str:
    """The text of a tree, with parentheses around every operand."""
    match tree:
        case ("lit", bool() as value):
            return "TRUE" if value else "false"
        case ("lit", str() as value):
            return "'" + value.replace("'", "\\'") + "'"
        case ("lit", value) | ("name", value):
            return str(value)
        case ("exists", name):
            return f"exists {name}"
        case ("call", function, *arguments):
            return f"{function.lower()}({', '.join(map(spelled, arguments))})"
        case ("and" | "or" | "xor", left, right):
            return f"({spelled(left)}) {tree[0]} ({spelled(right)})"
        case ("not", part):
            return f"NOT ({spelled(part)})"
        case ("neg", part):
            return f"-({spelled(part)})"
        case ("math" | "cmp", operator, left, right):
            return f"({spelled(left)}) {operator} ({spelled(right)})"
        case ("like", negated, left, pattern):
            word = "NOT LIKE" if negated else "like"
            return f"""({spelled(left)}) {word} "{pattern}\""""
        case ("in", negated, left, *members):
            word = "not In" if negated else "IN"
            return f"({spelled(left)}) {word} ({', '.join(map(spelled, members))})"
        case _:
            raise AssertionError(tree)


# Filters (section 1.2)


def passes(tree: Tree, event: Mapping[str, Any]) -> bool:
    """Whether an event passes: the value is the boolean true, and there is no error."""
    if tree[0] == "name":
        return any(value is True for value in elements(event.get(tree[1])))
    value, errors = truth(tree, event)
    return value is True and not errors


def truth(tree: Tree, event: Mapping[str, Any]) -> Result:
    """An expression cast to a boolean, on an event whose attributes may be lists."""
    match tree:
        case ("and" | "or", left, right):
            value, errors = truth(left, event)
            if value is (tree[0] == "or"):
                return value, errors
            value, more = truth(right, event)
            return value, errors + more
        case ("xor", left, right):
            (one, errors), (other, more) = truth(left, event), truth(right, event)
            return one is not other, errors + more
        case ("not", part):
            value, errors = truth(part, event)
            return not value, errors
        case ("cmp", "!=" | "<>", left, right):
            return truth(("not", ("cmp", "=", left, right)), event)
        case ("like" | "in", True, *rest):
            return truth(("not", (tree[0], False, *rest)), event)
    results = [condition(tree, values) for values in readings(tree, event)]
    for answer in (True, False):
        if (answer, []) in results:
            return answer, []
    return results[0]


def condition(tree: Tree, values: Mapping[str, Any]) -> Result:
    known_values = {name: v if v is MANY else known(v) for name, v in values.items()}
    value, errors = evaluated(tree, known_values)
    if value is MISSING:
        return False, errors
    return casted("boolean", value, errors)


def known(value: Any) -> Any:
    """A value in one of the three types: any other is text (section 3.2)."""
    if type(value) in (bool, str) or (type(value) is int and LOWEST <= value <= HIGHEST):
        return value
    return repr(value)


# Values and errors


def kind(value: Any) -> str:
    return {bool: "boolean", int: "integer", str: "text"}[type(value)]


def casted(target: str, value: Any, errors: list[str]) -> Result:
    """A cast by the table of section 3.7."""
    if kind(value) == target:
        return value, errors
    if target == "text":
        return (str(value).lower() if type(value) is bool else str(value)), errors
    if target == "integer":
        if type(value) is bool:
            return int(value), errors
        digits = value[1:] if value[:1] in ("+", "-") else value
        if digits and all(c in "0123456789" for c in digits) and len(digits) < 400:
            number = int(value)
            if LOWEST <= number <= HIGHEST:
                return number, errors
        return 0, [*errors, "cast"]
    if type(value) is int:
        return value != 0, errors
    if value.lower() in ("true", "false"):
        return value.lower() == "true", errors
    return False, [*errors, "cast"]


def evaluated(tree: Tree, values: Mapping[str, Any]) -> Result:
    """The value of an expression and its errors, on attributes of one value each."""
    match tree:
        case ("lit", value):
            return value, []
        case ("name", name):
            if name not in values:
                return MISSING, ["missingAttribute"]
            return (MISSING, ["list"]) if values[name] is MANY else (values[name], [])
        case ("exists", name):
            return name in values or name in ("id", "source", "type", "specversion"), []
        case ("and" | "or", left, right):
            value, errors = evaluated(left, values)
            if value is MISSING:
                return False, errors
            value, errors = casted("boolean", value, errors)
            if value is (tree[0] == "or"):
                return value, errors
            value, more = evaluated(right, values)
            if value is MISSING:
                return False, errors + more
            return casted("boolean", value, errors + more)
        case ("xor", left, right):
            return strict(
                ["boolean"] * 2, "boolean", lambda a, b: (a is not b, []), (left, right), values
            )
        case ("not", part):
            return strict(["boolean"], "boolean", lambda a: (not a, []), (part,), values)
        case ("neg", part):
            return strict(["integer"], "integer", lambda a: fitted(-a), (part,), values)
        case ("math", operator, left, right):
            return strict(["integer"] * 2, "integer", MATH[operator], (left, right), values)
        case ("cmp", "=" | "!=" | "<>", left, right):
            (x, errors), (y, more) = evaluated(left, values), evaluated(right, values)
            if MISSING in (x, y):
                return False, errors + more
            x, errors = casted(kind(y), x, errors + more)
            return (x == y) is (tree[1] == "=") if not errors else False, errors
        case ("cmp", operator, left, right):

            def ordered(x: int, y: int) -> Result:
                return COMPARE[operator](x, y), []

            return strict(["integer"] * 2, "boolean", ordered, (left, right), values)
        case ("like", negated, left, pattern):

            def fits(text: str) -> Result:
                return like(pattern, text) is not negated, []

            return strict(["text"], "boolean", fits, (left,), values)
        case ("in", negated, left, *members):
            value, errors = evaluated(left, values)
            found = False
            for member in members:
                other, more = evaluated(member, values)
                errors = errors + more
                if MISSING not in (value, other):
                    other, errors = casted(kind(value), other, errors)
                    found = found or value == other
            return found is not negated if not errors else False, errors
        case ("call", function, *arguments):
            return called(function, arguments, values)
        case _:
            raise AssertionError(tree)


def strict(
    kinds: list[str], result: str, function: Any, trees: Any, values: Mapping[str, Any]
) -> Result:
    """An operator or function of all its operands, each cast to its type."""
    given, errors = [], []
    for target, tree in zip(kinds, trees, strict=True):
        value, more = evaluated(tree, values)
        if value is not MISSING:
            value, more = casted(target, value, more)
        given.append(value)
        errors += more
    if MISSING in given:
        return ZERO[result], errors
    value, more = function(*given)
    return value, errors + more


def fitted(number: int) -> Result:
    return (number, []) if LOWEST <= number <= HIGHEST else (0, ["math"])


def divided(x: int, y: int) -> Result:
    if y == 0:
        return 0, ["math"]
    return fitted(quotient(x, y))


def remainder(x: int, y: int) -> Result:
    if y == 0:
        return 0, ["math"]
    return fitted(x - y * quotient(x, y))


MATH: dict[str, Any] = {
    "+": lambda x, y: fitted(x + y),
    "-": lambda x, y: fitted(x - y),
    "*": lambda x, y: fitted(x * y),
    "/": divided,
    "%": remainder,
}


# Functions (section 3.5)


def called(function: str, arguments: list[Tree], values: Mapping[str, Any]) -> Result:
    if function == "CONCAT" or (function == "CONCAT_WS" and arguments):
        kinds, result = ["text"] * len(arguments), "text"
    elif function == "SUBSTRING" and len(arguments) == 2:
        kinds, result = ["text", "integer"], "text"
    elif function in ("IS_INT", "IS_BOOL") and len(arguments) == 1:
        value, errors = evaluated(arguments[0], values)
        if value is MISSING:
            return False, errors
        return not casted("integer" if function == "IS_INT" else "boolean", value, [])[1], errors
    elif function in FUNCTIONS and len(FUNCTIONS[function][0]) == len(arguments):
        kinds, result = FUNCTIONS[function]
    else:
        return False, ["missingFunction"]
    return strict(kinds, result, lambda *given: applied(function, *given), arguments, values)


def applied(function: str, *given: Any) -> Result:
    match (function, *given):
        case ("LENGTH", x):
            return len(x), []
        case ("CONCAT", *parts):
            return "".join(parts), []
        case ("CONCAT_WS", delimiter, *parts):
            return str(delimiter).join(parts), []
        case ("LOWER", x):
            return x.lower(), []
        case ("UPPER", x):
            return x.upper(), []
        case ("TRIM", x):
            start, end = 0, len(x)
            while start < end and ord(x[start]) in SPACES:
                start += 1
            while end > start and ord(x[end - 1]) in SPACES:
                end -= 1
            return x[start:end], []
        case ("LEFT", x, y):
            return (x, ["functionEvaluation"]) if y < 0 else (x[:y], [])
        case ("RIGHT", x, y):
            if y < 0:
                return x, ["functionEvaluation"]
            return (x if len(x) <= y else x[len(x) - y :]), []
        case ("SUBSTRING", x, position, *length):
            if position > len(x) or position < -len(x) or (length and length[0] < 0):
                return "", ["functionEvaluation"]
            if position == 0:
                return "", []
            rest = x[position - 1 :] if position > 0 else x[len(x) + position :]
            return (rest[: length[0]] if length else rest), []
        case ("ABS", x):
            return (HIGHEST, ["math"]) if x == LOWEST else (abs(x), [])
        case ("INT" | "STRING" | "BOOL", x):
            return x, []
        case _:
            raise AssertionError(function)
