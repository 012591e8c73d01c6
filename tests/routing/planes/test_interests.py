"""The algebra on predicates as texts, held to what events match."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.networks import EVENTS, TEXTS
from tidings.language.predicate import parse
from tidings.routing.planes.interests import NOTHING, beyond, join


@given(st.sampled_from(TEXTS[2:]), st.sampled_from(TEXTS[2:]), st.sampled_from(EVENTS))
def test_what_a_predicate_adds_is_what_the_other_lacks(
    text: str, known: str, event: dict[str, Any]
) -> None:
    rest = beyond(text, known)
    both = parse(known).matches(event) or parse(rest).matches(event)
    assert both == (parse(known).matches(event) or parse(text).matches(event))
    assert parse(text).covers(parse(rest))
    assert (rest == NOTHING) == parse(known).covers(parse(text))
    assert parse(join((text, known))).matches(event) == both
