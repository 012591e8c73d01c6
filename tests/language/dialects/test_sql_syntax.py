"""What the dialects that look like SQL write for a residual reads back as the same tree."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.dialects.cesql.subject import CESQL
from tests.language.dialects.harness import Subject
from tests.language.dialects.jms.subject import JMS
from tidings.language.dialects.cesql.syntax import read_expression, write_expression
from tidings.language.dialects.jms.syntax import read_selector, write_selector

SYNTAXES = [
    pytest.param(JMS, read_selector, write_selector, id="jms"),
    pytest.param(CESQL, read_expression, write_expression, id="cesql"),
]


@pytest.mark.parametrize(("subject", "read", "write"), SYNTAXES)
@given(data=st.data())
def test_what_is_written_for_residuals_reads_as_the_same(
    subject: Subject, read: Callable[[str], Any], write: Callable[[Any], str], data: st.DataObject
) -> None:
    node = read(subject.spell(data.draw(subject.trees)))
    assert repr(bare(read(write(node)))) == repr(bare(node))


def bare(node: Any) -> Any:
    """A tree without places, in which true and 1 differ."""
    return (node.operator, type(node.value), node.value, *map(bare, node.parts))
