"""A Recordari server from Python: the verbs of `Memory`, over HTTP.

    from recordari.client import Client

    async with Client("http://127.0.0.1:8765", key="rcd_…", user="ana") as memory:
        await memory.remember_fact("Ana prefers tea")
        answer = await memory.recall("What does Ana drink?")

Every verb has the name, the parameters, the result and the errors that it has in the library; `recordari.sync.Client` is the
same for code without an event loop. What has no route over REST is not here.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_type_hints
from uuid import UUID

import httpx2
from pydantic import TypeAdapter

from recordari.app import Memory
from recordari.client.routes import OPERATIONS, Route, Wire, answer_of, wire_of
from recordari.client.transport import (
    DEFAULT_TIMEOUT,
    STREAM,
    Transport,
    document_wire,
    place_of,
    read_lines,
    told,
    written_lines,
)
from recordari.context.rules.profiles import Profile
from recordari.core.checks import Progress
from recordari.core.identity import Identity, checked_id
from recordari.core.ids import new_id
from recordari.core.items import NewItem
from recordari.errors import InvalidInput, RecordariError, Unauthenticated
from recordari.events.follow import STREAM_SECONDS
from recordari.events.rules import Event, EventType
from recordari.knowledge.ingest import AddedDocument, NewDocument
from recordari.memory.remember import News, Remembered, kept_in_batches
from recordari.transfer.import_export import Imported, Lines

if TYPE_CHECKING:
    _Verbs = Memory  # what a type checker and an editor know of the verbs made below
else:
    _Verbs = object

__all__ = ["Client"]


class Client(_Verbs):
    """The verbs of `Memory` over HTTP, bound to one credential and to who acts under it."""

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
        """`retries` are made only where a repeated request does no harm; `transport` is for tests and proxies."""
        self._transport = Transport(url, key=key, timeout=timeout, retries=retries, transport=transport)
        self._who = _checked({"user": user, "agent": agent, "session": session, "run": run})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, also of clients made from this one by `acting_as`."""
        await self._transport.close()

    def acting_as(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
    ) -> Self:
        """The same memory with more said about who asks."""
        other = object.__new__(type(self))
        other._transport = self._transport
        other._who = {**self._who, **_checked({"user": user, "agent": agent, "session": session, "run": run})}
        return other

    async def whoami(self) -> Identity:
        """Who the server takes these requests for."""
        answer: Identity = await self._asked(OPERATIONS["whoami"], {}, TypeAdapter(Identity))
        return answer

    async def pin_item(self, item_id: UUID, *, pinned: bool = True) -> None:
        """Keep an item until a person ends it, or no longer."""
        await self._asked(OPERATIONS["pin_item" if pinned else "unpin_item"], {"item_id": item_id}, TypeAdapter(None))

    def import_items(
        self, items: News, *, total: int = 0, progress: Progress | None = None
    ) -> AsyncIterator[list[Remembered]]:
        """Keep any number of items, batch by batch; started again, it goes on where it stopped."""
        return kept_in_batches(items, self._kept, total=total, progress=progress)

    async def profile(self, *, user: str | None = None, agent: str | None = None) -> Profile:
        """What is known of a user or an agent in a few hundred tokens; without either, of who asks."""
        if user is not None and agent is not None:
            raise InvalidInput("a profile is of a user or of an agent; name one of them")
        if user is None and agent is None:
            who = await self.whoami()
            user, agent = who.user_id, who.agent_id
        answers: TypeAdapter[Profile] = TypeAdapter(Profile)
        if user is not None:
            known: Profile = await self._asked(
                OPERATIONS["user_profile"], {"user_id": checked_id("user", user)}, answers
            )
        elif agent is not None:
            known = await self._asked(OPERATIONS["agent_profile"], {"agent_id": checked_id("agent", agent)}, answers)
        else:
            raise Unauthenticated("a profile is of a user or of an agent: name one, or use a credential of one")
        return known

    async def remove_source(self, source_id: UUID) -> int:
        """Remove a source with its documents; how many there were."""
        source = await self.get_source(source_id)  # the route does not count them
        await self._asked(OPERATIONS["remove_source"], {"source_id": source_id}, TypeAdapter(None))
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
        """Take a document or its next revision in; `more` are `media_type`, `source` and `metadata`."""
        route = OPERATIONS["add_document"]
        given = await self._by_name(route, {name: value for name, value in more.items() if value is not None})
        wire = document_wire(route.path, NewDocument(name=name, data=data, text=text, **given))
        added: AddedDocument = await self._answered(route, wire, TypeAdapter(AddedDocument))
        if progress is not None:  # the server tells nothing before it is done
            progress(added.document.chunks, added.document.chunks)
        return added

    async def export(self, *, user_id: str | None = None) -> AsyncIterator[str]:
        """Everything of the tenant or of one user, as lines of JSON."""
        wire = wire_of(OPERATIONS["export"], {"user_id": user_id} if user_id is not None else {}, self._who)
        async with aclosing(self._transport.stream("GET", wire, who=self._who)) as parts:
            async for line in read_lines(parts):
                yield line

    async def import_export(self, lines: Lines) -> Imported:
        """Write what an export holds and this tenant does not."""
        route = OPERATIONS["import_export"]
        wire = Wire(path=route.path, lines=written_lines(lines), headers={"Content-Type": "application/x-ndjson"})
        try:
            imported: Imported = await self._answered(route, wire, TypeAdapter(Imported))
        except RecordariError as error:
            if (line := place_of(error.details.get("field"))) is not None:
                error.details["line"] = line
            raise
        return imported

    async def follow_events(
        self, *, after: int | None = None, types: Sequence[EventType | str] = (), seconds: float = STREAM_SECONDS
    ) -> AsyncGenerator[Event | None, None]:
        """What changes from now on, or from a position on, as it happens; None when nothing did for a moment."""
        given = {"types": list(types), **({"after": after} if after is not None else {})}
        wire = wire_of(OPERATIONS["list_events"], given, self._who)
        wire.headers["Accept"] = STREAM
        async with aclosing(self._transport.stream("GET", wire, who=self._who)) as parts:
            end = time.monotonic() + seconds
            async for line in read_lines(parts):
                if time.monotonic() > end:
                    return
                if (said := told(line)) is not None:
                    yield TypeAdapter(Event).validate_json(said) if said else None

    async def _kept(self, batch: Sequence[NewItem]) -> list[Remembered]:
        try:
            return await self.remember_many(batch)
        except RecordariError as error:
            error.details["index"] = _index_of(error)
            raise

    async def _asked(self, route: Route, arguments: dict[str, Any], answers: TypeAdapter[Any]) -> Any:
        wire = wire_of(route, await self._by_name(route, arguments), self._who)
        return await self._answered(route, wire, answers)

    async def _answered(self, route: Route, wire: Wire, answers: TypeAdapter[Any]) -> Any:
        if route.is_keyed:
            wire.headers["Idempotency-Key"] = str(new_id())
        response = await self._transport.send(route.method, wire, who=self._who, repeatable=route.is_repeatable)
        return answers.validate_python(answer_of(route, response))

    async def _by_name(self, route: Route, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the name of a source or database in the place of its id."""
        match route.by_name, arguments.get(route.by_name or ""):
            case "source", UUID() as source_id:
                return {**arguments, "source": (await self.get_source(source_id)).name}
            case "database", UUID() as database_id:
                return {**arguments, "database": (await self.get_database(database_id)).name}
        return arguments


def _verb(name: str, route: Route) -> Callable[..., Awaitable[Any]]:
    """The verb of that name: everything but its route follows from the library's own."""
    original = getattr(Memory, name)
    signature = inspect.signature(original)

    @functools.cache
    def answers() -> TypeAdapter[Any]:
        return TypeAdapter(get_type_hints(original)["return"])

    @functools.wraps(original)
    async def verb(self: Client, *arguments: Any, **named: Any) -> Any:
        return await self._asked(route, _given(signature.bind(self, *arguments, **named)), answers())

    return verb


def _given(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name; those left at None are left out, unless None is something to say."""
    given: dict[str, Any] = {}
    for name, parameter in list(bound.signature.parameters.items())[1:]:
        if name not in bound.arguments:
            continue
        value = bound.arguments[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given.update({more: each for more, each in value.items() if each is not None})
        elif value is not None or parameter.default is inspect.Parameter.empty:
            given[name] = value
    return given


def _checked(who: Mapping[str, str | None]) -> dict[str, str]:
    return {noun: checked_id(f"{noun}_id", name) for noun, name in who.items() if name is not None}


def _index_of(error: RecordariError) -> int:
    """Which item of a batch the server found fault with."""
    place = str(error.details.get("field", "")).split(".")
    return int(place[1]) if len(place) > 1 and place[0] == "items" and place[1].isdigit() else 0


for _name, _route in OPERATIONS.items():
    if _name not in vars(Client) and hasattr(Memory, _name):
        setattr(Client, _name, _verb(_name, _route))
