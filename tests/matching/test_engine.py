"""The engine: every access path, fold and merge finds what asking each predicate finds.

Limits are tiny here (a log of four, segments of eight filters), so that logs are folded and
segments merged in every example. How much work a search does is counted, so that a slow mistake
shows without a clock.
"""

import ctypes
import json
import math
import signal
import threading
from collections.abc import Callable
from itertools import chain, pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.language import oracle, strategies
from tidings import Event, EventError, Predicate, Table, parse
from tidings.language.constraint import Constraint
from tidings.language.event import read
from tidings.language.expression import Expression, conjoin
from tidings.matching import batches
from tidings.matching.filters import filters_of
from tidings.matching.matchers import MATCHERS
from tidings.matching.native.engine import Columns, Index
from tidings.matching.statistics import statistics_of
from tidings.matching.workload import WORKLOADS

changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "replace", "merge", "compact"]),
        strategies.expressions(size=4),
        st.sampled_from([4096, 4096, 2]),  # the last leaves many without a normal form
    ),
    min_size=1,
    max_size=40,
)
some_events = st.lists(strategies.flat_events, min_size=1, max_size=4)


def tiny() -> Index:
    return Index(log=4, small=8, ratio=2)


def expected(held: dict[int, Expression], event: dict[str, Any]) -> list[int]:
    flat = {n: [*v] if isinstance(v, tuple) else [v] for n, v in Event(event).items()}
    return sorted(id for id, e in held.items() if oracle.holds(e, flat, event))


class Changing:
    """An index with tiny limits, changed step by step, beside what it should hold."""

    def __init__(self) -> None:
        self.index = tiny()
        self.held: dict[int, Expression] = {}
        self.numbers: dict[int, int] = {}
        self.next = 0

    def change(self, what: str, expression: Expression, bound: int) -> None:
        filters, whole = filters_of(Predicate(expression, bound))
        some = next(iter(self.held), None)
        if what == "add":
            self.numbers[self.next] = self.index.add(self.next, filters, whole)
            self.held[self.next] = expression
            self.next += 1
        elif what == "merge":
            self.index.merge(self.index.due())
        elif what == "compact":
            self.index.compact()
            assert self.index.is_compact()
        elif some is not None and what == "remove":
            self.index.remove(self.numbers.pop(some))
            del self.held[some]
        elif some is not None:
            self.numbers[some] = self.index.replace(self.numbers[some], filters, whole)
            self.held[some] = expression


@settings(max_examples=examples(200))
@given(changes, some_events)
def test_changes_folds_and_merges_change_no_answer(
    steps: list[tuple[str, Expression, int]], events: list[dict[str, Any]]
) -> None:
    changing = Changing()
    for step in steps:
        changing.change(*step)
        assert len(changing.index) == len(changing.held)
        assert sorted(changing.index.match(events[0])) == expected(changing.held, events[0])
    for event in events:
        assert sorted(changing.index.match(event)) == expected(changing.held, event)


@settings(max_examples=examples(50))
@given(changes, some_events)
def test_a_moment_stays_as_it_was(
    steps: list[tuple[str, Expression, int]], events: list[dict[str, Any]]
) -> None:
    """A reader keeps the table of the moment at which it began."""
    from tidings.matching.native.engine import Columns

    changing = Changing()
    for step in steps[: len(steps) // 2]:
        changing.change(*step)
    texts = pa.record_batch({"event": pa.array(["{}"] * 3)})
    before = [id for id in sorted(changing.held) if not filters_of(Predicate(changing.held[id]))[1]]
    moment = changing.index.moment()
    columns = Columns.of(texts, changing.index.names, "event")
    rows, numbers, _ = changing.index.match_rows(columns, 0, 3, moment)
    for step in steps[len(steps) // 2 :]:
        changing.change(*step)
    again, same, _ = changing.index.match_rows(columns, 0, 3, moment)
    assert (rows.tolist(), numbers.tolist()) == (again.tolist(), same.tolist())
    assert len(before) <= len(changing.index) + len(steps)


def test_a_subscription_that_comes_while_an_event_is_read_does_not_count_yet() -> None:
    table = Table({1: "y = 1"})

    class Slow(dict[str, Any]):
        def items(self) -> Any:
            yield "x", 1
            table.add(2, "not exists x")
            yield "y", 1

    assert table.match(Slow()) == [1]
    assert table.match({}) == [2]


def test_numbers_are_used_again_when_nobody_knows_them() -> None:
    index = tiny()
    held = [index.add(n, parse(f"x = {n}").filters) for n in range(6)]
    for n in range(3_000):
        index.remove(held.pop(0))
        held.append(index.add(n, parse(f"x = {n % 7}").filters))
        if (due := index.due()) != 0:
            index.merge(due)
    assert index.numbers < 100
    assert index.sizes()[:3] == (6, 6, 6)
    assert sorted(index.match({"x": 2999 % 7})) == [2999]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kept", ["x = 1 and y > 0", "y > -1", "x = 1 and z matches '[ab]'"])
def test_a_replaced_subscription_is_found_once_at_every_moment(kept: str) -> None:
    table = Table(dict.fromkeys(range(100), kept))
    table._index.log_limit = 4
    stop = threading.Event()
    wrong: list[Any] = []

    def ask() -> None:
        while not stop.is_set():
            found = table.match({"x": 1, "y": 5, "z": "a"})
            if sorted(found) != list(range(100)):
                wrong.append(found)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(4):
        for n in range(100):
            table.replace(n, f"{kept} and y > {turn}")
            table.add(1_000 + 100 * turn + n, "y > 9")
        if turn == 2:
            table.compact()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    table.wait()


def test_a_writer_waits_when_there_are_too_many_segments() -> None:
    table = Table()
    for n in range(3_000):
        table.add(n, f"x > {n} and y = {n % 5}")
        assert table._index.segments() <= 17
    assert len(table.match({"x": 5000, "y": 3})) == 600


# Access paths

SINGLE = [
    f"x {operator} {value}"
    for operator in ("<", "<=", ">", ">=")
    for value in (-1.5, 0, 1, 2**53, 2**53 + 1, 2**63 - 1, "'a'", "'abcdefgh'", "'abcdefghi'", "''")
] + ["x between 0 and 1", "x between 'a' and 'abcdefgh'", "x between 'abcdefgh' and 'abcdefghz'"]
VALUES: list[Any] = [
    -2, -1.5, -0.0, 0, 0.5, 1, True, 2**53, 2**53 + 1, 2**53 + 2, 2**63, 1e300, float("inf"),
    "", "a", "a\0", "ab", "abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi", "é", None,
]  # fmt: skip


def test_single_comparisons_are_found_in_order() -> None:
    table = Table(dict(enumerate(SINGLE)))
    assert table._index.plan()[0]["in order"] > 20
    for value in [*VALUES, [1, "a"], ["abcdefgh", 2**53 + 1, 0], [True, "b"], []]:
        wanted = [id for id, text in enumerate(SINGLE) if parse(text).matches({"x": value})]
        assert sorted(table.match({"x": value})) == wanted, value


HUGE = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 2**70 + 1, -(2**70), 10**400]
ODD: list[Any] = [*HUGE, 0, -0.0, 0.5, float("nan"), float("inf"), float("-inf"), True, "ß", "\0"]


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("kind", ["number", "int", "real"])
def test_numbers_are_compared_exactly(operator: str, kind: str) -> None:
    constants: list[Any] = [2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 0, 0.5, 1e300]
    expressions: dict[int, Expression] = dict(
        enumerate(
            Constraint("x", operator, kind, negated, constant)
            for constant in constants
            for negated in (False, True)
        )
    )
    table = Table((id, Predicate(e)) for id, e in expressions.items())
    for event in [{"x": value} for value in ODD] + [{"x": ODD[:3]}, {"x": []}, {}]:
        assert sorted(table.match(event)) == expected(expressions, event), event


values = st.one_of(st.integers(-3, 33), st.floats(0, 30), st.text("ab", max_size=3))
ranges = st.one_of(
    st.builds(
        lambda name, operator, a, b: Constraint(
            name,
            operator,
            "number",
            False,
            (min(a, b), max(a, b)) if operator == "between" else a,
        ),
        st.sampled_from("xyz"),
        st.sampled_from(["<", ">", "<=", ">=", "between", "!="]),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    st.builds(
        Constraint,
        st.sampled_from("xyz"),
        st.sampled_from(["<", ">=", "prefix", "suffix", "contains"]),
        st.just("string"),
        st.booleans(),
        st.text("ab", min_size=1, max_size=10),
    ),
)


@settings(max_examples=examples(50))
@given(
    st.lists(ranges, min_size=1, max_size=30),
    st.lists(
        st.dictionaries(
            st.sampled_from("xyz"), st.one_of(values, st.lists(values, max_size=3)), max_size=3
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_ranges_fill_blocks_and_stay_exact(
    constraints: list[Constraint], events: list[dict[str, Any]]
) -> None:
    both = [conjoin((a, b)) for a in constraints for b in constraints]
    expressions: dict[int, Expression] = dict(enumerate(both))
    table = Table((id, Predicate(e)) for id, e in expressions.items())
    for event in events:
        assert sorted(table.match(event)) == expected(expressions, event)


def test_folding_without_python_is_the_folding_of_the_language() -> None:
    from tidings.language.folding import fold

    letters = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000]
    cased = [letter for letter in letters if fold(letter) != letter or letter.isalpha()][::7]
    table = Table(
        {n: Predicate(Constraint("x", "i=", "string", False, c)) for n, c in enumerate(cased[:400])}
    )
    for letter in cased[:400]:
        for shown in {letter, letter.upper(), letter.lower()}:
            wanted = [n for n, c in enumerate(cased[:400]) if fold(c) == fold(shown)]
            assert sorted(table.match({"x": shown})) == wanted


# Work

WORK = {  # records tested, blocks compared and cells looked at, an event, at most
    "equalities": (3, 0, 4),
    "ranges": (30, 220, 5),
    "forwarding": (60, 30, 80),
    "wildcards": (90, 40, 250),
}


@pytest.mark.parametrize("name", WORK)
def test_a_search_looks_at_little(name: str) -> None:
    workload = WORKLOADS[name](seed=1)
    table = Table(dict(workload.subscriptions(0, 10_000)))
    events = list(workload.events(0, 100))
    before = table._index.counters()
    for event in events:
        table.match(event)
    done = [(b - a) / len(events) for a, b in zip(before, table._index.counters(), strict=True)]
    assert all(one <= most for one, most in zip(done, WORK[name], strict=True)), done


def test_ten_to_ten_thousand_rules_of_three_ranges_cost_ever_more_and_never_leap() -> None:
    generator = np.random.default_rng(1)
    work = []
    for count in (10, 100, 1_000, 2_000, 4_000, 10_000):
        lows = generator.random((count, 3)) * 0.9
        table = Table(
            {
                n: " and ".join(f"a{i} between {low} and {low + 0.1}" for i, low in enumerate(row))
                for n, row in enumerate(lows.tolist())
            }
        )
        before = table._index.counters()
        for row in generator.random((50, 3)).tolist():
            table.match({f"a{i}": value for i, value in enumerate(row)})
        work.append(sum(table._index.counters()) - sum(before))
    steps = [later / max(before, 50) for before, later in pairwise(work)]
    assert max(steps) < 12, work
    assert work[-1] / 50 < 400, work


def test_statistics_choose_the_constraint_that_few_events_satisfy() -> None:
    # Judged by the filters alone, `common` looks selective: it has more values than `rare`.
    pairs = [(n, parse(f"common = {n % 50} and rare = 'r{n % 5}'")) for n in range(1000)]
    events = [{"common": n % 50, "rare": f"r{n}"} for n in range(500)]
    filed = {}
    for name, statistics in (("filters", None), ("events", statistics_of(events))):
        table = Table(pairs, statistics=statistics)
        (segment,) = table._index.plan()
        filed[name] = [a["name"] for a in segment["attributes"] if a["keys"]]
        for event in events[:60]:
            assert sorted(table.match(event)) == [n for n, p in pairs if p.matches(event)]
    assert filed == {"filters": ["common"], "events": ["rare"]}


# JSON

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "s", "s.x", ""]), inner, max_size=3),
    ),
    max_leaves=8,
)
json_events = st.dictionaries(
    st.sampled_from(["x", "r", "r.s", "r.x", "r.s.x", ""]), json_values, max_size=4
)
JSON_TESTS = [
    f"{name} {test}"
    for name in ("x", "r.x", "r.s.x", "r.s", "r")
    for test in ("> 0", "= ''", "< 'b'", "= true", "contains 'a'", "matches 'a'")
]
JSON_TESTS += ["exists r.s.x", "exists x", "not exists r.x"]
JSON_TABLE = Table(dict(enumerate(JSON_TESTS)))


@given(json_events, st.booleans(), st.integers(0, 2))
def test_json_read_in_one_pass_means_what_python_reads(
    event: dict[str, Any], ascii_only: bool, indent: int
) -> None:
    text = json.dumps(event, ensure_ascii=ascii_only, indent=indent or None)
    wanted = sorted(JSON_TABLE.match(read(text)))
    assert sorted(JSON_TABLE.match(text.encode())) == wanted
    assert sorted(JSON_TABLE.match(text)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1, "x": -1}', '{"r": {"x": 1}, "r": {"x": -1}}', '{"r.x": 1, "r": {"x": -1}}',
        '{"r.x": 1, "r": {"x": 2}, "r.x": -3}', '{"r": [{"x": 1}, {"x": -2}]}',
        '{"x": 123456789012345678901234567890}', '{"x": 0.1e-7}', '{"x": -0}',
        '{"x": 1E5}', '{"x": 5e-324}', '{"x": "\\ud83d\\ude00a"}', '{"x": "\\u00e4\\n\\/"}',
        '{"": {"x": 1}}', ' {"x" : [ ] , "r" : { } } ', '{"x": [[1, [null, true]], "b"]}', "{}",
    ],
)  # fmt: skip
def test_json_that_is_unusual_means_the_same(text: str) -> None:
    assert sorted(JSON_TABLE.match(text)) == sorted(JSON_TABLE.match(read(text)))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "1", '{"x": }', '{"x": 1,}', '{"x": 01}', '{"x": 1.}', '{"x": .5}', "{} {}",
        '{"x": 1e400}', '{"x": tru}', '{"y": [1, -2.0e308]}', '{"y": {"x": 1e400}}',
        '{"x": "a}', '{"x": "\\ud800"}', '{"x": "\\q"}', '{"x" 1}', '{x: 1}',
        '{"y": "\\ud800"}', '{"y": "a\nb"}', '{"x": [1 2]}', '{"x": +1}', '{"x": 1e}',
    ],
)  # fmt: skip
def test_json_that_is_wrong_is_an_error_where_python_says_so(text: str) -> None:
    with pytest.raises(EventError) as from_python:
        read(text)
    with pytest.raises(EventError) as from_engine:
        JSON_TABLE.match(text.encode())
    assert str(from_engine.value) == str(from_python.value)


def answer(data: Any) -> list[Any] | str:
    """What the table finds, or what is wrong with the event."""
    try:
        return sorted(JSON_TABLE.match(data))
    except EventError as error:
        return str(error)


@given(st.binary(max_size=30))
def test_any_bytes_are_read_as_python_reads_them(data: bytes) -> None:
    assert answer(data) == answer(bytearray(data))  # which Python reads


@given(st.from_regex(r"\A-?(0|[1-9][0-9]{0,8})\.[0-9]{1,12}(e-?[0-9]{1,2})?\Z"))
def test_decimals_are_read_to_the_nearest_double(text: str) -> None:
    nearest = float(text)
    around = (math.nextafter(nearest, -math.inf), nearest, math.nextafter(nearest, math.inf))
    constraints = (Constraint("x", "=", "number", False, value) for value in around)
    table = Table(enumerate(map(Predicate, constraints)))
    assert table.match(f'{{"x": {text}}}'.encode()) == [1]


# Residuals


def asked_of(pattern: Any, event: Any) -> tuple[list[Any], int]:
    """What a table of one event pattern finds, and how often it asks Python."""
    table = Table({0: parse(json.dumps(pattern), dialect="eventbridge")})
    columns = Columns.of(pa.record_batch({"e": [json.dumps(event)]}), table._index.names, "e")
    _, _, asked = table._index.match_rows(columns, 0, 1, table._index.moment())
    assert table.match(event) == table.match(json.dumps(event)) == table.match(Event(event))
    return table.match(event), len(asked)


TOGETHER = {"detail": {"state": ["on"], "size": [{"numeric": [">", 3, "<", 9]}]}}
BUT = {"detail": {"state": [{"anything-but": {"suffix": "n"}}]}}
NOT_OFF = {"detail": {"state": [{"anything-but": ["off"]}], "verdict": [{"exists": False}]}}
CASELESS = {"detail": {"state": [{"equals-ignore-case": "Risk"}], "size": [{"exists": True}]}}
NULL = {"detail": {"state": [None]}}


@pytest.mark.parametrize(
    ("pattern", "detail", "found", "asked"),
    [
        (TOGETHER, {"state": "on", "size": 5}, True, 0),
        (TOGETHER, {"state": ["off", "on"], "size": [1, 5]}, True, 0),
        (TOGETHER, [{"state": "on", "size": 5}], True, 0),
        (TOGETHER, [{"state": "on"}, {"size": 5}], False, 0),
        (TOGETHER, [{"state": "on"}, {"size": 1}], False, 0),
        (TOGETHER, [[{"state": "on"}], [{"size": 5}, {"size": 5, "state": "on"}]], True, 0),
        (TOGETHER, [{"state": "on", "size": [5, 2**53]}], True, 1),  # event-ruler's own numbers
        (TOGETHER, [{"state": "on", "size": 1}] * 2000 + [{"size": 5}] * 5000, False, 1),
        (NOT_OFF, {"state": "on"}, True, 0),
        (NOT_OFF, {"state": "on", "verdict": None}, False, 0),
        (NOT_OFF, {"verdict": 1}, False, 0),
        (NOT_OFF, [{"state": "on", "verdict": 1}, {"state": ["off", None]}], True, 0),
        (NOT_OFF, [{"state": "on", "verdict": 1}, {"state": "off"}], False, 0),
        (CASELESS, [{"state": "rISK", "size": None}], True, 0),
        (CASELESS, [{"state": "rISK"}, {"size": 3}], False, 0),
        (CASELESS, {"state": "ri\u017fk", "size": 3}, False, 1),  # it folds to the same
        (BUT, {"state": "on"}, False, 0),
        (BUT, {"state": "off"}, True, 0),
        (BUT, {"state": ["on", "off"]}, True, 0),
        (BUT, {"state": ["on", "in"]}, False, 0),
        (BUT, {"state": ["on", None]}, True, 0),
        (BUT, {"state": None}, True, 0),
        (NULL, {"state": None}, True, 0),
        (NULL, {"state": [1, [None]]}, True, 0),
        (NULL, [{"state": 1}, {"state": None}], True, 0),
        (NULL, {"state": 1}, False, 0),
        (NULL, {}, False, 0),
    ],
)
def test_event_patterns_ask_python_only_where_values_are_strange(
    pattern: Any, detail: Any, found: bool, asked: int
) -> None:
    assert asked_of(pattern, {"detail": detail}) == ([0] if found else [], asked)


def test_nulls_are_read_after_names_are_forgotten() -> None:
    table = Table({0: parse(json.dumps(NULL), dialect="eventbridge"), 1: parse("x = 1")})
    table.remove(1)
    with pytest.raises(EventError):
        table.match(b"{")  # which forgets `x`
    assert table.match({"detail": {"state": None}, "x": 1}) == [0]
    assert table.match(b'{"detail": [{"state": null}]}') == [0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = 1 and x = 2", [1, 3] * 500),
        ("x contains 'aaa' and x contains 'bbb'", "a" * 1000),
        ("x prefix 'ab' and x suffix 'c'", ["abx", "aby"] * 500),
        (" or ".join(f"x = {n} and x = -1" for n in range(100)), [*range(100)] * 10),
    ],
)
def test_values_that_come_again_lead_to_no_record_twice(text: str, value: Any) -> None:
    table = Table({1: text})
    assert table.match({"x": value}) == []
    checked, _, _ = table._index.counters()
    assert checked <= table.stats().filters


# Signals


@pytest.mark.parametrize("place", [0, 19_999])
def test_a_signal_ends_a_long_build(place: int) -> None:
    class Interrupted(Exception):
        pass

    def handle(*_: object) -> None:
        raise Interrupted

    # A function of C: Python itself looks for signals only when the build is done.
    send = ctypes.CDLL(None)["raise"]
    filters, _ = filters_of(parse("x between 1 and 2 and y > 3"))
    index = Index()
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        ids = chain(range(place), map(send, [signal.SIGUSR1]), range(place + 1, 20_000))
        with pytest.raises(Interrupted):
            index.load(ids, [filters] * 20_000, {})
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert index.segments() == 0
    assert (index.numbers < 20_000) == (place == 0)


# Many rows, many matches


def test_rows_that_are_searched_together_find_what_each_finds() -> None:
    chance = Random(3)
    names = ["a", "b", "c"]
    texts = [
        " or ".join(
            f"{chance.choice(names)} between {low} and {low + chance.randrange(20)}"
            f" and {chance.choice(names)} {chance.choice('<>')} {chance.randrange(60)}"
            for low in [chance.randrange(60) for _ in range(chance.randint(1, 3))]
        )
        for _ in range(400)
    ] + [f"{name} contains 'x'" for name in names]
    table = Table(enumerate(texts))

    def value() -> Any:
        return chance.choice([chance.randrange(70), "axb", [chance.randrange(70) for _ in "123"]])

    events = [{name: value() for name in names if chance.random() < 0.8} for _ in range(150)]
    rows = pa.table({"e": [json.dumps(event) for event in events]})
    for threads in (1, 2):
        pairs = table.match_batch(rows, json="e", threads=threads)
        found: list[list[int]] = [[] for _ in events]
        for row, id in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
            found[row].append(id)
        assert [sorted(ids) for ids in found] == [sorted(table.match(event)) for event in events]


@pytest.mark.parametrize("first", [0, 3, 61])
def test_rows_that_are_searched_together_have_their_own_columns(first: int) -> None:
    chance = Random(5)
    table = Table({n: f"{name} > {n}" for n, name in enumerate("abcd" * 10)} | {40: "not exists a"})
    columns = {
        name: [chance.choice([None, chance.randrange(50)]) for _ in range(200)] for name in "abc"
    }
    rows = pa.table(columns | {"d": list(range(200))}).slice(first)
    pairs = table.match_batch(rows, threads=1)
    found: list[list[int]] = [[] for _ in range(rows.num_rows)]
    for row, id in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
        found[row].append(id)
    events = [{k: v for k, v in row.items() if v is not None} for row in rows.to_pylist()]
    assert [sorted(ids) for ids in found] == [sorted(table.match(event)) for event in events]


def test_an_answer_in_many_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({n: f"x > {n}" for n in range(300)} | {300: "x matches '^a'"})
    rows = pa.table({"x": [n % 350 for n in range(700)]})
    texts = pa.table({"x": ["ab" if n % 3 else "b" for n in range(700)]})
    whole, asked = table.match_batch(rows), table.match_batch(texts)
    monkeypatch.setattr(batches, "PAIRS", 500)
    monkeypatch.setattr(batches, "PART", 128)
    monkeypatch.setattr(batches, "SOME", 5)
    for threads in (1, 2):
        assert table.match_batch(rows, threads=threads) == whole
        assert table.match_batch(texts, threads=threads) == asked
    assert table.match_batch(rows).column("event").num_chunks > 100


def test_answers_stay_as_they_are_when_memory_is_used_again() -> None:
    table = Table({n: f"x > {n}" for n in range(2_000)})
    held = []
    for size in (1, 500, 3, 40, 700, 300, 2):
        held.append((size, table.match_batch(pa.table({"x": [size] * size}), threads=1)))
        table.match_batch(pa.table({"x": [1_999] * 700}), threads=1)  # nobody keeps it
    for size, answer in held:
        assert answer.column("event").to_pylist() == [n for n in range(size) for _ in range(size)]
        assert set(answer.column("subscription").to_pylist()) == set(range(size))


@pytest.mark.parametrize("id_of", [int, lambda n: n - 2**40, lambda n: 2**70 + n, str])
def test_ids_of_ordered_lists_follow_every_change(id_of: Callable[[int], Any]) -> None:
    predicates = {id_of(n): parse(f"x {'<>'[n % 2]} {n}") for n in range(300)}
    table = Table(predicates)
    scan = MATCHERS["scan"](predicates.items())
    for step in range(300, 500):
        for value in ([step % 250], [step % 250, 17]):
            assert sorted(table.match({"x": value})) == sorted(scan.match({"x": value}))
        for matcher in (table, scan):
            matcher.remove(id_of(step - 300))
            matcher.add(id_of(step), parse(f"x > {step - 290}"))
    table.compact()
    assert sorted(table.match({"x": 100})) == sorted(scan.match({"x": 100}))


# What it looks like


def test_a_table_shows_its_sizes_and_its_plan() -> None:
    table = Table({1: "x = 1 and y > 2", 2: "y > 3", 3: "not exists z", 4: "name iprefix 'AB'"})
    assert repr(table).startswith("Table(4 subscriptions, 4 filters, 5 constraints, 1 segments, ")
    text = table.explain_plan()
    assert "segment 0: 4 filters" in text
    assert "1 in order" in text
    assert "1 always" in text
    assert "'name' ignoring case: keys by prefix" in text
