"""The protocols by name. A new one is a file in the folder of its family and a row here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, get_args

from msgspec import Struct

from tidings.routing.flooding import router as flooding
from tidings.routing.layers import judging
from tidings.routing.layers.delivery import DELIVERY
from tidings.routing.layers.matching import MATCHING
from tidings.routing.layers.router import LayeredRouter
from tidings.routing.layers.settings import pair
from tidings.routing.options import NoOptions, OptionsError, read_options, split_text
from tidings.routing.protocol import Protocol, Timing
from tidings.routing.reverse_path import judging as reverse_path
from tidings.routing.reverse_path import knobs, path_judging
from tidings.routing.reverse_path.path_cost import Notify, PathCostRouter
from tidings.routing.reverse_path.router import ReversePathRouter
from tidings.routing.source_trees import agreement, content
from tidings.routing.structured import judging as structured
from tidings.routing.structured.chord_trees import ChordTreesRouter
from tidings.routing.structured.hermes import HermesRouter
from tidings.routing.structured.scribe import ScribeOptions, ScribeRouter
from tidings.routing.structured.substrates import SubstrateOptions
from tidings.routing.structured.types import HermesOptions
from tidings.routing.truth import Disagreements, Hops, Situation
from tidings.routing.twin import Links

# What a protocol may need of what is below it. The simulator refuses a send that needs more.
NEIGHBOURS: Final = "neighbours"  # links to some nodes
UNICAST: Final = "unicast"  # a path to any node, hop by hop (`Carried`)
MULTICAST: Final = "multicast"  # groups
KEYS: Final = "keys"  # a structured overlay
ANYONE: Final = "anyone"  # to speak to any node that it has heard of (`Meshed`)
AIR: Final = "air"  # to be heard by whoever is near (`Broadcast`)
NEEDS: Final = frozenset({NEIGHBOURS, UNICAST, MULTICAST, KEYS, ANYONE, AIR})
SIMULATED: Final = frozenset({ANYONE, AIR})  # what only the simulator has

ALWAYS: Final = "always"  # also while links and nodes are added
UNCHANGED: Final = "unchanged"  # while none is
NEVER: Final = "never"

VERBS: Final = ("publish", "subscribe", "unsubscribe", "advertise", "feedback")  # Table I (S28)

Make = Callable[..., Protocol]
# What is wrong with the links that an event has taken at rest: options, situation, the paths of the
# nodes, source, event, and the links.
Objection = Callable[[Any, Situation, Hops, str, dict[str, Any], Links], str | None]


class Row(NamedTuple):
    """A protocol: how to make a node of it, what it needs and promises, and how it is judged."""

    make: Make  # node, life, timing, topologies, matcher, board; options, if it has any; and, if
    # it `shares`, applications and keys
    idea: str
    twin: str  # the scheme from above that tells which links an event takes at rest
    disagreements: Disagreements  # where the states of all nodes disagree with the truth
    converges_within: Callable[[Timing, int], int]  # after the last change, by the time to cross
    options: type[Struct] = NoOptions
    needs: frozenset[str] = frozenset({NEIGHBOURS})
    any_graph: bool = False  # or only networks without cycles
    confirms: bool = False  # whether it says when a subscription is established
    advertises: bool = False  # whether advertisements decide anything; else they are in force
    copies: bool = False  # whether an event may come by several links, and replies follow one
    ordered: str = ALWAYS  # when the events of a publisher stay in order, while nothing fails
    lacks: frozenset[str] = frozenset()  # verbs that it does not have: refused by name
    seamless: bool = True  # whether nothing gets lost while nodes and links are added
    proven: bool = True  # whether hundreds of seeds find nothing wrong; if not, its page says more
    boards: bool = False  # whether it finds links by a board
    narrow: Struct | None = None  # options with which nodes soon have to say something coarser
    exact: Callable[[Any], bool] = lambda options: True  # whether they never do
    foretells: bool = True  # whether a node knows before which links an event takes from it
    shares: bool = False  # whether several applications may share its nodes (L4)
    effort: int = 1  # by how much more a run may send than most, before it counts as endless
    objection: Objection | None = None  # where no scheme from above knows enough to be the twin
    own: frozenset[str] = frozenset()  # options in which neighbours may differ
    mixed: tuple[Struct, ...] = ()  # options of nodes that must work together
    # By what a node works, for `objection`: its options, unless these may change as it runs.
    in_use: Callable[[Any, Any], Any] = lambda node, options: options
    calms: Callable[[Any], int] = lambda options: 0  # how long nodes act on load that is no more
    # Draws other settings, if those of a running network may change, and tells whether a node has
    # them.
    resets: Callable[[Random], dict[str, Any]] | None = None
    has: Callable[[Any, dict[str, Any]], bool] = lambda node, settings: True

    def configured(self, options: Struct | None, make: Make | None = None) -> Make:
        """What makes a node with these options."""
        make = make or self.make
        if options is None or self.options is NoOptions:
            return make
        return partial(make, options=options)


def _layered(who: str, how: str) -> Row:
    """Two layers: who wants it, and how does it get there (L1)."""
    options = pair(who, how)
    return Row(
        LayeredRouter,
        f"{MATCHING[who]}; {DELIVERY[how].idea} (L1)",
        twin="drp",
        disagreements=judging.disagreements,
        converges_within=judging.converges_within,
        objection=judging.objection,
        foretells=who != "regions",
        effort=4,
        shares=True,
        options=options,
        any_graph=True,
        confirms=True,
        ordered=NEVER if who == "regions" else UNCHANGED,
        narrow=options(rendezvous="hash:kind", replicas=2, hops=2, places=3),
        own=frozenset(options.__struct_fields__),  # nodes agree on them by epochs
        in_use=judging.in_use,
        calms=judging.calms,
        resets=judging.resets,
        has=judging.has,
    )


def _reverse_path(options: type[knobs.Knobs], idea: str, **more: Any) -> Row:
    """A row of the router that learns by the reverse path (S10–S14)."""
    return Row(
        partial(ReversePathRouter, options=options()),
        idea,
        twin=more.pop("twin", "shared-tree"),
        disagreements=reverse_path.disagreements,
        converges_within=reverse_path.converges_within,
        objection=reverse_path.objection,
        options=options,
        any_graph=True,
        confirms=True,
        ordered=UNCHANGED,
        exact=lambda options: options.policy in ("exact", "covering") and options.most_told > 1_000,
        own=frozenset({"policy", "uncover", "most_filters", "waste", "most_told", "trial"}),
        mixed=(
            *(options(policy=policy, trial=64) for policy in get_args(knobs.Policy)),
            options(policy="merging", most_filters=2, waste=1_000_000),
            options(most_told=3),
        ),
        **more,
    )


def _path_cost(notify: Notify, idea: str, **more: Any) -> Row:
    """A row of the router that builds trees by path cost (S17)."""
    return Row(
        partial(PathCostRouter, notify=notify),
        idea,
        twin="pif",
        disagreements=path_judging.disagreements,
        converges_within=path_judging.converges_within,
        any_graph=True,
        confirms=True,
        seamless=False,
        effort=4,
        **more,
    )


PROTOCOLS: Final[dict[str, Row]] = {
    "cbcb": Row(
        content.ContentRouter,
        "advertisements pushed, requests pulled, source trees (F2)",
        twin="pif",
        disagreements=agreement.disagreements,
        converges_within=content.converges_within,
        options=content.ContentOptions,
        any_graph=True,
        confirms=True,
        boards=True,
        own=frozenset({"characters", "constants", "filters", "covering"}),
        narrow=content.ContentOptions(characters=100, constants=6, filters=4),
        exact=content.is_exact,
    ),
    "subscriptions": _reverse_path(
        knobs.Knobs, "subscriptions learned by the reverse path (S10)", narrow=knobs.Knobs(root="1")
    ),
    "covering": _reverse_path(
        knobs.Covering,
        "the same, without filters that others cover (S12)",
        narrow=knobs.Covering(uncover="lazy"),
    ),
    "advertisements": _reverse_path(
        knobs.Advertising,
        "the same, only where something is advertised (S11)",
        narrow=knobs.Advertising(values="single"),
        advertises=True,
    ),
    "merging": _reverse_path(
        knobs.Merging,
        "the same, with filters merged within a budget of waste (S13)",
        narrow=knobs.Merging(most_filters=2, waste=1_000_000),
    ),
    "rooted": _reverse_path(
        knobs.Rooted,
        "subscriptions towards a root, from which events come down (S14)",
        twin="rooted",
        narrow=knobs.Rooted(direction="down"),
    ),
    "path-cost": _path_cost(
        "trees", "trees by path cost, for subscriptions and for events (S17)", ordered=UNCHANGED
    ),
    "path-entries": _path_cost(
        "entries",
        "trees by path cost, for subscriptions only: duplicates dropped (S17)",
        ordered=NEVER,
        objection=path_judging.objection_to_entries,
    ),
    "flood": Row(
        flooding.FloodRouter,
        "every event everywhere, duplicates dropped (S1)",
        twin="flooding",
        disagreements=flooding.disagreements,
        converges_within=flooding.converges_within,
        any_graph=True,
        copies=True,
        ordered=UNCHANGED,
        confirms=True,
    ),
    "chord-trees": Row(
        ChordTreesRouter,
        "a tree per publisher over Chord, or Pastry (S16)",
        twin="psf",
        disagreements=structured.wrong_trees,
        converges_within=structured.converges_within,
        objection=structured.objection_to_trees,
        options=SubstrateOptions,
        needs=frozenset({NEIGHBOURS, UNICAST, KEYS}),
        any_graph=True,
        confirms=True,
        foretells=False,
        ordered=UNCHANGED,
        effort=4,
    ),
    "hermes": Row(
        HermesRouter,
        "a tree per type, with its root at the node in charge of it (S15)",
        twin="psf",
        disagreements=structured.wrong_types,
        converges_within=structured.types_converge_within,
        objection=structured.objection_to_types,
        options=HermesOptions,
        needs=frozenset({NEIGHBOURS, UNICAST, KEYS}),
        any_graph=True,
        confirms=True,
        foretells=False,
        ordered=NEVER,
        proven=False,
        effort=4,
        narrow=HermesOptions(type="kind", trees=3),
    ),
    "scribe": Row(
        ScribeRouter,
        "a multicast group per type over Chord or Pastry (Scribe)",
        twin="psf",
        disagreements=structured.wrong_groups,
        converges_within=structured.converges_within,
        objection=structured.objection_to_groups,
        options=ScribeOptions,
        needs=frozenset({NEIGHBOURS, UNICAST, KEYS}),
        any_graph=True,
        confirms=True,
        foretells=False,
        ordered=NEVER,
        seamless=False,
        proven=False,
        effort=4,
        narrow=ScribeOptions(substrate="pastry", leaves=2, type="kind", groups=3),
    ),
    **{f"{who}-{how}": _layered(who, how) for who in MATCHING for how in DELIVERY},
}


class Chosen(NamedTuple):
    """A protocol and its options."""

    name: str
    row: Row
    options: Any

    @property
    def agreement(self) -> str:
        """What neighbours must have alike: the protocol, and most of its options.

        >>> protocol("covering:root=a,uncover=lazy").agreement
        'covering:root=a'
        """
        names = [name for name in self.row.options.__struct_fields__ if name not in self.row.own]
        pairs = ",".join(f"{name}={getattr(self.options, name)}" for name in names)
        return f"{self.name}:{pairs}" if pairs else self.name


def protocol(text: str, given: dict[str, Any] | None = None) -> Chosen:
    """The protocol that a text names, with the options of the text and those `given` beside it.

    >>> protocol("cbcb:characters=200", {"filters": 8}).options
    ContentOptions(characters=200, constants=8192, filters=8, covering='none')
    """
    name, options = split_text(text)
    row = PROTOCOLS.get(name)
    if row is None:
        raise OptionsError(f"expected one of {', '.join(PROTOCOLS)}, found {name!r:.60}")
    twice = sorted(options.keys() & (given or {}).keys())
    if twice:
        raise OptionsError(f"{name}: option {twice[0]}: given twice")
    return Chosen(name, row, read_options(row.options, {**options, **(given or {})}, name))
