"""Simple case folding, and patterns, against their slow twins."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import oracle, strategies
from tidings.language import wildcard
from tidings.language.folding import caseless, fold, orbit


@given(st.text())
def test_folding_keeps_the_length_and_is_done_once(text: str) -> None:
    assert len(fold(text)) == len(text)
    assert fold(fold(text)) == fold(text)
    assert all(c in orbit(f) for c, f in zip(text, fold(text), strict=True))


@given(st.text(alphabet=st.characters(max_codepoint=0x24F)))
def test_cases_of_a_letter_fold_alike(text: str) -> None:
    for character in text:
        for other in (character.upper(), character.lower()):
            if len(other) == 1 and other.casefold() == character.casefold():
                assert fold(other) == fold(character)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("ẞ", "ß", True),
        ("ß", "ss", False),
        ("\u212a", "k", True),
        ("ς", "Σ", True),
        ("ǅ", "ǆ", True),
        ("İ", "i", False),
        ("ı", "I", False),
        ("ᾈ", "ᾀ", True),
        ("ſ", "S", True),
        ("𐐀", "𐐨", True),
    ],
)
def test_letters_with_a_story(one: str, other: str, alike: bool) -> None:
    assert (fold(one) == fold(other)) is alike


def test_caseless() -> None:
    assert caseless("123-% 名")
    assert not caseless("k")


@given(strategies.patterns, st.text(alphabet="abA%_", max_size=6))
def test_patterns_equal_the_slow_twin(pattern: str, text: str) -> None:
    expected = oracle.like(pattern, text)
    assert wildcard.matcher(pattern, ignore_case=False)(text) is expected
    assert oracle.like(wildcard.pattern_of(wildcard.tokens(pattern)), text) is expected
    assert wildcard.matcher(pattern, ignore_case=True)(text) is oracle.like(
        fold(pattern), fold(text)
    )


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_literal_text_matches_only_itself(text: str) -> None:
    matches = wildcard.matcher(wildcard.escape(text), ignore_case=False)
    assert matches(text)
    assert not matches(text + "x")


@pytest.mark.slow
def test_a_long_hostile_pattern_is_linear() -> None:
    matches = wildcard.matcher("%a" * 2_000 + "b", ignore_case=False)
    assert not matches("a" * 20_000)


def test_regular_expressions_are_found_anywhere_and_say_what_is_wrong() -> None:
    assert wildcard.regex("b+", ignore_case=False)("abbc")
    assert wildcard.regex("B+", ignore_case=True)("abbc")
    with pytest.raises(wildcard.RegexError, match=re.escape("missing )")):
        wildcard.regex("(a", ignore_case=False)
    with pytest.raises(wildcard.RegexError, match="invalid repetition"):
        wildcard.regex("((a{100}){100}){10}", ignore_case=False)
    with pytest.raises(wildcard.RegexError, match="too large"):
        wildcard.regex("(abcdefghij|klmnopqrst){990}" * 20, ignore_case=False)


def test_regular_expressions_fold_as_the_other_operators_do() -> None:
    orbits = {fold(chr(code)) for code in range(0x1E944) if not 0xD800 <= code <= 0xDFFF}
    for folded in orbits:
        letters = orbit(folded)
        if len(letters) > 1:
            for letter in letters:
                test = wildcard.regex(f"^\\x{{{ord(letter):x}}}$", ignore_case=True)
                assert all(map(test, letters)), letters
                assert not test("0")
    for pair in ("\ufb05\ufb06", "\u0390\u1fd3", "\u03b0\u1fe3"):
        assert fold(pair[0]) == fold(pair[1])
