"""Scenarios: text files that tell nodes what happens, and hold the transcript of what they did.

A file is a comment that says what it shows, then blocks: commands, a line `----`, and what the
nodes did. Blank lines and lines that begin with `#` stand between blocks. `play` runs the commands
and returns the file with the transcripts that came of them; the test compares the two. Time is the
simulator's, chance plays no part, and a link delays by its cost in milliseconds.

    network PROTOCOL [OPTION...] [line a b c | ring a b c | links a-b b-c:2]
                               make a network, start it, and let it come to rest (13 seconds);
                               or draw it below, indented: a --- b, a -2- b, and | / \\ downwards
        broken="NAME"          with one of the planted bugs of tidings.sim.plants
        pull=10s ...           another timing; see tidings.routing.protocol.Timing
        asleep                 do not start it
    subscribe NODE ID PREDICATE, unsubscribe NODE ID, publish NODE EVENT
    run 500ms                  let time pass
    settle                     until for 300 ms nothing but hellos is sent
    cut a-b                    a link swallows what it carries, and nobody is told
    one-way a->b               the link carries packets from a to b, and none back
    unlink a-b                 a link goes away, and both ends are told
    join a-b                   undo one of these three
    drop next a->b KIND        lose the next packet of this kind
    crash NODE, leave NODE     stop a node: without a word, or with a good-bye; it forgets all
    start NODE...              start nodes anew
    inject a<-b PACKET         let a packet come to a from its neighbour b, written as it is shown
    table NODE..., state NODE [ENTRY...], explain NODE SOURCE EVENT
                               what a node knows; all or some of its snapshot; `explain_links`
    show KIND..., hide KIND... packets in the transcript; at first all but Hello, Records, Summary,
                               Standing, Audit
    log on|off                 whether there is a transcript

A line of a transcript begins with the time since the block began, or since `log on`. `a -> b` is a
packet sent, `a -x b` one that is lost on a link that is cut; `c#1` is what c has sent as the first
of a kind.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import msgspec

from tests.routing.notation import (
    Links,
    cost_text,
    event_of,
    fields,
    kinds,
    links_drawn,
    links_listed,
    nanoseconds,
    packet_text,
    shown,
)
from tidings.routing.packets import (
    Advertisement,
    Hello,
    Packet,
    Publication,
    Receipt,
    Reminder,
    Reply,
    Request,
)
from tidings.routing.planes.interests import NOTHING
from tidings.routing.planes.topology import Topologies
from tidings.routing.protocol import (
    MILLISECOND,
    SECOND,
    Deliver,
    Drop,
    Established,
    Leave,
    Publish,
    Received,
    Subscribe,
    Timing,
    Unsubscribe,
)
from tidings.routing.protocol import Protocol as Router
from tidings.routing.protocols import protocol as routing_protocol
from tidings.sim.network import Network, Node, UserAction
from tidings.sim.plants import PLANTS

RULE: Final = "----"
NOTHING_HAPPENED: Final = "nothing"
QUIET_NS: Final = 300 * MILLISECOND
START_NS: Final = 13 * SECOND  # with the second pull, nodes know that all have switched
LONGEST_NS: Final = 60 * SECOND  # that a network may take to settle


class ScenarioError(ValueError):
    """A scenario that cannot be played; the message begins with its place."""


class Block(NamedTuple):
    """Some commands, each with its line, and the lines where their transcript stands."""

    commands: list[tuple[int, str]]
    begin: int
    end: int


# Files


def play(path: Path, name: str) -> str:
    """The text of a scenario with the transcripts that its commands give."""
    lines = path.read_text(encoding="utf-8").splitlines()
    scenario = Scenario()
    written: list[str] = []
    copied = 0
    for block in blocks(lines, name):
        scenario.begin()
        for number, command in block.commands:
            try:
                scenario.obey(command)
            except ValueError as error:
                raise ScenarioError(f"{name}:{number}: {error}") from error
        written += lines[copied : block.begin]
        written += scenario.lines or [NOTHING_HAPPENED]
        copied = block.end
    return "\n".join([*written, *lines[copied:]]) + "\n"


def blocks(lines: list[str], name: str) -> Iterator[Block]:
    """The blocks of a file."""
    commands: list[tuple[int, str]] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line == RULE and commands:
            begin = number
            while number < len(lines) and lines[number]:
                number += 1
            yield Block(commands, begin, number)
            commands = []
        elif line[:1].isspace() and line.strip() and commands:  # belongs to the command above
            commands[-1] = commands[-1][0], f"{commands[-1][1]}\n{line}"
        elif line.strip() and not line.startswith("#"):
            commands.append((number, line))
    if commands:
        raise ScenarioError(f"{name}:{commands[0][0]}: expected {RULE} after the commands")


# What the commands do


class Wire(Network):
    """The simulator's network, which also loses the packets that a scenario names."""

    losing: list[tuple[str, str, str]]  # from, to, kind
    missed: Callable[[Node, Packet], None]  # is called for what comes to a node that does not run

    def _send(self, node: Node, target: str, packet: Packet) -> None:
        named = (node.name, target, type(packet).__name__)
        if named not in self.losing:
            super()._send(node, target, packet)
            return
        self.losing.remove(named)
        node.links[target].cut += 1
        super()._send(node, target, packet)
        node.links[target].cut -= 1

    def _arrive(self, time: int, source: Node, target: str, packet: Packet) -> None:
        super()._arrive(time, source, target, packet)
        self.call(time, lambda: self.missed(self.nodes[target], packet))


class Scenario:
    """A network that obeys commands and writes down what its nodes do."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._network: Wire | None = None
        self._hidden = {"Hello", "Records", "Summary", "Standing", "Audit"}
        self._logs = True
        self._begun = 0
        self._busy_at = 0  # when something else than a hello was sent
        self._unlinked: set[frozenset[str]] = set()

    def begin(self) -> None:
        """A block begins."""
        self.lines = []
        self._begun = 0 if self._network is None else self.network.now

    def obey(self, text: str) -> None:
        """Do what a command says."""
        command, _, rest = text.partition(" ")
        if command not in COMMANDS:
            raise ValueError(f"unknown command {command!r}; the commands are {', '.join(COMMANDS)}")
        COMMANDS[command](self, rest.rstrip())

    @property
    def network(self) -> Wire:
        if self._network is None:
            raise ValueError("expected `network` before other commands")
        return self._network

    # Networks

    def make(self, rest: str) -> None:
        first, *drawing = rest.split("\n")
        protocol, *words = shlex.split(first)
        chosen = routing_protocol(protocol)
        made = chosen.row.configured(chosen.options)
        timing: dict[str, int] = {}
        asleep = False
        while words and (words[0] == "asleep" or "=" in words[0]):
            option, _, value = words.pop(0).partition("=")
            if option == "asleep":
                asleep = True
            elif option == "broken" and value in PLANTS:
                made = PLANTS[value].make
            elif option in Timing._fields:
                timing[option] = nanoseconds(value)
            else:
                raise ValueError(f"unknown option {option}={value}")
        links = dict(sorted((links_drawn(drawing) if drawing else links_listed(words)).items()))
        if not links or min(links.values()) < 1:
            raise ValueError(f"expected links that cost 1 or more, found {links}")
        self._network = self._built(made, Timing(**timing), links, chosen.row.needs)
        self._unlinked.clear()
        self._say(
            "links " + " ".join(f"{a}-{b}" + cost_text(cost) for (a, b), cost in links.items())
        )
        if not asleep:
            logs, self._logs = self._logs, False
            self.start(" ".join(self.network.nodes))
            self.network.run(START_NS)
            self.settle("")
            self._logs = logs
        self._begun = self.network.now

    def _built(
        self, made: Callable[..., Router], timing: Timing, links: Links, needs: frozenset[str]
    ) -> Wire:
        topologies = Topologies()
        network = Wire(
            lambda name, life: made(name, life, timing, topologies), self, Random(1), needs
        )
        network.losing = []
        network.missed = self._missed
        for one, other in links:
            for name in (one, other):
                if name not in network.nodes:
                    network.add_node(name)
        for (one, other), cost in links.items():
            network.add_link(one, other, cost, cost * MILLISECOND)
        return network

    def start(self, rest: str) -> None:
        for name in rest.split():
            self.network.start(self._node(name).name)

    # Users and time

    def subscribe(self, rest: str) -> None:
        name, id, predicate = fields(rest, r"(\w+) (\S+) (.+)", "NODE ID PREDICATE")
        self.network.tell(self._node(name).name, Subscribe(id, predicate))

    def unsubscribe(self, rest: str) -> None:
        name, id = fields(rest, r"(\w+) (\S+)", "NODE ID")
        self.network.tell(self._node(name).name, Unsubscribe(id))

    def publish(self, rest: str) -> None:
        name, event = fields(rest, r"(\w+) (\{.*\})", "NODE EVENT")
        self.network.tell(self._node(name).name, Publish(event_of(event)))

    def run(self, rest: str) -> None:
        self.network.run(self.network.now + nanoseconds(rest))

    def settle(self, rest: str) -> None:
        network = self.network
        begun = self._busy_at = network.now
        while network.now < self._busy_at + QUIET_NS:
            network.run(network.now + MILLISECOND)
            if network.now > begun + LONGEST_NS:
                raise ValueError(f"not settled after {LONGEST_NS // SECOND} s")

    # Faults

    def cut(self, rest: str) -> None:
        for ends in self._link(rest, "-"):
            self.network.links[ends].cut = 1

    def one_way(self, rest: str) -> None:
        _, back = self._link(rest, "->")
        self.network.links[back].cut = 1

    def unlink(self, rest: str) -> None:
        (one, other), _ = self._link(rest, "-")
        self._unlinked.add(frozenset((one, other)))
        self.network.unlink(one, other)

    def join(self, rest: str) -> None:
        there, back = self._link(rest, "-")
        if frozenset(there) in self._unlinked:
            self._unlinked.remove(frozenset(there))
            self.network.relink(*there)
        self.network.links[there].cut = self.network.links[back].cut = 0

    def drop(self, rest: str) -> None:
        link, kind = fields(rest, r"next (\S+) (\w+)", "next a->b KIND")
        there, _ = self._link(link, "->")
        kinds(kind)
        self.network.losing.append((*there, kind))

    def crash(self, rest: str) -> None:
        self.network.stop(self._node(rest).name, forget=True)

    def leave(self, rest: str) -> None:
        self.network.tell(self._node(rest).name, Leave())
        self.crash(rest)

    def inject(self, rest: str) -> None:
        link, text = fields(rest, r"(\S+) (.+)", "a<-b PACKET")
        (name, neighbour), _ = self._link(link, "<-")
        self.network.tell(name, Received(neighbour, self._packet(text, self._node(name))))

    def _packet(self, text: str, receiver: Node) -> Packet:
        """The packet that a text shows; its life and topology are those that the receiver knows."""
        kind, issuer, digits, said = fields(
            text, r"(\w+)(?: (\w+)#(\d+))?:? ?(.*)", "a packet such as Receipt a#1"
        )
        number = int(digits or 0)
        life = self.network.nodes[issuer].life if issuer in self.network.nodes else 1
        view = self._router(receiver.name).snapshot().get("topology", 0)
        match kind:
            case "Publication":
                return Publication(issuer, life, number, event_of(said))
            case "Advertisement":
                return Advertisement(issuer, life, number, view, said)
            case "Receipt":
                return Receipt(issuer, number)
            case "Request":
                return Request(issuer, life, number, view)
            case "Reply":
                return Reply(issuer, number, said)
            case "Reminder":
                return Reminder(life, number)
            case _:
                raise ValueError(f"cannot inject {kind}")

    # What nodes know

    def table(self, rest: str) -> None:
        for name in rest.split():
            snapshot = self._router(name).snapshot()
            wanted: dict[str, list[str]] = {}
            for text, who in snapshot.get("wanted", {}).items():
                for one in who:
                    wanted.setdefault(one, []).append(text)
            for one, text in snapshot.get("table", {}).items():
                wanted[one] = [] if text == NOTHING else [text]
            for one, texts in sorted(wanted.items()):
                where = f"behind {one}" if one else "here"
                self._say(f"{name}: {where}: {'; '.join(texts) or 'nothing'}")
            if not wanted:
                self._say(f"{name}: the table is empty")

    def state(self, rest: str) -> None:
        name, *entries = rest.split()
        snapshot = self._router(name).snapshot()
        for entry in entries or [entry for entry in snapshot if entry != "topology"]:
            if entry not in snapshot:
                raise ValueError(f"{name} has no {entry}; it has {', '.join(snapshot)}")
            self._say(f"{name}: {entry} {shown(snapshot[entry])}")

    def explain(self, rest: str) -> None:
        name, source, event = fields(rest, r"(\w+) (\w+) (\{.*\})", "NODE SOURCE EVENT")
        for link, (taken, why) in self._router(name).explain_links(source, event_of(event)).items():
            self._say(f"{name} {'->' if taken else '-/'} {link}: {why}")

    # The transcript

    def show(self, rest: str) -> None:
        self._hidden -= set(kinds(rest))

    def hide(self, rest: str) -> None:
        self._hidden |= set(kinds(rest))

    def log(self, rest: str) -> None:
        self._logs = fields(rest, "(on|off)", "on or off") == ["on"]
        self._begun = 0 if self._network is None else self.network.now

    def _say(self, line: str) -> None:
        if self._logs:
            self.lines.append(line)

    def _note(self, now: int, who: str, what: str) -> None:
        time = (now - self._begun + MILLISECOND // 2) // MILLISECOND
        self._say(f"{time:>5} ms  {who:<6}  {what}")

    def sent(self, now: int, node: Node, target: str, packet: Packet, size: int) -> None:
        if type(packet) is not Hello:
            self._busy_at = now
        if type(packet).__name__ not in self._hidden:
            arrow = "-x" if node.links[target].cut else "->"
            self._note(now, f"{node.name} {arrow} {target}", packet_text(packet))

    def delivered(self, now: int, node: Node, action: Deliver) -> None:
        event = action.publication
        ids = ", ".join(action.subscriptions)
        self._note(now, node.name, f"delivers {event.source}#{event.number} to {ids}")

    def established(self, now: int, node: Node, action: Established) -> None:
        self._note(now, node.name, f"established: {', '.join(action.subscriptions)}")

    def dropped(self, now: int, node: Node, action: Drop) -> None:
        if type(action.packet).__name__ not in self._hidden:
            self._note(now, node.name, f"drops {packet_text(action.packet)} ({action.reason})")

    def told(self, now: int, node: Node, action: UserAction) -> None:
        values = ", ".join(map(str, msgspec.structs.astuple(action)))
        self._note(now, node.name, f"{type(action).__name__.lower()}: {values}")

    def _missed(self, node: Node, packet: Packet) -> None:
        if not node.running and type(packet).__name__ not in self._hidden:
            self._note(self.network.now, node.name, f"does not run: misses {packet_text(packet)}")

    # Names

    def _node(self, name: str) -> Node:
        if name not in self.network.nodes:
            raise ValueError(f"there is no node {name!r}: expected {', '.join(self.network.nodes)}")
        return self.network.nodes[name]

    def _router(self, name: str) -> Router:
        router = self._node(name).router
        if router is None:
            raise ValueError(f"{name} does not run")
        return router

    def _link(self, text: str, sign: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """The two directions of a link."""
        one, other = fields(text, rf"(\w+){sign}(\w+)", f"a link such as a{sign}b")
        if (one, other) not in self.network.links:
            raise ValueError(f"there is no link {one}-{other}")
        return (one, other), (other, one)


COMMANDS: Final[dict[str, Callable[[Scenario, str], None]]] = {
    "network": Scenario.make,
    "start": Scenario.start,
    "subscribe": Scenario.subscribe,
    "unsubscribe": Scenario.unsubscribe,
    "publish": Scenario.publish,
    "run": Scenario.run,
    "settle": Scenario.settle,
    "cut": Scenario.cut,
    "one-way": Scenario.one_way,
    "unlink": Scenario.unlink,
    "join": Scenario.join,
    "drop": Scenario.drop,
    "crash": Scenario.crash,
    "leave": Scenario.leave,
    "inject": Scenario.inject,
    "table": Scenario.table,
    "state": Scenario.state,
    "explain": Scenario.explain,
    "show": Scenario.show,
    "hide": Scenario.hide,
    "log": Scenario.log,
}
