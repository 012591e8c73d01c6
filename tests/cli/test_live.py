"""The commands of the live network, as processes: events in, events out, and queries."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.networks import free_ports
from tidings.cli.network import SHOW

CODE = "import sys; from tidings.cli.main import main; sys.exit(main())"
PATIENCE_S = 60


def start(*arguments: str, interrupts: bool = True) -> subprocess.Popen[str]:
    """A command; without `interrupts` it ignores them, as what a script starts beside itself."""
    handler = signal.SIG_DFL if interrupts else signal.SIG_IGN
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )


def tidings(*arguments: str, given: str = "") -> tuple[int, str, str]:
    process = start(*arguments)
    out, err = process.communicate(given, timeout=PATIENCE_S)
    return process.returncode, out, err


@contextmanager
def serving(*arguments: str) -> Iterator[int]:
    """A router as a process; its port."""
    process = start("serve", "--listen", "127.0.0.1:0", *arguments)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["port"]
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_events_go_in_and_out_as_json_lines() -> None:
    with (
        serving("--name", "a") as port,
        serving("--name", "b", "--link", f"127.0.0.1:{port}") as far,
    ):
        url, far_url = f"tidings://127.0.0.1:{port}", f"tidings://127.0.0.1:{far}"
        while len(json.loads(tidings("status", "--json", "--url", url)[1])["status"]) < 2:
            pass
        listening = start("subscribe", "severity > 2", "--count", "2", "--url", far_url)
        assert listening.stderr is not None
        name = listening.stderr.readline().split()[-1]
        assert name == "b/1"

        code, out, _ = tidings("trace", '{"severity": 3}', "--url", url, "--json")
        nodes = {one["node"]: one for one in json.loads(out)["trace"]}
        assert (code, nodes["a"]["links"]["b"]["taken"]) == (0, True)
        assert nodes["b"]["subscriptions"] == [name]
        code, out, _ = tidings("why", name, '{"severity": 1}', "--url", url)
        assert code == 1
        assert "does not take the link to b" in out
        assert "severity is 1, not above 2" in out

        lines = '{"severity": 3}\n\n{"severity": 1}\nnonsense\n{"severity": 5}\n'
        code, out, err = tidings("publish", "--url", url, "--level", "routed", given=lines)
        assert (code, out) == (1, "")
        assert "event 3: not JSON" in err
        out, _ = listening.communicate(timeout=PATIENCE_S)
        assert [json.loads(line) for line in out.splitlines()] == [{"severity": 3}, {"severity": 5}]
        assert listening.returncode == 0

        code, out, _ = tidings("status", "--url", url)
        assert code == 0
        assert "3 published" in out or "2 published" in out


def test_publishers_advertise_and_get_replies() -> None:
    with serving("--name", "a", "--protocol", "flood") as port:
        url = ("--url", f"tidings://127.0.0.1:{port}")
        replying = start("subscribe", "x > 0", "--count", "1", "--reply", '{"seen": true}', *url)
        assert replying.stderr is not None
        assert replying.stderr.readline().startswith("subscribed: a/1")
        advertised = ("--advertise", "exists x", "--replies", "0.5")
        code, out, err = tidings("publish", '{"x": 1}', '{"y": 1}', *advertised, *url)
        assert (code, json.loads(out)) == (1, {"event": 1, "reply": {"seen": True}})
        assert "event 2: the event does not match what this client has advertised" in err
        assert replying.communicate(timeout=PATIENCE_S)[0] == '{"x": 1}\n'
        code, _, err = tidings("publish", "{}", "--advertise", "x >", *url)
        assert (code, err.startswith("tidings publish: bad predicate")) == (1, True)
        code, _, err = tidings("subscribe", "x > 0", "--reply", "[1]", *url)
        assert (code, err.startswith("tidings subscribe: --reply: ")) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--listen", "nowhere"], "--listen: expected HOST:PORT, found 'nowhere'"),
        (["serve", "--listen", "0.0.0.0:7471"], "[[access]]"),
        (
            ["serve", "--protocol", "magic"],
            "protocol: expected one of cbcb, subscriptions, covering",
        ),
        (["serve", "--option", "characters"], "expected options such as key=value"),
        (["serve", "--option", "filter=1"], "expected one of characters, constants, filters"),
        (["serve", "--config", "missing.toml"], "missing.toml: No such file"),
        (["up", "missing.toml"], "missing.toml: No such file"),
        (["publish", "{}", "--url", "http://x"], "expected tidings://HOST:PORT"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    code, out, err = tidings(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_bad_predicate_is_shown_with_its_place_and_exit_code_1() -> None:
    code, out, err = tidings("subscribe", "severity\u2028 >")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "tidings subscribe: bad predicate: line 1, column 12: expected a number or a text (texts "
        "stand in single quotes), found the end of the text",
        "  severity  >",
        "             ^",
    ]


@pytest.mark.parametrize("command", [["trace", "nonsense"], ["why", "a/1", "nonsense"]])
def test_a_bad_event_is_one_line_and_exit_code_1(command: list[str]) -> None:
    code, out, err = tidings(*command)
    assert (code, out) == (1, "")
    assert err.startswith(f"tidings {command[0]}: bad event: not JSON")
    assert err.count("\n") == 1


def test_what_others_wrote_does_not_control_the_terminal() -> None:
    rude = "\x1b[2J"
    link = {"up": False, "taken": False, "why": rude, "events_in": 0, "events_out": 0}
    finding = {
        "node": rude,
        "settled": False,
        "up_s": 1.0,
        "connected": 1,
        "subscriptions": [rude],
        "counts": {"published": 0, "delivered": 0},
        "dropped": 0,
        "links": {rude: link | {"bytes_in": 0, "bytes_out": 0}},
        "interests": {rude: rude},
    }
    trace = [*SHOW["trace"](finding), *SHOW["why"](finding)]
    held = {"established": True, "explanation": f"{rude}\n{rude}"}
    trace += SHOW["why"](finding | {"subscription": held})
    trace += SHOW["why"](finding | {"unreachable": rude})
    status = [*SHOW["status"](finding | {"subscriptions": 1})]
    assert len(trace) == 2 + 1 + 2 + 1
    assert all(line.isprintable() for line in trace + status)


def test_without_a_router_commands_say_so(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"tidings://127.0.0.1:{port}"
    code, _, err = tidings("publish", "{}", "--url", url)
    assert code == 2
    assert "is there a router? tidings serve" in err
    missing = str(tmp_path / "token")
    code, _, err = tidings("publish", "{}", "--url", url, "--token-file", missing)
    assert code == 2
    assert "No such file" in err
    assert "is there a router?" not in err


def test_a_whole_network_runs_from_one_file(tmp_path: Path) -> None:
    ports = free_ports(3)
    rows = [
        f'[[node]]\nname = "n{index}"\nlisten = "127.0.0.1:{port}"\n'
        + (f'link = ["127.0.0.1:{ports[0]}"]\n' if index else "")
        for index, port in enumerate(ports)
    ]
    file = tmp_path / "network.toml"
    file.write_text("".join(rows), encoding="utf-8")
    process = start("up", str(file), interrupts=False)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline().split(":")[0] for _ in ports] == ["n0", "n1", "n2"]
        url = f"tidings://127.0.0.1:{ports[1]}"
        found: list[str] = []
        for _ in range(PATIENCE_S):
            code, out, _ = tidings("status", "--json", "--url", url)
            if code == 0:
                found = sorted(one["node"] for one in json.loads(out)["status"])
                if len(found) == 3:
                    break
        assert found == ["n0", "n1", "n2"]
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
