"""A small story: three people, one building, and who hears of what.

Run it with `make demo`. It parses subscriptions, delivers events to exactly those who asked, asks
the algebra what covers what, and has it explained why somebody heard nothing.
"""

from typing import Any

from tidings import PredicateError, parse, union

SUBSCRIPTIONS = {
    "ada": "kind = 'alert' and severity > 2",
    "ben": "device like 'pump-%' and (temperature > 80 or not exists temperature)",
    "cleo": "kind in ('alert', 'notice') and site.floor between 3 and 5 and not tags = 'test'",
}

EVENTS: list[dict[str, Any]] = [
    {"kind": "alert", "severity": 5, "device": "pump-7", "temperature": 91.5, "site": {"floor": 1}},
    {"kind": "notice", "severity": 1, "device": "lift-2", "site": {"floor": 4}},
    {"kind": "alert", "severity": 3, "device": "door-9", "site": {"floor": 3}, "tags": ["test"]},
    {"kind": "reading", "device": "pump-3", "temperature": 64, "site": {"floor": 2}},
    {"kind": "reading", "device": "pump-4", "site": {"floor": 2}},
]


def main() -> None:
    """Tell the story."""
    predicates = {who: parse(text) for who, text in SUBSCRIPTIONS.items()}

    heading("Three subscriptions: predicates on the content of events")
    for who, predicate in predicates.items():
        show(f"{who:5} {predicate}")

    heading("Five events, each delivered to exactly those who asked")
    for number, event in enumerate(EVENTS, start=1):
        heard = [who for who, predicate in predicates.items() if predicate.matches(event)]
        show(f"event {number}  {event['kind']:8} {event['device']:7} -> {', '.join(heard) or '-'}")

    heading("Why did Cleo not hear of event 3?")
    show(str(predicates["cleo"].explain(EVENTS[2])))

    heading("What one predicate says about another")
    wide, narrow = parse("severity > 2"), parse("severity between 4 and 6 and kind = 'alert'")
    show(f"({wide})  covers  ({narrow}):  {answer(wide.covers(narrow))}")
    show(f"({narrow})  covers  ({wide}):  {answer(narrow.covers(wide))}")
    absent, present = parse("not exists tags"), parse("tags contains 'fire'")
    show(f"({absent})  intersects  ({present}):  {answer(absent.intersects(present))}")

    heading("What a router keeps for a thousand people behind one link")
    crowd = [parse(f"kind = 'alert' and severity > {2 + n % 7}") for n in range(600)]
    crowd += [parse(f"device = 'pump-{n % 40}'") for n in range(400)]
    interest = union(crowd)
    before = sum(predicate.constraints for predicate in crowd)
    show(f"{len(crowd)} subscriptions, {before} constraints, reduced to {interest.constraints}:")
    text = str(interest)
    show(text if len(text) < 90 else f"{text[:86]} …")

    heading("A mistake is shown where it is")
    try:
        parse("kind = 'alert' and severity >> 2")
    except PredicateError as error:
        show(str(error))


def heading(text: str) -> None:
    """A line above a part of the story."""
    print(f"\n== {text}")


def show(text: str) -> None:
    """Lines of the story, indented."""
    for line in text.splitlines():
        print(f"   {line}".rstrip())


def answer(truth: bool) -> str:
    """Yes or no."""
    return "yes" if truth else "no"


if __name__ == "__main__":
    main()
