"""Requests of the client: bodies and streams, retries where they do no harm, and problems turned back into our exceptions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from typing import Any

import httpx2

from recordari import errors
from recordari.client.routes import Wire
from recordari.core.cache import each
from recordari.core.checks import json_text
from recordari.errors import InvalidInput, Overloaded, ProviderError, RecordariError, TimedOut
from recordari.knowledge.ingest import NewDocument
from recordari.transfer.import_export import Lines

DEFAULT_TIMEOUT = 40.0  # the server stops a request after 30 s by itself, and says so
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
# The server turned these away at its door: nothing was done, whatever the request was.
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
        """Close the connections."""
        await self._http.aclose()

    async def send(
        self, method: str, wire: Wire, *, who: Mapping[str, str], repeatable: bool, stream: bool = False
    ) -> httpx2.Response:
        """The answer, or the exception that the server's problem stands for; of a stream only its beginning is read."""
        # Header values are UTF-8 on our side of the wire: ids may be in any script.
        acting = {f"Recordari-{noun.title()}": name.encode() for noun, name in who.items()}
        headers: dict[str, Any] = {**wire.headers, **acting}
        retries = self._retries if wire.lines is None else 0
        for attempt in range(retries + 1):
            last = attempt == retries
            try:
                response = await self._http.send(self._request(method, wire, headers), stream=stream)
                if stream and not response.is_success:
                    await response.aread()
            except httpx2.ConnectError as error:  # it never went out
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

    async def stream(self, method: str, wire: Wire, *, who: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The body of an answer while it arrives; one that breaks off is no end."""
        response = await self.send(method, wire, who=who, repeatable=True, stream=True)
        try:
            async for part in response.aiter_bytes():
                yield part
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
    """The exception that an answer stands for."""
    try:
        said = response.json()
    except ValueError:
        said = None
    if not isinstance(said, dict) or "code" not in said:  # something between us and the server spoke
        return _raised(
            _BY_STATUS.get(response.status_code, ProviderError), f"the server answered {response.status_code}"
        )
    kind = _BY_CODE.get(str(said["code"]), RecordariError)
    faults: list[dict[str, str]] = said.get("errors") or []
    message = str(said.get("detail", ""))
    if faults and message == (kind.__doc__ or "").strip():  # the fields say more
        message = "; ".join(f"{fault['field'].removeprefix('body.')}: {fault['message']}" for fault in faults)
    details: dict[str, Any] = {"request_id": said.get("instance")}
    if faults:
        details["field"] = faults[0]["field"].removeprefix("body.")
    if issubclass(kind, Overloaded):
        return kind(message, retry_after=_retry_after(response) or 1.0, **details)
    return _raised(kind, message, **details)


def _raised(kind: type[RecordariError], message: str, **details: Any) -> RecordariError:
    return ProviderError(message, service=SERVER, **details) if kind is ProviderError else kind(message, **details)


def _retry_after(response: httpx2.Response) -> float | None:
    given = response.headers.get("retry-after", "")
    return float(given) if given.isdigit() else None


SENT_AT_ONCE = 64 * 1024  # bytes of lines that go out together
STREAM = "text/event-stream"
_ANY_FILE = "application/octet-stream"  # it says nothing: the server looks at the name and at the file


def document_wire(path: str, new: NewDocument) -> Wire:
    """The upload of a document: a form, because only that carries metadata beside the file."""
    if (new.data is None) == (new.text is None):
        raise InvalidInput("give the document's file as data, or its words as text")
    for field, given in (("name", new.name), ("source", new.source)):
        if given == "":  # a form cannot tell an empty field from none
            raise InvalidInput(f"{field} must not be empty", field=field)
    body = new.data if new.data is not None else str(new.text).encode(errors="surrogatepass")
    is_plain = new.text is not None and "." not in new.name
    media_type = new.media_type or ("text/plain" if is_plain else _ANY_FILE)
    form = {"name": new.name, "metadata": json_text(new.metadata, field="metadata")}
    if new.source is not None:
        form["source"] = str(new.source)
    return Wire(path=path, form=form, files={"file": ("file", body, media_type)})


async def written_lines(lines: Lines) -> AsyncIterator[bytes]:
    """Lines as they are sent, some kilobytes at a time."""
    waiting = bytearray()
    async for line in each(lines):
        # A line break within JSON is only white space, and on the wire it would end the line.
        waiting += line.strip().replace("\n", " ").encode(errors="surrogatepass") + b"\n"
        if len(waiting) >= SENT_AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


async def read_lines(parts: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """Lines that arrive in pieces; only a line feed ends one, since texts hold other separators."""
    rest = bytearray()
    async for part in parts:
        rest += part
        if b"\n" not in part:
            continue
        *whole, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in whole:
            yield line.decode()
    if rest:
        yield rest.decode()


def told(line: str) -> str | None:
    """What a line of an event stream carries: the JSON of an event, nothing new (an empty text), or None for neither."""
    if line.startswith("data:"):
        return line.removeprefix("data:").strip()
    return "" if line.startswith(":") else None


def place_of(field: Any) -> int | None:
    """The number of the line that a problem names as its field."""
    number = str(field).removeprefix("line ")
    return int(number) if str(field).startswith("line ") and number.isdigit() else None
