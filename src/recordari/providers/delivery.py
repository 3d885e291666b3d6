"""Posting to addresses that tenants name: never into a private network, never further than the address looked up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from recordari.domain.events import is_public
from recordari.errors import InvalidInput, ProviderError

_DEFAULT_PORTS = {"http": 80, "https": 443}


async def find_address(url: str, *, allow_private: bool) -> str:
    """The numeric address to connect to; `InvalidInput` when the name leads into a private or special network.

    Every address of the name must be a public one, so that it does not depend on chance which one is used.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ProviderError("the host name of the webhook cannot be looked up") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    if not addresses:
        raise ProviderError("the host name of the webhook has no address")
    if not allow_private and not all(is_public(address) for address in addresses):
        raise InvalidInput(
            "the address of a webhook must be a public one; RECORDARI_WEBHOOK_ALLOW_PRIVATE lets private ones be used",
            field="url",
        )
    return addresses[0]


async def post(url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, allow_private: bool) -> None:  # noqa: ASYNC109 - of the connection
    """Post to the address that the name has now, and to no other; `ProviderError` unless it answers with 2xx."""
    import httpx2

    address = await find_address(url, allow_private=allow_private)
    parts = urlsplit(url)
    named = parts.netloc.rpartition("@")[2]
    target = httpx2.URL(url).copy_with(host=address)
    try:
        # No proxy of the environment, no redirect: either would lead to an address that nobody checked.
        async with (
            asyncio.timeout(timeout),
            httpx2.AsyncClient(timeout=timeout, follow_redirects=False, trust_env=False) as client,
            client.stream(
                "POST",
                target,
                content=body,
                headers={**headers, "Host": named},
                extensions={"sni_hostname": parts.hostname},
            ) as response,
        ):
            status = response.status_code
    except (httpx2.HTTPError, TimeoutError, OSError) as error:
        raise ProviderError(f"the webhook cannot be reached ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise ProviderError(f"the webhook answered HTTP {status}", status=status)
