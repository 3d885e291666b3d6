"""How connections are taken, watched and held, below the application.

uvicorn's HTTP protocol waits for a request's head for as long as the client likes, and asyncio's accept loop logs a
line for every connection that it has no file descriptor for. `Connection` and `Listener` set limits to both.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from recordari.core.telemetry import Tally, get_log
from recordari.doors.rest.gate import REFUSAL, Gatekeeper
from recordari.doors.rest.limits import STREAMED
from recordari.errors import Overloaded

HEAD_SECONDS = 10.0  # for the whole head of a request, from the connection or its first byte on
BODY_SECONDS = 12.0  # without a byte of a body that is awaited
UNREAD_SECONDS = 30.0  # without the client reading a byte of an answer
MAX_HEAD = 64 * 1024

ACCEPTS_AT_ONCE = 16  # so that a crowd at the door does not keep those inside waiting
SPARE_DESCRIPTORS = 64  # for the database, files and child processes
MOST_CONNECTIONS = 10_000
RETRY_SECONDS = 0.25
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_HEAD_END = re.compile(rb"\n\r?\n")
_AUTHORIZATION = re.compile(rb"\nauthorization:([^\r\n]*)", re.IGNORECASE)
_UPGRADE = re.compile(rb"\nupgrade:", re.IGNORECASE)

_log = get_log(__name__)
_cut = Tally(_log.info, "connections_cut")
_unaccepted = Tally(_log.error, "connections_not_accepted")


class Connection(HttpToolsProtocol):
    """A connection: it is cut when its client stalls, and held unread while its tenant's queue is full."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], *, gatekeeper: Gatekeeper
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._gatekeeper = gatekeeper
        self._is_new = True
        self._head = bytearray()
        self._is_within = False  # a request whose head was read, and whose end was not
        self._moved_at = self.loop.time()  # the start of a head, or the last byte of a body
        self._unread_since: float | None = None
        self._give_up: Callable[[], None] | None = None  # set while a request is held

    def connection_lost(self, exc: Exception | None) -> None:
        if self._give_up is not None:
            self._give_up()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_within:
            self._moved_at = self.loop.time()
            super().data_received(data)
            return
        if not self._head:
            self._moved_at = self.loop.time()
            self._unset_keepalive_if_required()
        self._head += data
        if self._give_up is not None:
            return
        end = _HEAD_END.search(self._head, max(0, len(self._head) - len(data) - 3))
        if end is not None:
            self._hold_or_serve(end.start() + 1)
        elif len(self._head) > MAX_HEAD:
            self.send_400_response("The head of the request is too large.")
        elif not self._head[:1].isalpha():
            self._serve()  # the parser refuses it

    def on_message_begin(self) -> None:
        self._is_within = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._is_within = False
        super().on_message_complete()

    def _hold_or_serve(self, head_length: int) -> None:
        credential = _AUTHORIZATION.search(self._head, 0, head_length)
        if credential is not None:
            self._give_up = self._gatekeeper.hold(credential[1].strip().decode("latin-1"), self._answered)
        # There is nothing to upgrade to, and the parser would take the body for the other protocol's.
        self._head[:head_length] = _UPGRADE.sub(b"\nx-upgrade:", self._head[:head_length])
        if self._give_up is None:
            self._serve()
        else:
            self.flow.pause_reading()

    def _answered(self, refusal: Overloaded | None) -> None:
        """The wait of a held request is over: serve it or refuse it."""
        self._give_up = None
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        served, self.app_state = self.app_state, {**self.app_state, **({REFUSAL: refusal} if refusal else {})}
        try:
            self._serve()
        finally:
            self.app_state = served

    def _serve(self) -> None:
        data, self._head, self._is_new = bytes(self._head), bytearray(), False
        self._moved_at = self.loop.time()
        super().data_received(data)

    def pause_writing(self) -> None:
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def look_after(self, now: float) -> None:
        """Cut the connection if its client has stalled for too long."""
        stalled = self._stalled(now)
        if stalled is None or self.transport.is_closing():
            return
        _cut.count(reason=stalled)
        if stalled == "head" and self._head:
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()
        else:
            self.transport.abort()

    def _stalled(self, now: float) -> str | None:
        if self._unread_since is not None and now - self._unread_since > UNREAD_SECONDS:
            return "unread"
        awaits_head = not self._is_within and self._give_up is None and (self._is_new or self._head)
        if awaits_head and now - self._moved_at > HEAD_SECONDS:
            return "head"
        awaits_body = self._is_within and not self.flow.read_paused
        if awaits_body and now - self._moved_at > BODY_SECONDS and self.scope["path"] not in STREAMED:
            return "body"
        return None


class Listener:
    """Accepts connections: a few at a time, and none when file descriptors run short, until some are free again."""

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        most: int,
        count: Callable[[], int],
        at_once: int = ACCEPTS_AT_ONCE,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._make_protocol = make_protocol
        self._most = most
        self._count = count
        self._at_once = at_once
        self._arriving: set[asyncio.Task[object]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._socket.fileno())

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._arriving, return_exceptions=True)

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _pause(self, reason: str) -> None:
        # The kernel keeps those who come meanwhile, and would report them without end.
        _unaccepted.count(reason=reason)
        self._loop.remove_reader(self._socket.fileno())
        self._resuming = self._loop.call_later(RETRY_SECONDS, self._resume)

    def _accept(self) -> None:
        for _ in range(self._at_once):
            if self._count() + len(self._arriving) >= self._most:
                self._pause("too_many_connections")
                return
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                self._pause("out_of_file_descriptors")
                return
            connection.setblocking(False)
            arriving = self._loop.create_task(self._arrive(connection))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)

    async def _arrive(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it has left already
            await self._loop.connect_accepted_socket(self._make_protocol, connection)


def most_connections() -> int:
    """Raise the limit of open files as far as allowed, and return how many connections fit below it."""
    try:
        import resource
    except ImportError:  # no such limit on this system
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        with contextlib.suppress(ValueError, OSError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(8, min(MOST_CONNECTIONS, soft - SPARE_DESCRIPTORS))
