"""Checking JWTs against the key set (JWKS) that their issuer publishes.

Only RS256, ES256 and EdDSA are accepted, and each key only with the algorithm of its own type, so that
neither `none` nor a public key used as an HMAC secret can pass. The set is fetched when first needed, again
every five minutes, and on an unknown key id at most every ten seconds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jwt

from recordari.config import Settings
from recordari.core.checks import is_loopback
from recordari.core.telemetry import get_log
from recordari.errors import ConfigurationError, ProviderError, Unauthenticated

LEEWAY_SECONDS = 30
REFRESH_SECONDS = 300.0
UNKNOWN_KEY_SECONDS = 10.0
STALE_SECONDS = 3600.0
MAX_KEY_SET_BYTES = 1 << 20
ALGORITHMS = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}

_log = get_log(__name__)


class TokenVerifier:
    """Verifies tokens of the configured issuer."""

    def __init__(self, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        assert settings.jwt_jwks_url is not None
        self._url = checked_url(settings.jwt_jwks_url)
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._monotonic = monotonic
        if not (self._issuer and self._audience):
            # An issuer that serves others too signs tokens that were never meant for us.
            _log.warning("jwt_checks_incomplete", issuer=bool(self._issuer), audience=bool(self._audience))
        self._client = httpx2.AsyncClient(timeout=3.0, follow_redirects=False)
        self._lock = asyncio.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = -STALE_SECONDS
        self._tried_at = -STALE_SECONDS

    async def close(self) -> None:
        """Close the connection to the issuer."""
        await self._client.aclose()

    async def verify(self, token: str) -> dict[str, Any]:
        """The claims of a valid token; `Unauthenticated` for any other."""
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(header.get("kid"))
            if header.get("alg") != key.algorithm_name:
                raise Unauthenticated
            # Cryptography is fast enough (0.1 ms) to stay on the event loop.
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_SECONDS,
                options={
                    "require": [
                        "exp",
                        *(["iss"] if self._issuer else []),
                        *(["aud"] if self._audience else []),
                    ],
                    "verify_aud": self._audience is not None,
                    "verify_iss": self._issuer is not None,
                },
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise Unauthenticated from error
        return claims

    async def _key(self, kid: str | None) -> jwt.PyJWK:
        async with self._lock:
            now = self._monotonic()
            age, since_try = now - self._fetched_at, now - self._tried_at
            unknown = self._find(kid) is None
            if since_try >= UNKNOWN_KEY_SECONDS and (unknown or age >= REFRESH_SECONDS):
                await self._refresh()
        if self._monotonic() - self._fetched_at >= STALE_SECONDS:
            raise ProviderError(
                "the key set of the token issuer cannot be fetched; check RECORDARI_JWT_JWKS_URL",
                service="the token issuer",
            )
        key = self._find(kid)
        if key is None:
            raise Unauthenticated
        return key

    def _find(self, kid: str | None) -> jwt.PyJWK | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _refresh(self) -> None:
        self._tried_at = self._monotonic()
        try:
            self._keys = _usable_keys(await self._fetch())
        except (httpx2.HTTPError, ValueError) as error:
            # Good keys stay good for an hour: a short absence of the issuer must not lock everyone out.
            _log.warning("jwks_fetch_failed", error=error)
            return
        self._fetched_at = self._tried_at

    async def _fetch(self) -> Any:
        body = bytearray()
        async with self._client.stream("GET", self._url) as answer:
            answer.raise_for_status()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MAX_KEY_SET_BYTES:
                    raise ValueError("the key set is too large")
        return json.loads(bytes(body))


def checked_url(url: str) -> str:
    """Return the address of a key set if nobody on the way could change what it says."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return url
    raise ConfigurationError("RECORDARI_JWT_JWKS_URL must be an https address (http only on this machine)")


def _usable_keys(document: Any) -> dict[str | None, jwt.PyJWK]:
    """The signing keys of a set whose type we accept; others are passed over."""
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("not a key set")  # noqa: TRY004  # a wrong document, not a wrong call
    found: dict[str | None, jwt.PyJWK] = {}
    for entry in document["keys"]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        algorithm = ALGORITHMS.get((entry.get("kty"), entry.get("crv")))  # type: ignore[arg-type]
        if algorithm is None or entry.get("alg", algorithm) != algorithm:
            continue
        try:
            found[entry.get("kid")] = jwt.PyJWK(entry, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            _log.warning("jwks_key_unreadable", error=error)
    return found
