"""A Recordari server from Python: the verbs of `Memory`, over HTTP.

    from recordari.client import Client

    async with Client("http://127.0.0.1:8765", key="rcd_…", user="ana") as memory:
        await memory.remember_fact("Ana prefers tea")
        answer = await memory.recall("What does Ana drink?")

Every verb has the name, parameters, result and errors that it has in the library; `recordari.sync.Client` is the same for code
without an event loop. Verbs without a REST route are missing.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints
from uuid import UUID

import httpx2
from pydantic import TypeAdapter

from recordari.app import Memory
from recordari.client.routes import OPERATIONS, Route, Wire, answer_of, wire_of
from recordari.client.transport import DEFAULT_TIMEOUT, Transport, document_wire, written_lines
from recordari.context.rules.profiles import Profile
from recordari.core.checks import Progress
from recordari.core.identity import Identity, checked_id
from recordari.core.ids import new_id
from recordari.core.items import NewItem
from recordari.errors import InvalidInput, Overloaded, RecordariError, Unauthenticated
from recordari.events.follow import STREAM_SECONDS
from recordari.events.rules import Event, EventType
from recordari.knowledge.ingest import AddedDocument
from recordari.memory.batches import News, kept_in_batches
from recordari.memory.remember import Remembered
from recordari.transfer.import_export import Imported, Lines

if TYPE_CHECKING:
    _Verbs = Memory  # the verbs are made below; this is what a type checker and an editor see
else:
    _Verbs = object

__all__ = ["Client"]

T = TypeVar("T")


class Client(_Verbs):
    """The verbs of `Memory` over HTTP, bound to one credential and one identity."""

    def __init__(
        self,
        url: str,
        *,
        key: str,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = 2,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Only requests that are safe to repeat are retried; `transport` is for tests and proxies."""
        self._transport = Transport(url, key=key, timeout=timeout, retries=retries, transport=transport)
        self._who = _checked({"user": user, "agent": agent, "session": session, "run": run})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, which clients made by `acting_as` share."""
        await self._transport.close()

    def acting_as(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
    ) -> Self:
        other = object.__new__(type(self))
        other._transport = self._transport
        other._who = {**self._who, **_checked({"user": user, "agent": agent, "session": session, "run": run})}
        return other

    async def whoami(self) -> Identity:
        """The identity that the server gives these requests."""
        return await self._call(OPERATIONS["whoami"], {}, _identity())

    def import_items(
        self, items: News, *, total: int = 0, progress: Progress | None = None
    ) -> AsyncIterator[list[Remembered]]:
        return kept_in_batches(items, _unchanged, self._remember_batch, total=total, progress=progress)

    async def profile(self, *, user: str | None = None, agent: str | None = None) -> Profile:
        if user is not None and agent is not None:
            raise InvalidInput("a profile is of a user or of an agent; name one of them")
        if user is None and agent is None:
            identity = await self.whoami()
            user, agent = identity.user_id, identity.agent_id
        noun, name = ("user", user) if user is not None else ("agent", agent)
        if name is None:
            raise Unauthenticated("a profile is of a user or of an agent: name one, or use a credential of one")
        arguments = {f"{noun}_id": checked_id(noun, name)}
        return await self._call(OPERATIONS[f"{noun}_profile"], arguments, TypeAdapter(Profile))

    async def remove_source(self, source_id: UUID) -> int:
        source = await self.get_source(source_id)  # the route does not count them
        await self._call(OPERATIONS["remove_source"], {"source_id": source_id}, TypeAdapter(None))
        return source.documents

    async def add_document(
        self,
        name: str,
        data: bytes | None = None,
        *,
        text: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        **more: Any,
    ) -> AddedDocument:
        route = OPERATIONS["add_document"]
        fields = await self._by_name(route, {name: value for name, value in more.items() if value is not None})
        wire = document_wire(route.path, name, data, text=text, **fields)
        added = await self._send(route, wire, TypeAdapter(AddedDocument))
        if progress is not None:  # the server reports nothing before it is done
            progress(added.document.chunks, added.document.chunks)
        return added

    async def export(self, *, user_id: str | None = None) -> AsyncIterator[str]:
        wire = wire_of(OPERATIONS["export"], {"user_id": user_id} if user_id is not None else {}, self._who)
        async with aclosing(self._transport.lines(wire, who=self._who)) as lines:
            async for line in lines:
                yield line

    async def import_export(self, lines: Lines) -> Imported:
        route = OPERATIONS["import_export"]
        wire = Wire(path=route.path, lines=written_lines(lines), headers={"Content-Type": "application/x-ndjson"})
        try:
            return await self._send(route, wire, TypeAdapter(Imported))
        except RecordariError as error:
            if line := re.fullmatch(r"line (\d+)", str(error.details.get("field"))):
                error.details["line"] = int(line[1])
            raise

    async def follow_events(
        self, *, after: int | None = None, types: Sequence[EventType | str] = (), seconds: float = STREAM_SECONDS
    ) -> AsyncGenerator[Event | None, None]:
        arguments = {"types": list(types), **({"after": after} if after is not None else {})}
        wire = wire_of(OPERATIONS["list_events"], arguments, self._who)
        wire.headers["Accept"] = "text/event-stream"
        async with aclosing(self._transport.lines(wire, who=self._who)) as lines:
            end, is_end = time.monotonic() + seconds, False
            async for line in lines:
                if time.monotonic() > end:
                    return
                if line.startswith("event:"):
                    is_end = line.removeprefix("event:").strip() == "end"
                elif line.startswith("data:") and is_end:
                    raise Overloaded(json.loads(line.removeprefix("data:"))["detail"])
                elif line.startswith("data:"):
                    yield TypeAdapter(Event).validate_json(line.removeprefix("data:"))
                elif line.startswith(":"):  # a comment, which keeps the connection alive
                    yield None

    async def _remember_batch(self, batch: Sequence[NewItem]) -> list[Remembered]:
        try:
            return await self.remember_many(batch)
        except RecordariError as error:
            error.details["index"] = _index_of(error)
            raise

    async def _call(self, route: Route, arguments: dict[str, Any], answers: TypeAdapter[T]) -> T:
        return await self._send(route, wire_of(route, await self._by_name(route, arguments), self._who), answers)

    async def _send(self, route: Route, wire: Wire, answers: TypeAdapter[T]) -> T:
        if route.is_keyed:
            wire.headers["Idempotency-Key"] = str(new_id())
        response = await self._transport.send(route.method, wire, who=self._who, repeatable=route.is_repeatable)
        return answers.validate_python(answer_of(route, response))

    async def _by_name(self, route: Route, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the name of a source or database instead of its id."""
        match route.by_name, arguments.get(route.by_name or ""):
            case "source", UUID() as source_id:
                return {**arguments, "source": (await self.get_source(source_id)).name}
            case "database", UUID() as database_id:
                return {**arguments, "database": (await self.get_database(database_id)).name}
        return arguments


async def _unchanged(batch: Sequence[NewItem]) -> Sequence[NewItem]:
    """The server prepares a batch."""
    return batch


@functools.cache
def _identity() -> TypeAdapter[Identity]:
    return TypeAdapter(Identity)


def _verb(name: str, route: Route) -> Callable[..., Awaitable[Any]]:
    """The verb of that name, made from the signature and types of the library's own."""
    original = getattr(Memory, name)
    signature = inspect.signature(original)

    @functools.cache
    def answers() -> TypeAdapter[Any]:
        return TypeAdapter(get_type_hints(original)["return"])

    @functools.wraps(original)
    async def verb(self: Client, *arguments: Any, **named: Any) -> Any:
        return await self._call(route, _arguments(signature.bind(self, *arguments, **named)), answers())

    return verb


def _arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, without those that are None by default."""
    arguments: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[1:]:
        parameter = bound.signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= {more: each for more, each in value.items() if each is not None}
        elif value is not None or parameter.default is inspect.Parameter.empty:
            arguments[name] = value
    return arguments


def _checked(who: Mapping[str, str | None]) -> dict[str, str]:
    return {noun: checked_id(f"{noun}_id", name) for noun, name in who.items() if name is not None}


def _index_of(error: RecordariError) -> int:
    """The position of the item in its batch that the server refused."""
    position = re.match(r"items\.(\d+)", str(error.details.get("field")))
    return int(position[1]) if position else 0


for _name, _route in OPERATIONS.items():
    if _name not in vars(Client) and hasattr(Memory, _name):
        setattr(Client, _name, _verb(_name, _route))

for _name, _own in vars(Client).items():  # the verbs written above have the words of the library's, too
    if not _name.startswith("_") and (_original := getattr(Memory, _name, None)) is not None:
        _own.__doc__, _own.__signature__ = _original.__doc__, inspect.signature(_original)
