"""Who asks: credentials become identities, the same way for every door.

A credential is an API key (`rcd_…`) or, where a JWKS address is set, a JWT. The tenant comes from the
credential alone; headers may only add what the credential leaves open. Every wrong credential gets the same
answer.

A checked credential is trusted for `TRUST_SECONDS`. A key that is revoked through
this process is forgotten at once; in other processes, and when a key or token expires, it stops working
within that time.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity, Role, TenantId, checked_id, tenant_id_of
from recordari.errors import InvalidInput, NotFound, Overloaded, Unauthenticated
from recordari.kit.resources import Resources
from recordari.tenants import tenants
from recordari.tenants.jwks import TokenVerifier
from recordari.tenants.rules import KEY_PREFIX

MAX_CREDENTIAL_LENGTH = 8192
MAX_CACHED = 10_000
TRUST_SECONDS = 5.0
MAX_LOOKUPS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """An identity that was checked, and until when that holds."""

    identity: Identity
    until: float


class Authenticator:
    """Turns credentials into identities; one per process, shared by its doors."""

    def __init__(self, resources: Resources, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        settings = resources.settings
        self._resources = resources
        self._monotonic = monotonic
        self._trusted: dict[bytes, Trusted] = {}
        self._lookups: dict[bytes, asyncio.Task[Identity]] = {}
        self._forgotten = 0
        self._tokens = TokenVerifier(settings) if settings.jwt_jwks_url else None

    async def authenticate(self, credential: str | None) -> Identity:
        """The identity that a credential opens; `Unauthenticated`, always alike, when it opens none."""
        if not credential or len(credential) > MAX_CREDENTIAL_LENGTH:
            raise Unauthenticated
        # The hash is the cache's key, so that the text of a credential stays nowhere in memory.
        digest = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        trusted = self._trusted.get(digest)
        if trusted is not None and self._monotonic() < trusted.until:
            return trusted.identity
        return await asyncio.shield(self._lookup(digest, credential))

    def forget_key(self, key_id: UUID) -> None:
        """Stop trusting a key now, without waiting for the cache."""
        self._forgotten += 1
        actor = f"key:{key_id}"
        for digest, trusted in list(self._trusted.items()):
            if trusted.identity.actor == actor:
                del self._trusted[digest]

    async def close(self) -> None:
        """Wait for look-ups under way, and close the connection to the token issuer."""
        await asyncio.gather(*self._lookups.values(), return_exceptions=True)
        if self._tokens is not None:
            await self._tokens.close()

    def _lookup(self, digest: bytes, credential: str) -> asyncio.Task[Identity]:
        """One look-up per credential at a time, and few in all: strangers must not use up the database."""
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
            task.exception()  # taken here, so that asyncio does not report it when every caller has gone

    async def _check(self, digest: bytes, credential: str) -> Identity:
        started, forgotten = self._monotonic(), self._forgotten
        try:
            if self._tokens is None or credential.startswith(f"{KEY_PREFIX}_"):
                identity = await tenants.authenticate_key(self._resources, credential)
            else:
                identity = await self._identity_of(await self._tokens.verify(credential))
        except Unauthenticated:
            # Without the reason: every wrong credential gets the same answer.
            raise Unauthenticated from None
        if forgotten == self._forgotten:  # else this key may have been revoked while we looked
            self._trust(digest, identity, started + TRUST_SECONDS)
        return identity

    def _trust(self, digest: bytes, identity: Identity, until: float) -> None:
        if len(self._trusted) >= MAX_CACHED:
            now = self._monotonic()
            self._trusted = {key: kept for key, kept in self._trusted.items() if now < kept.until}
            if len(self._trusted) >= MAX_CACHED:
                self._trusted.clear()
        self._trusted[digest] = Trusted(identity=identity, until=until)

    async def _identity_of(self, claims: Mapping[str, Any]) -> Identity:
        names = self._resources.settings.jwt_claims
        try:
            tenant_id = _tenant_id(claims.get(names.tenant))
            user_id = _text(claims.get(names.user)) if names.user else None
            identity = Identity(
                tenant_id=tenant_id,
                role=_role(claims.get(names.role)),
                actor=f"jwt:{_subject(claims)}",
            ).narrowed(user_id=user_id)
            await tenants.get_tenant(self._resources, identity)
        except (InvalidInput, NotFound):
            raise Unauthenticated from None
        return identity


def _tenant_id(claim: object) -> TenantId:
    name = _text(claim)
    try:
        return TenantId(UUID(name))
    except ValueError:
        return tenant_id_of(name)


def _role(claim: object) -> Role:
    roles = claim if isinstance(claim, list) else [claim]
    return Role.ADMIN if Role.ADMIN.value in roles else Role.AGENT


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims.get("sub")
    return checked_id("sub", subject) if isinstance(subject, str) else "unnamed"


def _text(claim: object) -> str:
    if not isinstance(claim, str):
        raise InvalidInput("the token lacks a claim")
    return claim
