"""Options of schemes and protocols: the same values from a text, a table and arguments."""

from typing import Any

import pytest
from msgspec import Struct

from tidings.routing.options import (
    NoOptions,
    OptionsError,
    read_options,
    read_pairs,
    split_list,
    split_text,
)
from tidings.routing.schemes import SCHEMES, scheme


class Groups(Struct, frozen=True):
    clusters: int = 5
    share: float = 0.5
    shared: bool = False
    tree: str = "source"


def test_a_text_a_table_and_arguments_give_the_same_values() -> None:
    wanted = Groups(clusters=7, shared=True, tree="3")
    name, given = split_text("groups: clusters=7, shared=true,tree=3")
    assert name == "groups"
    table: dict[str, Any] = {"clusters": 7, "shared": True, "tree": "3"}
    pairs = read_pairs(["clusters=7", "shared=true", "tree=3"], "--option")
    assert [read_options(Groups, one, "x") for one in (given, table, pairs)] == [wanted] * 3
    assert read_options(Groups, {}, "x") == Groups()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"cluster": "7"}, "x: option: expected one of clusters, share, shared, tree, found 'clus"),
        ({"clusters": "many"}, "x: option: clusters: expected `int`, got `str`"),
        ({"clusters": 7.5}, "x: option: clusters: expected `int`, got `float`"),
        ({"tree": 3}, "x: option: tree: expected `str`, got `int`"),
        ({"clusters": True}, "x: option: clusters: expected `int`, got `bool`"),
    ],
)
def test_a_bad_option_is_refused_by_name(given: dict[str, Any], found: str) -> None:
    with pytest.raises(OptionsError) as raised:
        read_options(Groups, given, "x")
    assert str(raised.value).startswith(found)


def test_options_are_pairs_and_each_is_given_once() -> None:
    with pytest.raises(OptionsError, match="expected options such as key=value, found 'clusters'"):
        split_text("groups:clusters")
    with pytest.raises(OptionsError, match="clusters: given twice"):
        read_pairs(["clusters=1", "clusters=2"], "--option")
    with pytest.raises(OptionsError, match="expected none, found 'clusters'"):
        read_options(NoOptions, {"clusters": 1}, "x")


def test_a_list_of_texts_is_split_between_them() -> None:
    assert split_list("a:x=1,y=2,b, c:z=3") == ["a:x=1,y=2", "b", "c:z=3"]


def test_a_scheme_is_found_by_its_text_or_refused() -> None:
    assert scheme("psf") is SCHEMES["psf"]
    with pytest.raises(OptionsError, match=r"expected some of flooding, .*, found 'teleport'"):
        scheme("teleport:speed=9")
    with pytest.raises(OptionsError, match="psf: option: expected none, found 'speed'"):
        scheme("psf:speed=9")
