"""`tidings serve` and `tidings up`: run a router, or a whole network on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.extras import PAGES, require
from tidings.cli.terminal import complain, write

POLL_S = 0.2  # from one check that all routers run to the next

if TYPE_CHECKING:
    from tidings.live.router import Router
    from tidings.live.settings import Settings


def serve(
    listen: Annotated[
        str, typer.Option(help="Where to listen, HOST:PORT; port 0 takes a free one.")
    ] = "127.0.0.1:7471",
    link: Annotated[
        list[str] | None, typer.Option(help="A neighbour to connect to, HOST:PORT; repeatable.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The router's name; by default its address.")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="How events are routed: cbcb, or flood for comparison, or others.")
    ] = "cbcb",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the protocol, key=value; repeatable.")
    ] = None,
    http: Annotated[
        str | None, typer.Option(help="HOST:PORT of the pages /metrics, /status and /health.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Record what the router gets and does in this file.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Take all settings from a TOML file instead.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Write a journal to standard error.")] = False,
) -> int:
    """Run a router until it is interrupted.

    Writes one line of JSON as soon as it listens. Without --config it accepts connections from this
    machine only.

    Exits with 0, or with 2 if a setting is wrong.

    \b
    Examples:
      tidings serve --listen 127.0.0.1:7471
      tidings serve --listen 127.0.0.1:7472 --link 127.0.0.1:7471
      tidings serve --config node.toml
    """
    from tidings.live.access import ConfigurationError
    from tidings.live.journal import write_journal
    from tidings.live.serving import run
    from tidings.live.serving import serve as serve_router
    from tidings.live.settings import Dial, Settings, read_address, read_settings
    from tidings.routing.options import OptionsError, read_pairs

    try:
        if config is not None:
            settings = read_settings(config)
        else:
            host, port = read_address(listen, "--listen")
            pages = read_address(http, "--http") if http is not None else ("127.0.0.1", None)
            settings = Settings(
                node=name or listen.replace("/", "-"),
                host=host,
                port=port,
                links=tuple(Dial(*read_address(one, "--link")) for one in link or ()),
                protocol=protocol,
                options=read_pairs(option or (), "--option"),
                http_host=pages[0],
                http_port=pages[1],
                record=record,
            )
    except (ConfigurationError, OptionsError) as error:
        complain(f"tidings serve: {error}")
        return 2
    if settings.http_port is not None:
        require(*PAGES)
    write_journal(warnings_only=not log)
    again = partial(read_settings, config) if config is not None else None
    run(serve_router(settings, _ready, again))
    return 0


def _ready(router: Router, pages: int | None) -> None:
    line = {"node": router.node, "host": router.settings.host, "port": router.port, "http": pages}
    write(json.dumps(line))
    sys.stdout.flush()


def up(
    network: Annotated[Path, typer.Argument(help="A TOML file with a table [[node]] for each.")],
) -> int:
    """Run a whole network on this machine, a process for each router, until it is interrupted.

    SIGHUP lets the routers read the file again.

    Exits with 0, 1 if a router stopped by itself, 2 if the file is wrong.

    \b
    Example:
      tidings up network.toml
    """
    from tidings.live.access import ConfigurationError
    from tidings.live.settings import read_network

    try:
        nodes = read_network(network)
    except ConfigurationError as error:
        complain(f"tidings up: {error}")
        return 2
    if any(settings.http_port is not None for settings in nodes):
        require(*PAGES)
    processes: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for number, settings in enumerate(nodes):
            processes.append(_start(network, number))
            write(f"{settings.node}: {settings.host}:{settings.port}")
        sys.stdout.flush()
        signal.signal(signal.SIGHUP, lambda number, frame: _read_again(network, processes))
        while all(process.poll() is None for process in processes):
            time.sleep(POLL_S)
        ended = next(n for n, process in enumerate(processes) if process.poll() is not None)
        complain(f"tidings up: {nodes[ended].node} stopped, so the others are stopped too")
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _read_again(network: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """Let all routers read their file again; if it has a mistake, say so once instead."""
    from tidings.live.access import ConfigurationError
    from tidings.live.settings import read_network

    try:
        read_network(network)
    except ConfigurationError as error:
        complain(f"tidings up: nothing is changed: {error}")
        return
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGHUP)


def _start(network: Path, number: int) -> subprocess.Popen[bytes]:
    """Start a process for one router of the file."""
    code = "import sys; from tidings.cli.serve import one_of; one_of(sys.argv[1], int(sys.argv[2]))"
    command = [sys.executable, "-c", code, os.fspath(network), str(number)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def one_of(network: str, number: int) -> None:
    """Run one router of a file."""
    from tidings.live.journal import write_journal
    from tidings.live.serving import run
    from tidings.live.serving import serve as serve_router

    settings = _node_of(network, number)
    write_journal(warnings_only=True)
    try:
        again = partial(_node_of, network, number)
        run(serve_router(settings, lambda router, pages: None, again))
    except OSError as error:
        complain(f"tidings up: {settings.node}: {error}")
        sys.exit(2)


def _node_of(network: str, number: int) -> Settings:
    from tidings.live.settings import read_network

    settings: Settings = read_network(Path(network))[number]
    return settings
