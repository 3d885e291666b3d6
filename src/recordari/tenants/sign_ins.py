"""Who is signed in to the dashboard: a key, a JWT or a one-time code becomes a token that only the browser holds.

The token is like a key: its tenant and id are in clear, and the database has the hash of its secret. It ends after
`SIGNED_IN`, with the key or JWT that it was opened with, and when its holder signs out.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from recordari.core.identity import Identity, Role, TenantId
from recordari.core.ids import new_id
from recordari.db import audit
from recordari.db.pipeline import TENANT_ROLE
from recordari.errors import Unauthenticated
from recordari.kit.resources import Resources
from recordari.tenants import storage
from recordari.tenants.rules import (
    CODE_PREFIX,
    SECRET_BYTES,
    SIGN_IN_PREFIX,
    SignIn,
    key_hash,
    read_key,
    written_key,
)
from recordari.tenants.tenants import identity_of_key, require_admin

SIGNED_IN = timedelta(hours=12)
CODE_LASTS = timedelta(hours=1)
CODE_ACTOR = "link"
"""The actor of those who came with a one-time code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    token: str = field(repr=False)
    identity: Identity
    expires_at: datetime


async def sign_in(resources: Resources, identity: Identity, *, until: datetime | None = None) -> SignedIn:
    """Sign in whoever has this identity, until `until` at most."""
    expires_at = resources.clock() + SIGNED_IN
    expires_at = min(expires_at, until) if until is not None else expires_at
    kind, _, key_id = identity.actor.partition(":")
    entry = SignIn(
        sign_in_id=new_id(),
        secret_hash=b"",
        is_code=False,
        actor=identity.actor,
        role=identity.role,
        user_id=identity.user_id,
        key_id=UUID(key_id) if kind == "key" else None,
        expires_at=expires_at,
    )
    token = await _insert(resources, identity, entry, SIGN_IN_PREFIX)
    return SignedIn(token=token, identity=identity, expires_at=expires_at)


async def make_code(resources: Resources, identity: Identity) -> str:
    """Return a code that signs in once, as this administrator or as the user that they act for."""
    require_admin(identity)
    entry = SignIn(
        sign_in_id=new_id(),
        secret_hash=b"",
        is_code=True,
        actor=CODE_ACTOR,
        role=Role.AGENT if identity.user_id is not None else Role.ADMIN,
        user_id=identity.user_id,
        key_id=None,
        expires_at=resources.clock() + CODE_LASTS,
    )
    return await _insert(resources, identity, entry, CODE_PREFIX)


async def _insert(resources: Resources, identity: Identity, entry: SignIn, prefix: str) -> str:
    secret = secrets.token_bytes(SECRET_BYTES)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        await storage.delete_old_sign_ins(tx, now=resources.clock())
        await storage.insert_sign_in(tx, replace(entry, secret_hash=key_hash(secret)))
        if not entry.is_code:
            await audit.record(tx, "sign_in.open", "sign_in", entry.sign_in_id, role=entry.role)
    return written_key(identity.tenant_id, entry.sign_in_id, secret, prefix=prefix)


async def redeem_code(resources: Resources, code: str) -> SignedIn:
    """Sign in with a code, which works once."""
    tenant_id, entry = await _find(resources, code, CODE_PREFIX)
    async with resources.database.transaction(_finding(tenant_id)) as tx:
        if not await storage.delete_sign_in(tx, entry.sign_in_id):
            raise Unauthenticated
    return await sign_in(resources, _identity_of(tenant_id, entry))


async def authenticate_sign_in(resources: Resources, token: str) -> Identity:
    """Return the identity behind a token; the error is the same for every wrong one."""
    tenant_id, entry = await _find(resources, token, SIGN_IN_PREFIX)
    if entry.key_id is not None:
        return await identity_of_key(resources, tenant_id, entry.key_id)
    return _identity_of(tenant_id, entry)


async def sign_out(resources: Resources, token: str) -> None:
    """End a sign-in; one that has ended already is no error."""
    parts = read_key(token, prefix=SIGN_IN_PREFIX)
    if parts is None:
        return
    tenant_id, sign_in_id, secret = parts
    async with resources.database.transaction(_finding(tenant_id)) as tx:
        entry = await storage.find_sign_in(tx, sign_in_id)
        if entry is not None and hmac.compare_digest(entry.secret_hash, key_hash(secret)):
            await storage.delete_sign_in(tx, sign_in_id)


async def _find(resources: Resources, text: str, prefix: str) -> tuple[TenantId, SignIn]:
    parts = read_key(text, prefix=prefix)
    if parts is None:
        raise Unauthenticated
    tenant_id, sign_in_id, secret = parts
    async with resources.database.transaction(_finding(tenant_id)) as tx:
        entry = await storage.find_sign_in(tx, sign_in_id)
    is_right = entry is not None and hmac.compare_digest(entry.secret_hash, key_hash(secret))
    if entry is None or not is_right or entry.is_code != (prefix == CODE_PREFIX):
        raise Unauthenticated
    if entry.expires_at <= resources.clock():
        raise Unauthenticated
    return tenant_id, entry


def _finding(tenant_id: TenantId) -> Identity:
    """Whose sign-in it is, is known only when it was found."""
    return Identity(tenant_id=tenant_id, role=Role.ADMIN, actor="authentication")


def _identity_of(tenant_id: TenantId, entry: SignIn) -> Identity:
    return Identity(tenant_id=tenant_id, role=Role(entry.role), user_id=entry.user_id, actor=entry.actor)
