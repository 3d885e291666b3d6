"""Authentication: credentials become identities, in the same way for every door.

A credential is an API key (`rcd_…`) or, if a JWKS address is set, a JWT; a browser that signed in with one of them has a
token (`rcs_…`) in a cookie instead. The tenant comes from the credential alone;
headers may only narrow it. Every wrong credential gets the same answer.

A checked credential is trusted for `TRUST_SECONDS`. A key that is revoked through this process stops at once; in other
processes, and when a key or token expires, it stops within that time.

JWTs are checked against the key set (JWKS) of their issuer. Only RS256, ES256 and EdDSA are accepted, and each key only
with the algorithm of its own type, so that neither `none` nor a public key used as an HMAC secret passes. The set is
fetched on first use, again every five minutes, and on an unknown key id at most every ten seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import jwt

from recordari.config import Settings
from recordari.core.cache import BoundedMap
from recordari.core.checks import is_loopback
from recordari.core.identity import Identity, Role, TenantId, checked_id, tenant_id_of
from recordari.core.telemetry import get_log
from recordari.errors import ConfigurationError, InvalidInput, NotFound, Overloaded, ProviderError, Unauthenticated
from recordari.kit.resources import Resources
from recordari.tenants import sign_ins, tenants
from recordari.tenants.rules import KEY_PREFIX, SIGN_IN_PREFIX
from recordari.tenants.sign_ins import SignedIn

MAX_CREDENTIAL_LENGTH = 8192
MAX_CACHED = 10_000
TRUST_SECONDS = 5.0
MAX_LOOKUPS = 256

LEEWAY_SECONDS = 30
REFRESH_SECONDS = 300.0
UNKNOWN_KEY_SECONDS = 10.0
STALE_SECONDS = 3600.0
MAX_KEY_SET_BYTES = 1 << 20
ALGORITHMS = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}

_log = get_log(__name__)


class Authenticator:
    """Turns credentials into identities; one per process, shared by its doors."""

    def __init__(self, resources: Resources, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        settings = resources.settings
        self._resources = resources
        self._monotonic = monotonic
        self._trusted: BoundedMap[bytes, Identity] = BoundedMap(MAX_CACHED, clock=monotonic)
        self._lookups: dict[bytes, asyncio.Task[Identity]] = {}
        # Strangers with made-up keys get no more of the database than this.
        self._connections = asyncio.Semaphore(max(1, settings.pool_max_size // 4))
        self._forgotten = 0
        self._tokens = TokenVerifier(settings) if settings.jwt_jwks_url else None

    async def authenticate(self, credential: str | None) -> Identity:
        """Return the identity of a credential; `Unauthenticated`, without a reason, if it is not valid."""
        if not credential or credential.startswith(f"{SIGN_IN_PREFIX}_"):
            raise Unauthenticated
        return await self._trust(credential)

    async def authenticate_browser(self, token: str) -> Identity:
        """Return the identity of the token in a browser's cookie, which counts nowhere else."""
        if not token.startswith(f"{SIGN_IN_PREFIX}_"):
            raise Unauthenticated
        return await self._trust(token)

    async def sign_in(self, credential: str) -> SignedIn:
        """Exchange a key or a JWT for a token; that of a JWT ends with it."""
        identity = await self.authenticate(credential)
        until = None
        if not credential.startswith(f"{KEY_PREFIX}_"):
            claims = jwt.decode(credential, options={"verify_signature": False})  # it was verified just now
            until = datetime.fromtimestamp(claims["exp"], UTC)
        return await sign_ins.sign_in(self._resources, identity, until=until)

    async def sign_out(self, token: str) -> None:
        """End a sign-in: at once in this process, within five seconds in others."""
        await sign_ins.sign_out(self._resources, token)
        self._forgotten += 1
        self._trusted.pop(_digest(token))

    async def _trust(self, credential: str) -> Identity:
        if len(credential) > MAX_CREDENTIAL_LENGTH:
            raise Unauthenticated
        digest = _digest(credential)
        if (identity := self._trusted.get(digest)) is not None:
            return identity
        return await asyncio.shield(self._lookup(digest, credential))

    def known(self, credential: str | None) -> Identity | None:
        """Return the identity of a credential that was checked a moment ago, without checking anything."""
        if not credential or len(credential) > MAX_CREDENTIAL_LENGTH:
            return None
        return self._trusted.get(_digest(credential))

    def checking(self, credential: str | None) -> asyncio.Task[Identity] | None:
        """Return the check of a credential that is under way, if any."""
        return self._lookups.get(_digest(credential)) if credential and self._lookups else None

    def forget_key(self, key_id: UUID) -> None:
        self._forgotten += 1
        self._trusted.drop(lambda _, identity: identity.actor == f"key:{key_id}")

    async def close(self) -> None:
        """Wait for running look-ups, and close the connection to the token issuer."""
        await asyncio.gather(*self._lookups.values(), return_exceptions=True)
        if self._tokens is not None:
            await self._tokens.close()

    def _lookup(self, digest: bytes, credential: str) -> asyncio.Task[Identity]:
        """Start one look-up per credential at a time, and few in all: strangers must not exhaust the database."""
        task = self._lookups.get(digest)
        if task is None:
            if len(self._lookups) >= MAX_LOOKUPS:
                raise Overloaded
            task = asyncio.create_task(self._check(digest, credential))
            self._lookups[digest] = task
            task.add_done_callback(lambda done: self._looked_up(digest, done))
        return task

    def _looked_up(self, digest: bytes, task: asyncio.Task[Identity]) -> None:
        self._lookups.pop(digest, None)
        if not task.cancelled():
            task.exception()  # read here, so that asyncio does not report it after every caller has gone

    async def _check(self, digest: bytes, credential: str) -> Identity:
        started, forgotten = self._monotonic(), self._forgotten
        try:
            if credential.startswith(f"{SIGN_IN_PREFIX}_"):
                async with self._connections:
                    identity = await sign_ins.authenticate_sign_in(self._resources, credential)
            elif self._tokens is None or credential.startswith(f"{KEY_PREFIX}_"):
                async with self._connections:
                    identity = await tenants.authenticate_key(self._resources, credential)
            else:
                identity = await self._identity_of(await self._tokens.verify(credential))
        except Unauthenticated:
            raise Unauthenticated from None  # without the reason
        if forgotten == self._forgotten:  # else this key may have been revoked meanwhile
            self._trusted.put(digest, identity, seconds=started + TRUST_SECONDS - self._monotonic())
        return identity

    async def _identity_of(self, claims: Mapping[str, Any]) -> Identity:
        names = self._resources.settings.jwt_claims
        roles = claims.get(names.role)
        is_admin = Role.ADMIN.value in (roles if isinstance(roles, list) else [roles])
        subject = claims.get("sub")
        try:
            actor = f"jwt:{checked_id('sub', subject) if isinstance(subject, str) else 'unnamed'}"
            tenant_id = _tenant_id(claims.get(names.tenant))
            identity = Identity(tenant_id=tenant_id, role=Role.ADMIN if is_admin else Role.AGENT, actor=actor)
            identity = identity.narrowed(user_id=_text(claims.get(names.user)) if names.user else None)
            await tenants.get_tenant(self._resources, identity)
        except (InvalidInput, NotFound):
            raise Unauthenticated from None
        return identity


def _digest(credential: str) -> bytes:
    """What the cache holds instead of the credential, so that none stays in memory."""
    return hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()


def _tenant_id(claim: object) -> TenantId:
    name = _text(claim)
    try:
        return TenantId(UUID(name))
    except ValueError:
        return tenant_id_of(name)


def _text(claim: object) -> str:
    if not isinstance(claim, str):
        raise InvalidInput("the token lacks a claim")
    return claim


class TokenVerifier:
    def __init__(self, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        assert settings.jwt_jwks_url is not None
        self._url = checked_url(settings.jwt_jwks_url)
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._monotonic = monotonic
        if not (self._issuer and self._audience):
            # An issuer may also sign tokens that are meant for others.
            _log.warning("jwt_checks_incomplete", issuer=bool(self._issuer), audience=bool(self._audience))
        self._client = httpx2.AsyncClient(timeout=3.0, follow_redirects=False)
        self._lock = asyncio.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = -STALE_SECONDS
        self._tried_at = -STALE_SECONDS

    async def close(self) -> None:
        await self._client.aclose()

    async def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token; `Unauthenticated` for any other."""
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
                    "require": ["exp", *(["iss"] if self._issuer else []), *(["aud"] if self._audience else [])],
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
            is_due = self._find(kid) is None or now - self._fetched_at >= REFRESH_SECONDS
            if is_due and now - self._tried_at >= UNKNOWN_KEY_SECONDS:
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
            # Keys stay valid for an hour: a short outage of the issuer must not lock everyone out.
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
    """Return the address of a key set if it cannot be changed on the way."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return url
    raise ConfigurationError("RECORDARI_JWT_JWKS_URL must be an https address (http only on this machine)")


def _usable_keys(document: Any) -> dict[str | None, jwt.PyJWK]:
    """Return the signing keys of the types that we accept; others are skipped."""
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("not a key set")  # noqa: TRY004  # a wrong document, not a wrong call
    keys: dict[str | None, jwt.PyJWK] = {}
    for entry in document["keys"]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        algorithm = ALGORITHMS.get((entry.get("kty"), entry.get("crv")))  # type: ignore[arg-type]
        if algorithm is None or entry.get("alg", algorithm) != algorithm:
            continue
        try:
            keys[entry.get("kid")] = jwt.PyJWK(entry, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            _log.warning("jwks_key_unreadable", error=error)
    return keys
