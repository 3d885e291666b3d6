"""`recordari serve`, `demo`, `worker` and `mcp`: the commands that keep running."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shlex
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
import uvicorn
from fastapi import FastAPI

from recordari.app import Memory
from recordari.config import Settings, load_settings
from recordari.core.checks import is_loopback
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.doors.cli.processes import MOST_PROCESSES, Descriptors, Processes, say_ready, stopping_with
from recordari.doors.demo.fill import fill
from recordari.doors.rest.app import create_app
from recordari.doors.rest.gate import Gatekeeper
from recordari.doors.rest.listener import ACCEPTS_AT_ONCE, Connection, Listener, most_connections
from recordari.doors.rest.shared_counts import SharedCounts
from recordari.doors.web.page import PageFiles
from recordari.errors import ConfigurationError, InvalidInput, RecordariError
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Session, Tenant, User, open_memory, read_settings
from recordari.kit.output import print_line, print_note
from recordari.kit.resources import Resources
from recordari.operations.maintenance import make_development_code, make_development_key
from recordari.runner import background_worker, run_worker
from recordari.tenants.tenants import NewKey, ensure_tenant
from recordari.wiring import open_resources

try:
    from uvloop import run as _run
except ModuleNotFoundError:  # there is none for this system
    from asyncio import run as _run  # type: ignore[assignment]

GRACEFUL_SECONDS = 5
BACKLOG = 2048
COLLECTED_AFTER = (20_000, 20, 20)
"""New objects, and collections of the younger generations, before one of the garbage collector."""
TICKS_A_SECOND = 10  # of uvicorn's main loop


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Leave background work to `recordari worker`.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, max=MOST_PROCESSES, help="Server processes; background work has one of its own.")
    ] = 1,
    share: Annotated[str | None, typer.Option(hidden=True, help="What the processes of one server share.")] = None,
) -> None:
    """Start the server: REST, MCP and background work in one process, or in several.

    Settings come from the environment or a `.env` file; `recordari settings` lists all of them, and so does
    `docs/reference/settings.md`.
    """
    options: dict[str, Any] = {"host": host, "port": port, "worker": False if no_worker else None}
    settings = read_settings(quiet=False, **{name: value for name, value in options.items() if value is not None})
    with contextlib.suppress(asyncio.CancelledError):  # stopped before it had started
        if share is not None:
            _run(_serve_share(settings, Descriptors.read(share)))
        elif processes > 1:
            _run(_serve_in_processes(settings, processes))
        else:
            _run(_serve(settings))


def demo(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8766,
) -> None:
    """Look at Recordari with the memory of an invented support agent. Nothing of it is kept.

    It has a database of its own, which goes when you stop it (Ctrl-C).
    """
    with TemporaryDirectory(prefix="recordari-demo-") as name:
        home = Path(name)
        home.chmod(0o755)  # for root, an unprivileged account runs the database
        files = home / "files"
        files.mkdir()
        own: dict[str, Any] = {"database_url": None, "database_owner_url": None, "host": "127.0.0.1", "port": port}
        settings = read_settings(home=home, database_files=files, **own)

        async def prepare(resources: Resources) -> None:
            print_line("telling the story of Hjul & Hav, a bicycle shop in Bergen; this takes a moment …")
            identity = Identity(tenant_id=tenant_id_of(DEVELOPMENT_TENANT), role=Role.ADMIN, actor="demo")
            await ensure_tenant(resources, DEVELOPMENT_TENANT, actor="demo")
            await fill(Memory(resources, identity), files=files)

        with contextlib.suppress(asyncio.CancelledError):
            _run(_serve(settings, prepare))


async def _serve(settings: Settings, prepare: Callable[[Resources], Awaitable[None]] | None = None) -> None:
    _cancel_at_signals()
    # The port first: a second server must fail before it makes a key or touches the database.
    with listening(settings) as listener:
        async with open_resources(settings) as resources:
            if prepare is not None:
                await prepare(resources)
            else:
                _print_key(await make_development_key(resources))
            code = await make_development_code(resources)
            app = create_app(settings, resources=resources, background=background_worker)
            await _run_server(app, listener, ready=lambda: _print_banner(settings, app, listener, code))


async def _serve_in_processes(settings: Settings, number: int) -> None:
    """Hold the socket, the database and the background work for processes that serve."""
    _cancel_at_signals()
    with listening(settings) as listener:
        async with open_resources(settings) as resources:
            _print_key(await make_development_key(resources))
            code = await make_development_code(resources)
            processes = Processes(settings, listener, number)
            async with background_worker(resources) if settings.worker else contextlib.nullcontext():
                serving = asyncio.create_task(processes.run())
                ready = asyncio.create_task(processes.all_ready.wait())
                try:
                    await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
                    if processes.all_ready.is_set():
                        _print_banner(settings, create_app(settings, resources=resources), listener, code)
                    await serving
                except* RecordariError as errors:
                    raise errors.exceptions[0] from None
                finally:
                    for task in (serving, ready):
                        task.cancel()
                    await asyncio.gather(serving, ready, return_exceptions=True)


async def _serve_share(settings: Settings, share: Descriptors) -> None:
    """Serve as one of several processes."""
    _cancel_at_signals()
    with socket.socket(fileno=share.listener) as listener, stopping_with(share):
        async with open_resources(settings) as resources:
            app = create_app(settings, resources=resources, counts=SharedCounts(share.counts))
            await _run_server(app, listener, ready=lambda: say_ready(share), accepts_at_once=1)  # others take the next


def _cancel_at_signals() -> None:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)


async def _run_server(
    app: FastAPI, listener: socket.socket, *, ready: Callable[[], None], accepts_at_once: int = ACCEPTS_AT_ONCE
) -> None:
    server = _Server(_configuration(app), gatekeeper=app.state.gatekeeper, ready=ready, accepts_at_once=accepts_at_once)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    await server.serve(sockets=[listener])
    if not server.started:
        raise RecordariError("the server did not start; see the log above for the reason")


def _configuration(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",  # at `info` it logs every step of its own start and stop
        server_header=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )


class _Server(uvicorn.Server):
    """A server with a listener of ours, and without signal handlers.

    uvicorn's handlers would raise the signal again before the database is stopped.
    """

    def __init__(
        self, config: uvicorn.Config, *, gatekeeper: Gatekeeper, ready: Callable[[], None], accepts_at_once: int
    ) -> None:
        super().__init__(config)
        self._gatekeeper = gatekeeper
        self._accepts_at_once = accepts_at_once
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        connections, state = self.server_state.connections, self.lifespan.state

        def make_connection() -> Connection:
            return Connection(self.config, self.server_state, state, gatekeeper=self._gatekeeper)

        most, at_once = most_connections(), self._accepts_at_once
        listeners = [
            Listener(one, make_connection, most=most, count=lambda: len(connections), at_once=at_once)
            for one in sockets or ()
        ]
        self.servers = listeners  # type: ignore[assignment]  # uvicorn only closes them
        self.started = True
        settle()
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_A_SECOND == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                connection.look_after(now)  # type: ignore[union-attr]  # all are made above
        return await super().on_tick(counter)

    def stop(self) -> None:
        """Finish the open requests and stop; on a second call, stop at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


def settle() -> None:
    """Let the garbage collector look no more at what the start made, and seldom at the rest: requests make few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[socket.socket]:
    """Listen on the address of the settings for as long as the block lasts."""
    host, port = settings.host.strip("[]"), settings.port
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except socket.gaierror:
        raise ConfigurationError(f"there is no address {host!r} to listen on; set RECORDARI_HOST") from None
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({os.strerror(error.errno or 0)}); choose another port with --port or "
            "RECORDARI_PORT, or stop what uses it"
        ) from None
    # asyncio sends small answers at once (TCP_NODELAY) only if the socket names its protocol. Without it every second
    # request of a kept connection waits 40 ms for an acknowledgement.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach()) as listener:
        yield listener


def _print_key(new: NewKey | None) -> None:
    """Print the first key as soon as it exists: it cannot be read later."""
    if new is not None:
        print_line(f"development key (admin of the tenant {DEVELOPMENT_TENANT!r}), shown only once:")
        print_line(f"  {new.key}")
        print_line("make another with `recordari key create`")
        print_line()


def _sign_in_command(settings: Settings, port: int) -> str:
    """The command that prints another address of this server, for a shell like the one that it was started from."""
    usual = load_settings()
    differs = {"RECORDARI_HOME": (settings.home, usual.home), "RECORDARI_PORT": (port, usual.port)}
    set_first = [f"{name}={shlex.quote(str(here))} " for name, (here, there) in differs.items() if here != there]
    return f"{''.join(set_first)}recordari sign-in"


def _print_banner(settings: Settings, app: FastAPI, listener: socket.socket, code: str | None) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    print_line(f"Recordari {metadata.version('recordari')} listens on {url}")
    if not PageFiles().are_built:
        print_line("  dashboard        not built; `make web` builds it")
    elif code is not None:
        print_line(f"  dashboard        {url}/#code={code}")
        print_line("                   signs you in once, within an hour; another address, also for a user (--user):")
        print_line(f"                   {_sign_in_command(settings, port)}")
    else:
        print_line(f"  dashboard        {url}/")
    print_line(f"  API              {url}/docs and {url}{app.openapi_url}")
    if any(getattr(route, "path", None) == "/mcp" for route in app.routes):
        print_line(f"  MCP              {url}/mcp")
    print_line(f"  data             {'your PostgreSQL' if settings.database_url else settings.home}")
    print_line(f"  background work  {'in this program' if settings.worker else 'left to `recordari worker`'}")
    if not is_loopback(host) and not set(settings.allowed_hosts) - {"127.0.0.1", "localhost", "[::1]"}:
        print_line("  host names       only local ones are answered; set RECORDARI_ALLOWED_HOSTS for others")


def mcp(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    profile: Annotated[str, typer.Option(help="Which tools: default, agent, mem0 or admin.")] = "default",
    settings: Annotated[
        Path | None, typer.Option(help="File that `recordari install` wrote: its settings count, not those found here.")
    ] = None,
) -> None:
    """Serve MCP over standard input and output, for an agent on this machine.

    You name the tenant, user, agent and session here; the agent cannot change them.
    """
    if settings is not None:
        _use_installed(settings)
    try:
        from recordari.doors.mcp.profiles import PROFILES
        from recordari.doors.mcp.server import serve_stdio
    except ModuleNotFoundError as error:
        if error.name not in {"mcp", "mcp_types"}:
            raise
        reason = "MCP needs a further package; install it with `pip install 'recordari[mcp]'`"
        raise ConfigurationError(reason) from None
    if profile not in PROFILES:
        raise InvalidInput(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}", field="profile")
    tools = PROFILES[profile]

    async def run() -> None:
        async with open_memory(tenant, user=user, agent=agent, session=session, worker=True) as caller:
            # A model is no administrator, even if an administrator started it, unless the profile says so.
            identity = replace(caller.identity, role=tools.role, actor="mcp")
            await serve_stdio(Memory(caller.resources, identity), tools)

    asyncio.run(run())


def _use_installed(file: Path) -> None:
    """Use the settings of an installation. A host starts us in a project, whose `.env` is not ours."""
    try:
        installed = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        raise ConfigurationError(f"{file} cannot be read; run `recordari install` again") from None
    os.environ.update(installed["environment"])
    os.chdir(file.parent)


def worker() -> None:
    """Run background work until you stop it (Ctrl-C or SIGTERM); it finishes the work it has begun."""
    _run(_work(read_settings(quiet=False)))


async def _work(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_resources(settings) as resources:
        print_note("worker started; Ctrl-C stops it")
        settle()
        await run_worker(resources, stop)
