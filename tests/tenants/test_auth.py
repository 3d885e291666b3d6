"""Credentials against the real database and a real JWKS server on this machine."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from recordari.app import Memory
from recordari.core.identity import Role, narrowed, tenant_id_of
from recordari.errors import ConfigurationError, Forbidden, ProviderError, Unauthenticated
from recordari.kit.resources import Resources
from recordari.kit.rest import bearer
from recordari.tenants import tenants
from recordari.tenants.auth import TRUST_SECONDS, UNKNOWN_KEY_SECONDS, Authenticator, TokenVerifier, checked_url
from recordari.tenants.rules import read_key, written_key

ISSUER, AUDIENCE = "https://issuer.example", "recordari"


@dataclass
class FakeTime:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@cache
def private_key(algorithm: str) -> Any:
    match algorithm:
        case "RS256":
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def jwk(algorithm: str, kid: str) -> dict[str, Any]:
    public = private_key(algorithm).public_key()
    written = jwt.get_algorithm_by_name(algorithm).to_jwk(public, as_dict=True)
    return {**written, "kid": kid, "use": "sig"}


@dataclass
class Issuer:
    """Publishes a key set, and counts how often it is asked for it."""

    keys: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    port: int = 0
    is_away: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/jwks"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        if self.is_away:
            writer.close()
            return
        body = json.dumps({"keys": self.keys}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer(keys=[jwk(name, name.lower()) for name in ("RS256", "ES256", "EdDSA")])
    server = await asyncio.start_server(issuer.answer, "127.0.0.1", 0)
    issuer.port = server.sockets[0].getsockname()[1]
    async with server:
        yield issuer


def claims(**changes: Any) -> dict[str, Any]:
    whole = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "jane",
        "tenant": "test",
        "exp": time.time() + 300,
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def token(algorithm: str = "RS256", *, kid: str | None = None, **changes: Any) -> str:
    headers = {"kid": kid or algorithm.lower()}
    return jwt.encode(claims(**changes), private_key(algorithm), algorithm=algorithm, headers=headers)


def by_hand(header: dict[str, Any], secret: bytes | None) -> str:
    """A token that a library would refuse to make."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")

    signed = f"{part(json.dumps(header).encode())}.{part(json.dumps(claims()).encode())}"
    mac = hmac.digest(secret, signed.encode(), hashlib.sha256) if secret is not None else b""
    return f"{signed}.{part(mac)}"


@asynccontextmanager
async def authenticator_of(
    resources: Resources, issuer: Issuer | None = None, **changes: Any
) -> AsyncIterator[Authenticator]:
    if issuer is not None:
        changes = {"jwt_jwks_url": issuer.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, **changes}
    settings = resources.settings.model_copy(update=changes)
    opened = Authenticator(replace(resources, settings=settings))
    try:
        yield opened
    finally:
        await opened.close()


async def test_a_key_opens_its_tenant_with_what_it_is_bound_to(memory: Memory) -> None:
    made = await memory.create_key("bot", user_id="jane", agent_id="support")
    async with authenticator_of(memory.resources) as door:
        identity = await door.authenticate(made.key)
    assert identity.tenant_id == memory.identity.tenant_id
    assert (identity.user_id, identity.agent_id, identity.role) == ("jane", "support", Role.AGENT)
    assert identity.actor == f"key:{made.key_id}"


async def test_every_wrong_key_is_refused_with_the_same_words(memory: Memory) -> None:
    made = await memory.create_key("bot")
    read = read_key(made.key)
    assert read is not None
    _, key_id, secret = read
    wrong = [
        None,
        "",
        "rcd_",
        "rcd_x_y",
        made.key[:-1],
        made.key + "x",
        "x" * 10_000,
        "\ud800",
        written_key(memory.identity.tenant_id, key_id, bytes(32)),
        written_key(tenant_id_of("other"), key_id, secret),
    ]
    async with authenticator_of(memory.resources) as door:
        for credential in wrong:
            with pytest.raises(Unauthenticated) as caught:
                await door.authenticate(credential)
            assert caught.value.message == Unauthenticated().message


async def test_a_key_stops_at_its_end(memory: Memory) -> None:
    made = await memory.create_key("bot", expires_at=datetime.now(UTC) + timedelta(hours=1))
    later = replace(memory.resources, clock=lambda: datetime.now(UTC) + timedelta(hours=2))
    async with authenticator_of(memory.resources) as now, authenticator_of(later) as then:
        await now.authenticate(made.key)
        with pytest.raises(Unauthenticated):
            await then.authenticate(made.key)


async def test_a_key_revoked_elsewhere_dies_when_its_trust_ends_and_one_revoked_here_at_once(
    memory: Memory,
) -> None:
    clock = FakeTime()
    door = Authenticator(memory.resources, monotonic=clock)
    elsewhere, here = await memory.create_key("one"), await memory.create_key("two")
    for made in (elsewhere, here):
        await door.authenticate(made.key)
        await memory.revoke_key(made.key_id)
        await door.authenticate(made.key)
    door.forget_key(here.key_id)
    with pytest.raises(Unauthenticated):
        await door.authenticate(here.key)
    await door.authenticate(elsewhere.key)
    clock.now += TRUST_SECONDS
    with pytest.raises(Unauthenticated):
        await door.authenticate(elsewhere.key)


async def test_many_requests_at_once_look_a_key_up_together(memory: Memory) -> None:
    made = await memory.create_key("bot")
    async with authenticator_of(memory.resources) as door:
        before = memory.resources.database.statistics().get("requests_num", 0)
        found = await asyncio.gather(*(door.authenticate(made.key) for _ in range(50)))
        after = memory.resources.database.statistics()["requests_num"]
    assert {identity.actor for identity in found} == {f"key:{made.key_id}"}
    assert after - before == 1


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_good_token_opens_its_tenant_for_its_user(memory: Memory, issuer: Issuer, algorithm: str) -> None:
    async with authenticator_of(memory.resources, issuer) as door:
        identity = await door.authenticate(token(algorithm))
        assert identity.tenant_id == memory.identity.tenant_id
        assert (identity.user_id, identity.role, identity.actor) == ("jane", Role.AGENT, "jwt:jane")
        by_id = await door.authenticate(token(algorithm, tenant=str(memory.identity.tenant_id)))
        assert by_id.tenant_id == memory.identity.tenant_id
        with pytest.raises(Forbidden):
            narrowed(identity, user="somebody-else")


@pytest.mark.parametrize("role", ["admin", ["viewer", "admin"]])
async def test_the_role_claim_may_say_admin(memory: Memory, issuer: Issuer, role: object) -> None:
    async with authenticator_of(memory.resources, issuer) as door:
        assert (await door.authenticate(token(recordari_role=role))).role is Role.ADMIN


async def test_just_past_its_end_a_token_still_counts_for_clocks_that_differ(memory: Memory, issuer: Issuer) -> None:
    async with authenticator_of(memory.resources, issuer) as door:
        assert (await door.authenticate(token(exp=time.time() - 5))).user_id == "jane"


def hs256_with_the_public_key() -> str:
    pem = private_key("RS256").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return by_hand({"alg": "HS256", "typ": "JWT", "kid": "rs256"}, pem)


WRONG: dict[str, Callable[[], str]] = {
    "expired": lambda: token(exp=time.time() - 60),
    "without end": lambda: token(exp=None),
    "not yet": lambda: token(nbf=time.time() + 600),
    "other issuer": lambda: token(iss="https://evil.example"),
    "no issuer": lambda: token(iss=None),
    "other audience": lambda: token(aud="another"),
    "no audience": lambda: token(aud=None),
    "no tenant": lambda: token(tenant=None),
    "unknown tenant": lambda: token(tenant="nobody-made-this"),
    "tenant not a text": lambda: token(tenant=["test"]),
    "no user": lambda: token(sub=None),
    "odd user": lambda: token(sub="a\nb"),
    "unknown key id": lambda: token(kid="another"),
    "key id of another algorithm": lambda: token("RS256", kid="es256"),
    "no signature": lambda: by_hand({"alg": "none", "kid": "rs256"}, None),
    "no signature, no algorithm": lambda: by_hand({"kid": "rs256"}, None),
    "public key as secret": hs256_with_the_public_key,
    "cut": lambda: token()[:-10],
    "not a token": lambda: "a.b.c",
    "key inside": lambda: jwt.encode(
        claims(),
        private_key("ES256"),
        algorithm="ES256",
        headers={"jwk": jwk("ES256", "mine"), "kid": "mine"},
    ),
}


@pytest.mark.parametrize("kind", WRONG)
async def test_a_wrong_token_is_refused_with_the_same_words(memory: Memory, issuer: Issuer, kind: str) -> None:
    async with authenticator_of(memory.resources, issuer) as door:
        with pytest.raises(Unauthenticated) as caught:
            await door.authenticate(WRONG[kind]())
    assert caught.value.message == Unauthenticated().message


async def test_tokens_are_refused_where_no_issuer_is_set(memory: Memory) -> None:
    async with authenticator_of(memory.resources) as door:
        with pytest.raises(Unauthenticated):
            await door.authenticate(token())


async def test_a_secret_in_the_key_set_is_not_a_key(memory: Memory, issuer: Issuer) -> None:
    secret = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")
    issuer.keys.append({"kty": "oct", "k": secret, "kid": "shared", "alg": "HS256"})
    async with authenticator_of(memory.resources, issuer) as door:
        with pytest.raises(Unauthenticated):
            await door.authenticate(by_hand({"alg": "HS256", "kid": "shared"}, b"s" * 32))


async def test_a_new_key_of_the_issuer_is_found_without_asking_for_every_stranger(
    resources: Resources, issuer: Issuer
) -> None:
    clock = FakeTime()
    update = {"jwt_jwks_url": issuer.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    verifier = TokenVerifier(resources.settings.model_copy(update=update), monotonic=clock)
    await verifier.verify(token())
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await verifier.verify(token(kid="rotated"))
    assert issuer.asked == 1
    issuer.keys = [jwk("RS256", "rotated")]
    clock.now += UNKNOWN_KEY_SECONDS
    assert (await verifier.verify(token(kid="rotated")))["sub"] == "jane"
    with pytest.raises(Unauthenticated):
        await verifier.verify(token(kid="rs256"))
    assert issuer.asked == 2
    await verifier.close()


async def test_while_the_issuer_is_away_known_keys_go_on_and_strangers_hear_why(memory: Memory, issuer: Issuer) -> None:
    away = memory.resources.settings.model_copy(update={"jwt_jwks_url": "http://127.0.0.1:9/jwks"})
    async with authenticator_of(replace(memory.resources, settings=away)) as door:
        with pytest.raises(ProviderError):
            await door.authenticate(token())
    clock = FakeTime()
    update = {"jwt_jwks_url": issuer.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    verifier = TokenVerifier(memory.resources.settings.model_copy(update=update), monotonic=clock)
    await verifier.verify(token())
    issuer.keys = [{"kty": "RSA"}]
    issuer.is_away = True
    clock.now += 600
    assert (await verifier.verify(token()))["sub"] == "jane"
    clock.now += 3600
    with pytest.raises(ProviderError):
        await verifier.verify(token())
    await verifier.close()


@pytest.mark.parametrize(
    "url", ["http://issuer.example/jwks", "ftp://127.0.0.1/", "http://127.0.0.1.evil.example/", "jwks"]
)
def test_a_key_set_that_somebody_could_change_on_the_way_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="https"):
        checked_url(url)


def test_a_bearer_credential_is_read_from_its_header() -> None:
    assert bearer("Bearer abc") == "abc"
    assert bearer("bearer  abc ") == "abc"
    assert [bearer(odd) for odd in (None, "", "Bearer", "Bearer ", "Basic abc", "abc")] == [None] * 6


async def test_the_tenant_of_a_token_must_exist(memory: Memory, issuer: Issuer) -> None:
    async with authenticator_of(memory.resources, issuer) as door:
        with pytest.raises(Unauthenticated):
            await door.authenticate(token(tenant="late"))
        await tenants.ensure_tenant(memory.resources, "late")
        assert (await door.authenticate(token(tenant="late"))).tenant_id == tenant_id_of("late")
