"""A protocol for tests: interests replicated, events sent to each node that wants them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tidings.matching.scan import Scan
from tidings.routing.memory import Shape, Size
from tidings.routing.network import Content, Nodes, members
from tidings.routing.network import Network as Whole
from tidings.routing.network import Row as Links
from tidings.routing.packets import (
    Entries,
    Hello,
    Holdings,
    Kept,
    Parcel,
    Publication,
    Records,
    Summary,
)
from tidings.routing.planes.carrier import Carried
from tidings.routing.planes.link_state import LinkState
from tidings.routing.planes.local import Local
from tidings.routing.planes.once import Once
from tidings.routing.planes.replica import PublisherReplica, Replica, wrong_replicas
from tidings.routing.planes.steady import Steady
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    USUAL,
    Action,
    Advertise,
    Cause,
    Drop,
    Established,
    InForce,
    Leave,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Subscribe,
    Timing,
    Unadvertise,
    Unsubscribe,
    Woken,
    earliest,
)
from tidings.routing.protocols import NEIGHBOURS, NEVER, UNICAST, Row
from tidings.routing.scheme import Scheme
from tidings.routing.source_trees.content import converges_within
from tidings.routing.truth import Situation


class ReplicatedRouter:
    """A node that knows what every node wants, and sends each its own parcel."""

    is_switching = False
    scope = "all"

    def __init__(
        self,
        node: str,
        life: int = 1,
        timing: Timing = USUAL,
        topologies: Topologies | None = None,
    ) -> None:
        self.node = node
        self.plane = LinkState(node, life, timing, topologies or Topologies())
        self.local = Local(node, life, Scan)
        self.carrier = Carried(node, self.plane)
        self.replica: Any = self._replica(life)
        self._clock = Steady()
        self._once = Once()

    def _replica(self, life: int) -> Any:
        if self.scope == "all":
            return Replica(self.node, life, self.plane, _established)
        return PublisherReplica(self.node, life, self.plane, self.carrier, _established, _in_force)

    def handle(self, cause: Cause, now: int) -> list[Action]:
        out: list[Action] = []
        now = self._clock.read(now)
        match cause:
            case Received(neighbour, packet):
                self._received(neighbour, packet, now, out)
            case Woken():
                if self.plane.wake(now, out):
                    self.replica.rerouted(now, out)
                if self.plane.is_settled():
                    self.carrier.rerouted(out)
                self.replica.wake(now, out)
            case LinkUp(neighbour, cost):
                self.plane.link_up(neighbour, cost, now, out)
            case LinkDown(neighbour):
                self.plane.link_down(neighbour, now)
            case Subscribe(id, predicate):
                self.local.subscribe(id, predicate)
                self.replica.put(id, predicate, now, out)
            case Unsubscribe(id):
                self.local.unsubscribe(id)
                self.replica.remove(id, now, out)
            case Publish(event):
                publication = self.local.publish(event)
                self.local.deliver(publication, out)
                for target in sorted(self.replica.matching(event)):
                    self.carrier.send(target, publication, out)
            case Advertise(id) if self.scope == "all":
                out.append(InForce((id,)))
            case Unadvertise() if self.scope == "all":
                pass
            case Advertise(id, predicate):
                self.replica.advertise(id, predicate, now, out)
            case Unadvertise(id):
                self.replica.unadvertise(id, now, out)
            case Leave():
                self.plane.leave(now, out)
            case _:
                raise TypeError(f"no cause: {cause!r}")
        return out

    def _received(self, neighbour: str, packet: Any, now: int, out: list[Action]) -> None:
        match packet:
            case Hello():
                if self.plane.hello(neighbour, packet, now, out):
                    self.replica.compare(neighbour, out)
            case Records():
                self.plane.news(neighbour, packet, now, out)
            case Summary():
                self.plane.summary(neighbour, packet, now, out)
            case Entries():
                self.replica.entries(neighbour, packet, now, out)
            case Kept():
                self.replica.kept(neighbour, packet, now, out)
            case Holdings():
                self.replica.holdings(neighbour, packet, out)
            case Parcel():
                found = self.carrier.received(neighbour, packet, out)
                if found is not None:
                    self._received(packet.source, found, now, out)
            case Publication():
                if self._once.first(packet):
                    self.local.deliver(packet, out)
                else:
                    out.append(Drop("a duplicate", packet))
            case _:
                out.append(Drop("not of this protocol", packet))

    def timer(self) -> int | None:
        return self._clock.shown(earliest(self.plane.timer(), self.replica.timer()))

    def snapshot(self) -> dict[str, Any]:
        return {**self.plane.snapshot(), "replica": self.replica.snapshot()}

    def is_settled(self) -> bool:
        return bool(self.plane.is_settled() and self.replica.is_settled())

    @property
    def hops(self) -> dict[str, str]:
        return self.plane.routes.hop

    def life_of(self, node: str) -> int:
        """The life by which those in reach know a node, itself included; 0 if it is in no reach."""
        return self.plane.life_of(node)

    @property
    def table(self) -> dict[str, str]:
        return {}

    def look_ahead(self, events: Sequence[dict[str, Any]]) -> Sequence[int]:
        return range(len(events))

    def explain_links(self, source: str, event: dict[str, Any]) -> dict[str, tuple[bool, str]]:
        return {}


class ScopedRouter(ReplicatedRouter):
    scope = "publishers"


def _established(ids: tuple[str, ...], out: list[Action]) -> None:
    out.append(Established(ids))


def _in_force(ids: tuple[str, ...], out: list[Action]) -> None:
    out.append(InForce(ids))


def disagreements(nodes: Mapping[str, Any], situation: Situation) -> Iterator[str]:
    wrong = next(situation.truth.wrong_paths(situation.hops), None)
    if wrong is not None:
        yield wrong
        return
    unsettled = [name for name in situation.truth.running if not nodes[name].is_settled()]
    if unsettled:
        yield f"{unsettled[0]} is not settled"
        return
    yield from wrong_replicas({name: node.replica for name, node in nodes.items()}, situation)


# From above: a packet for each receiver, by unicast tables.


class State(NamedTuple):
    node: int
    unicast: Links


def _next(node: State, target: int) -> list[tuple[int, int]]:
    return [(link, target) for link, nodes in node.unicast if nodes >> target & 1]


def _init(node: State, event: Content) -> list[int]:
    known: Nodes = 0
    for _, nodes in node.unicast:
        known |= nodes
    return list(members(event.receivers(known)))


def _build(network: Whole) -> list[State]:
    return [State(node, network.row(node, node)) for node in range(network.graph.nodes)]


def _formula(shape: Shape, advantage: float) -> None:
    return None


SINGLY = Scheme(
    "singly",
    "a packet for each receiver",
    build=_build,
    init=_init,
    send=lambda node, header, event: _next(node, header) if node.node != header else [],
    header_bits=lambda header, id_bits: id_bits,
    size=lambda node: Size(0, 0, []),
    formula=_formula,
    accepts=lambda node, header, event: bool(node.node == header),
)

REPLICATED = Row(
    ReplicatedRouter,
    "interests replicated, a parcel for each receiver",
    twin="singly",
    disagreements=disagreements,
    converges_within=converges_within,
    needs=frozenset({NEIGHBOURS, UNICAST}),
    any_graph=True,
    confirms=True,
    ordered=NEVER,
    lacks=frozenset({"feedback"}),
)
