"""The proxy: shows the model the caller's memory, passes the answer on untouched, and keeps what was said.

It talks to a Recordari server over HTTP. When that is away, requests are passed on without memory, and a header says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx2
import typer
import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from recordari.client import Client
from recordari.core.telemetry import get_log
from recordari.doors.proxy.forms import FORMS, ApiForm, Body, answer_in, first_question, questions, read_object
from recordari.errors import ConfigurationError, Forbidden, InvalidInput, RecordariError, Unauthenticated
from recordari.hosts.rules.capture import marks_of, without
from recordari.kit.commands import read_settings
from recordari.kit.output import print_line
from recordari.sessions.rules.window import MessageRole, NewMessage

KEY_PREFIX = "rcd_"
STATE_HEADER = "Recordari-Memory"
CONTEXT_SECONDS = 2.0  # that a request waits for memory
KEEP_SECONDS = 30.0
REST_SECONDS = 3_600.0  # after which no prompt cache has a conversation any more
UPSTREAM_SECONDS = 600.0
MOST_KEPT_BYTES = 8 * 2**20  # of an answer; the rest of a longer one is passed on, and not kept
MOST_CONVERSATIONS = 5_000
MOST_CALLERS = 1_000
_OURS = ("recordari-", "authorization", "x-api-key", "host", "content-length", "accept-encoding", "connection")
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authenticate"})

_log = get_log(__name__)


@dataclass(slots=True)
class Conversation:
    """What one conversation was shown. It stays the same until the conversation gets shorter or rests, for prompt caches."""

    context: str | None
    length: int
    used_at: float = 0.0
    shown: list[str] = field(default_factory=list)
    """Marks of the sentences that were shown, which an answer may repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where requests are passed on to, and the operator's key there; None: each caller brings their own."""

    url: str
    key: SecretStr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that memory takes part in."""

    form: ApiForm
    body: Body
    memory: Client
    conversation: Conversation


class Proxy:
    """Passes requests on. `memory_url` is the address of the Recordari server."""

    def __init__(
        self,
        memory_url: str,
        *,
        openai: Upstream,
        anthropic: Upstream,
        budget: int = 2_000,
        fresh: bool = False,
        seconds: float = CONTEXT_SECONDS,
        rest: float = REST_SECONDS,
    ) -> None:
        self._openai, self._anthropic = openai, anthropic
        self._memory_url = memory_url
        self._seconds, self._rest = seconds, rest
        self._budget = budget
        self._fresh = fresh
        self._http = httpx2.AsyncClient(timeout=UPSTREAM_SECONDS, follow_redirects=False)
        self._callers: OrderedDict[str, Client] = OrderedDict()
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()
        self._keeping: set[asyncio.Task[None]] = set()

    def app(self) -> Starlette:
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        return Starlette(routes=[Route("/{path:path}", self.handle, methods=methods)], lifespan=self._running)

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.gather(*self._keeping, return_exceptions=True)
        await self._http.aclose()
        for caller in self._callers.values():
            await caller.close()

    async def handle(self, request: Request) -> Response:
        """Pass one request on, with memory where it can have some."""
        content = await request.body()
        try:
            key, upstream_key = self._keys(request)
            form = FORMS.get(request.url.path) if request.method == "POST" else None
            asked, state = await self._with_memory(request, key, form, content)
        except RecordariError as error:
            return JSONResponse({"error": {"type": error.code, "message": error.message}}, status_code=error.status)
        if asked is not None and asked.conversation.context is not None:
            content = json.dumps(asked.body).encode()
        try:
            response = await self._upstream(request, content, upstream_key)
        except httpx2.TransportError as error:
            _log.warning("model_away", error=error)
            problem = {"type": "provider_error", "message": "the model cannot be reached"}
            return JSONResponse({"error": problem}, status_code=502, headers={STATE_HEADER: state})
        headers = {name: value for name, value in response.headers.items() if name.lower() not in _HOP}
        stream = self._passed(response, asked)
        return StreamingResponse(stream, status_code=response.status_code, headers={**headers, STATE_HEADER: state})

    def _keys(self, request: Request) -> tuple[str | None, str | None]:
        """The caller's Recordari key, and the key for the model: the operator's, or one of the caller's own."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        given = request.headers.get("x-api-key") or bearer
        key = request.headers.get("recordari-key") or (given if given.startswith(KEY_PREFIX) else None)
        if given and not given.startswith(KEY_PREFIX):
            return key, given
        if key is None:
            raise Unauthenticated("send a Recordari key as the API key, or your own key and `Recordari-Key`")
        secret = self._upstream_of(request).key
        return key, secret.get_secret_value() if secret is not None else None

    async def _with_memory(
        self, request: Request, key: str | None, form: ApiForm | None, content: bytes
    ) -> tuple[Asked | None, str]:
        """The request with its context, and a word for the header; the request itself where memory has no part in it."""
        if key is None:
            return None, "off"
        try:
            async with asyncio.timeout(self._seconds):
                name, caller = await self._caller(request, key)
                body = read_object(content) if form is not None else None
                if form is None or body is None or not form.said(body):  # nothing was said: the model's side judges it
                    return None, "unused"
                return await self._shown(request, name, caller, form, body), "used"
        except (Unauthenticated, Forbidden, InvalidInput):
            raise
        except (RecordariError, TimeoutError) as error:
            if not self._may_pass(request, key):
                raise Unauthenticated(
                    "the memory is away, so that this key cannot be checked; try again later"
                ) from None
            _log.warning("memory_away", error=error)
            return None, "away"

    def _may_pass(self, request: Request, key: str) -> bool:
        """Whether a request may go on unchecked: with a key that was valid before, or with the caller's own money."""
        known = any(name.startswith(_digest(key)) for name in self._callers)
        return known or "recordari-key" in request.headers

    async def _caller(self, request: Request, key: str) -> tuple[str, Client]:
        """A name for the caller, and a client of theirs; a key is checked once."""
        user, agent = request.headers.get("recordari-user"), request.headers.get("recordari-agent")
        name = f"{_digest(key)} {user} {agent}"
        if name not in self._callers:
            client = Client(self._memory_url, key=key, user=user, agent=agent, timeout=KEEP_SECONDS)
            try:
                identity = await client.whoami()
            except BaseException:
                await client.close()
                raise
            if identity.user_id is None:
                await client.close()
                raise InvalidInput("whose memory is it? name the user in `Recordari-User`, or use a key of one user")
            self._callers[name] = client
            if len(self._callers) > MOST_CALLERS:
                await self._callers.popitem(last=False)[1].close()
        self._callers.move_to_end(name)
        return name, self._callers[name]

    async def _shown(self, request: Request, name: str, caller: Client, form: ApiForm, body: Body) -> Asked:
        session = request.headers.get("recordari-session") or f"proxy-{_digest(first_question(form, body))}"
        memory = caller.acting_as(session=session)
        conversation = await self._conversation(memory, (name, session), form, body)
        if conversation.context is not None:
            body = form.shown(body, conversation.context)
        return Asked(form=form, body=body, memory=memory, conversation=conversation)

    async def _conversation(self, memory: Client, name: tuple[str, str], form: ApiForm, body: Body) -> Conversation:
        """What this conversation is shown: what it was shown before, unless it is new, was cut, or has rested."""
        length, now = len(form.said(body)), time.monotonic()
        known = self._conversations.get(name)
        if known is None or self._fresh or length < known.length or now - known.used_at > self._rest:
            question = (questions(form, body) or [first_question(form, body)])[-1][:8_000].strip()
            context = await memory.get_context(question or None, profile="start", budget=self._budget)
            texts = [
                item.content
                for section in context.sections
                if section.name != "knowledge_map"
                for item in section.items
            ]
            known = Conversation(context.text if texts else None, length)
            known.shown = [mark for text in [*texts, context.text or ""] for mark in marks_of(text)]
            self._conversations[name] = known
            if len(self._conversations) > MOST_CONVERSATIONS:
                self._conversations.popitem(last=False)
        known.length, known.used_at = length, now
        self._conversations.move_to_end(name)
        return known

    def _upstream_of(self, request: Request) -> Upstream:
        return self._anthropic if _is_anthropic(request) else self._openai

    async def _upstream(self, request: Request, content: bytes, key: str | None) -> httpx2.Response:
        is_anthropic, base = _is_anthropic(request), self._upstream_of(request).url
        headers = {name: value for name, value in request.headers.items() if not name.lower().startswith(_OURS)}
        headers["Accept-Encoding"] = "identity"
        if key is not None:
            headers |= {"x-api-key": key} if is_anthropic else {"Authorization": f"Bearer {key}"}
        query = f"?{request.url.query}" if request.url.query else ""
        url = f"{base.rstrip('/').removesuffix('/v1')}{request.url.path}{query}"  # the path begins with it
        sent = self._http.build_request(request.method, url, content=content, headers=headers)
        return await self._http.send(sent, stream=True)

    async def _passed(self, response: httpx2.Response, asked: Asked | None) -> AsyncIterator[bytes]:
        """The bytes of the answer while they come; after the last one, what was said is kept."""
        received = bytearray()
        try:
            async for part in response.aiter_raw():
                yield part
                if asked is not None and len(received) <= MOST_KEPT_BYTES:
                    received += part
        finally:
            await response.aclose()
        if asked is not None and response.is_success and len(received) <= MOST_KEPT_BYTES:
            streams = "event-stream" in response.headers.get("content-type", "")
            task = asyncio.create_task(self._keep(asked, answer_in(asked.form, bytes(received), streams=streams)))
            self._keeping.add(task)
            task.add_done_callback(self._keeping.discard)

    async def _keep(self, asked: Asked, answer: str) -> None:
        said = [(MessageRole.USER, without(text, [])) for text in questions(asked.form, asked.body)]
        said.append((MessageRole.ASSISTANT, without(answer, asked.conversation.shown)))
        place = len(asked.form.said(asked.body))
        messages = [
            # A request that is sent again brings the same messages.
            NewMessage(content=text, role=role, message_id=_digest(f"{place} {role} {text}"))
            for role, text in said
            if text.strip()
        ]
        try:
            if messages:
                await asked.memory.add_messages(messages)
        except RecordariError as error:
            _log.warning("exchange_not_kept", error=error, code=error.code)


def _is_anthropic(request: Request) -> bool:
    return request.url.path.startswith("/v1/messages") or "anthropic-version" in request.headers


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _key_in(file: Path | None) -> SecretStr | None:
    if file is None:
        return None
    try:
        return SecretStr(file.read_text("utf-8").strip())
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from None


KeyFile = Annotated[Path | None, typer.Option(help="File with the key there; without one, callers bring their own.")]
Url = Annotated[str, typer.Option(help="Where such requests are passed on to.")]


def proxy(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8766,
    memory: Annotated[
        str | None, typer.Option(help="Address of the Recordari server; this machine's, if left out.")
    ] = None,
    openai_url: Url = "https://api.openai.com",
    openai_key_file: KeyFile = None,
    anthropic_url: Url = "https://api.anthropic.com",
    anthropic_key_file: KeyFile = None,
    budget: Annotated[int, typer.Option(min=200, help="Most tokens of memory in a conversation.")] = 2_000,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask memory at every request; prompt caches then miss.")
    ] = False,
) -> None:
    """Put memory in front of any model: an address that speaks as OpenAI and Anthropic do.

    Use it as the base URL of their SDKs, with a Recordari key as the API key.
    """
    settings = read_settings(quiet=False)
    made = Proxy(
        memory or f"http://{settings.host}:{settings.port}",
        openai=Upstream(url=openai_url, key=_key_in(openai_key_file)),
        anthropic=Upstream(url=anthropic_url, key=_key_in(anthropic_key_file)),
        budget=budget,
        fresh=fresh,
    )
    with _listening(host, port) as listener:
        print_line(f"the proxy listens on http://{host}:{listener.getsockname()[1]}/v1")
        print_line(f"  OpenAI     {openai_url}")
        print_line(f"  Anthropic  {anthropic_url}")
        config = uvicorn.Config(
            made.app(), log_config=None, log_level="warning", access_log=False, ws="none", server_header=False
        )
        uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({reason}); choose another port with --port, or stop what uses it"
        ) from None
