"""Sends the client's requests: bodies and streams, retries where they are safe, and exceptions from problems."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import httpx2

from recordari import errors
from recordari.client.routes import Wire
from recordari.core.cache import each
from recordari.core.checks import json_text
from recordari.errors import InvalidInput, Overloaded, ProviderError, QuotaExceeded, RecordariError, TimedOut
from recordari.knowledge.ingest import file_of
from recordari.transfer.import_export import Lines

DEFAULT_TIMEOUT = 40.0  # seconds; the server itself stops a request after 30
LONGEST_WAIT = 30.0
FIRST_WAIT = 0.2
SERVER = "the Recordari server"
BROKEN = "the connection to the server broke"

_BY_CODE: dict[str, type[RecordariError]] = {
    kind.code: kind for name in errors.__all__ if issubclass(kind := getattr(errors, name), RecordariError)
}
_BY_STATUS: dict[int, type[RecordariError]] = {
    kind.status: kind for kind in (errors.Unauthenticated, errors.Forbidden, errors.NotFound, errors.TooLarge, TimedOut)
}
# The server refused these before it did anything.
_NOTHING_DONE = frozenset({errors.RateLimited.code, errors.Overloaded.code})
_PASSING = frozenset({502, 503, 504})


class Transport:
    """One pool of connections to one server under one credential."""

    def __init__(
        self, url: str, *, key: str, timeout: float, retries: int, transport: httpx2.AsyncBaseTransport | None
    ) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {key}"},
            timeout=timeout,
            transport=transport,
            follow_redirects=False,
        )
        self._retries = retries

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self, method: str, wire: Wire, *, who: Mapping[str, str], repeatable: bool, stream: bool = False
    ) -> httpx2.Response:
        """The response, or the exception of the server's problem. The body of a stream is not read yet."""
        # Header values are sent as UTF-8, because ids may be in any script.
        acting = {f"Recordari-{noun.title()}": name.encode() for noun, name in who.items()}
        headers: dict[str, Any] = {**wire.headers, **acting}
        retries = self._retries if wire.lines is None else 0
        for attempt in range(retries + 1):
            last = attempt == retries
            try:
                response = await self._http.send(self._request(method, wire, headers), stream=stream)
                if stream and not response.is_success:
                    await response.aread()
            except httpx2.ConnectError as error:  # nothing was sent
                if last:
                    raise ProviderError(
                        "the Recordari server cannot be reached; is it running there?", service=SERVER
                    ) from error
            except httpx2.TransportError as error:
                if last or not repeatable:
                    raise _broken(error) from error
            else:
                if response.is_success:
                    return response
                problem = problem_of(response)
                if last or not (problem.code in _NOTHING_DONE or (repeatable and response.status_code in _PASSING)):
                    raise problem
                if (wait := _retry_after(response)) is not None:
                    if wait > LONGEST_WAIT:
                        raise problem
                    await asyncio.sleep(wait)
                    continue
            await asyncio.sleep(FIRST_WAIT * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
        raise AssertionError("the last attempt returns or raises")

    async def lines(self, wire: Wire, *, who: Mapping[str, str]) -> AsyncGenerator[str, None]:
        """The lines of an answer while they arrive; only a line feed ends one, since texts hold other separators."""
        response = await self.send("GET", wire, who=who, repeatable=True, stream=True)
        rest = bytearray()
        try:
            async for part in response.aiter_bytes():
                rest += part
                if b"\n" in part:
                    *whole, rest = rest.split(b"\n")
                    for line in whole:
                        yield line.decode()
            if rest:
                yield rest.decode()
        except httpx2.TransportError as error:
            raise _broken(error) from error
        finally:
            await response.aclose()

    def _request(self, method: str, wire: Wire, headers: dict[str, Any]) -> httpx2.Request:
        return self._http.build_request(
            method,
            wire.path,
            params=wire.query or None,
            json=wire.body,
            content=wire.lines,
            data=wire.form,
            files=wire.files,
            headers=headers,
        )


def _broken(error: httpx2.TransportError) -> RecordariError:
    return TimedOut() if isinstance(error, httpx2.TimeoutException) else ProviderError(BROKEN, service=SERVER)


def problem_of(response: httpx2.Response) -> RecordariError:
    """The exception for an error response."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "code" not in body:  # a proxy answered, not the server
        kind = _BY_STATUS.get(response.status_code, ProviderError)
        return _error(kind, f"the server answered {response.status_code}")
    kind = _BY_CODE.get(str(body["code"]), RecordariError)
    faults: list[dict[str, str]] = body.get("errors") or []
    message = str(body.get("detail", ""))
    if faults and message == (kind.__doc__ or "").strip():  # the faults of the fields are more specific
        message = "; ".join(f"{fault['field'].removeprefix('body.')}: {fault['message']}" for fault in faults)
    details: dict[str, Any] = {"request_id": body.get("instance")}
    if faults:
        details["field"] = faults[0]["field"].removeprefix("body.")
    if issubclass(kind, Overloaded):
        return kind(message, retry_after=_retry_after(response) or 1.0, **details)
    if issubclass(kind, QuotaExceeded):
        return kind(message, retry_after=_retry_after(response), **details)
    return _error(kind, message, **details)


def _error(kind: type[RecordariError], message: str, **details: Any) -> RecordariError:
    return ProviderError(message, service=SERVER, **details) if kind is ProviderError else kind(message, **details)


def _retry_after(response: httpx2.Response) -> float | None:
    seconds = response.headers.get("retry-after", "")
    return float(seconds) if seconds.isdigit() else None


SENT_AT_ONCE = 64 * 1024  # bytes of lines that go out together
_ANY_FILE = "application/octet-stream"  # no type: the server looks at the name and the file


def document_wire(
    path: str,
    name: str,
    data: bytes | None,
    *,
    text: str | None,
    media_type: str | None = None,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Wire:
    """The upload of a document: a form, because only a form holds metadata besides the file."""
    body, media_type = file_of(name, data, text, media_type)
    for field, value in (("name", name), ("source", source)):
        if value == "":  # a form cannot tell an empty field from none
            raise InvalidInput(f"{field} must not be empty", field=field)
    form = {"name": name, "metadata": json_text(metadata or {}, field="metadata")}
    if source is not None:
        form["source"] = str(source)
    return Wire(path=path, form=form, files={"file": ("file", body, media_type or _ANY_FILE)})


async def written_lines(lines: Lines) -> AsyncIterator[bytes]:
    """Join lines into pieces of some kilobytes to send."""
    waiting = bytearray()
    async for line in each(lines):
        # A line break within JSON is only white space, but here it would end the line.
        waiting += line.strip().replace("\n", " ").encode(errors="surrogatepass") + b"\n"
        if len(waiting) >= SENT_AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)
