"""The mailbox in memory, beside a slow twin that is a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tidings.live.store import Memory, MemoryMailbox
from tidings.wire.messages import Delivery

DELIVERY = Delivery([1], "a", 1, 1, 0, Raw(b""))

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["take", "drop", "after"]), st.integers(0, 40)),
    ),
    max_size=60,
)


@given(steps)
def test_a_mailbox_keeps_what_a_dict_would(actions: list[tuple[str, int]]) -> None:
    mailbox, twin, newest = MemoryMailbox(), dict[int, int](), 0
    for action, value in actions:
        if action == "append":
            newest += 1
            twin[newest] = value
            assert mailbox.append(DELIVERY, value) == newest
        elif action == "take":
            twin = {number: size for number, size in twin.items() if number > value}
            mailbox.take(value)
        elif action == "drop":
            expected = min((number for number in twin if number > value), default=None)
            found = mailbox.drop_oldest(value)
            assert (None if found is None else found.number) == expected
            if expected is not None:
                del twin[expected]
        else:
            wanted = [number for number in sorted(twin) if number > value][:5]
            assert [kept.number for kept in mailbox.after(value, 5)] == wanted
        assert (len(mailbox), mailbox.size, mailbox.newest) == (
            len(twin),
            sum(twin.values()),
            newest,
        )


def test_a_removed_mailbox_is_forgotten() -> None:
    store = Memory()
    store.open("one").append(DELIVERY, 3)
    assert len(store.open("one")) == 1
    store.remove("one")
    assert len(store.open("one")) == 0
