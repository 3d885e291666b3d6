"""S4: large bodies in a folder or a bucket, encrypted where keys are set, collected when nothing points to them."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr
from tests import s3_server
from tests.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from tests.working import at, run_job

from recordari.app import Memory
from recordari.config import Settings
from recordari.errors import ConfigurationError, ProviderError
from recordari.memory.objects import EncryptedObjects, LocalObjects, Objects, S3Objects, S3Spec, StoresByKey
from recordari.wiring import make_objects

needs_s3 = pytest.mark.skipif(s3_server.program() is None, reason="rclone is not installed")
TENANT = str(uuid4())
OLD = timedelta(days=3)


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server.running(tmp_path / "s3") as server:
        yield server


def bucket(server: S3Server) -> S3Objects:
    settings = Settings(
        object_bucket=f"{BUCKET}/recordari/",
        object_endpoint=server.endpoint,
        object_region="us-east-1",
        object_access_key=SecretStr(ACCESS_KEY),
        object_secret_key=SecretStr(SECRET_KEY),
    )
    store = make_objects(settings)
    assert isinstance(store, S3Objects)
    return store


@pytest.fixture(params=["folder", pytest.param("bucket", marks=needs_s3), "encrypted folder"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoresByKey | EncryptedObjects]:
    if request.param == "bucket":
        with s3_server.running(tmp_path / "s3") as server:
            yield bucket(server)
    elif request.param == "folder":
        yield LocalObjects(tmp_path / "objects")
    else:
        yield EncryptedObjects(LocalObjects(tmp_path / "objects"), (secrets.token_bytes(32),))


async def test_every_store_keeps_gives_lists_and_removes(store: StoresByKey) -> None:
    key = await store.put(b"0123456789", owner=f"{TENANT}/one")
    assert await store.get(key) == b"0123456789"
    assert await store.get(key, start=3, length=4) == b"3456"
    assert await store.get(key, start=8, length=100) == b"89"
    assert await store.get(key, start=100, length=1) == b""
    assert await store.put(b"0123456789", owner=f"{TENANT}/one") == key
    other = await store.put(b"0123456789", owner=f"{TENANT}/two")
    assert other != key
    foreign = await store.put(b"0123456789", owner=f"{uuid4()}/one")
    assert {found.key async for found in store.list_of(TENANT)} == {key, other}
    assert not await store.delete_older(other, datetime.now(UTC) - OLD)
    assert await store.delete_older(other, datetime.now(UTC) + OLD)
    assert not await store.delete_older(other, datetime.now(UTC) + OLD)
    await store.delete(key)
    await store.delete(key)
    assert [found.key async for found in store.list_of(TENANT)] == []
    with pytest.raises(ProviderError):
        await store.get(key)
    assert await store.get(foreign) == b"0123456789"


async def test_nothing_but_a_key_names_an_object(store: StoresByKey) -> None:
    for wrong in ("../../etc/passwd", "", f"{TENANT}/../x", "a" * 63, f"{TENANT}/{'g' * 64}"):
        with pytest.raises(ProviderError):
            await store.get(wrong)
    with pytest.raises(ProviderError):
        await store.put(b"x", owner="nobody")


async def test_an_encrypted_object_says_nothing_and_cannot_be_changed_or_swapped(tmp_path: Path) -> None:
    plain = LocalObjects(tmp_path)
    store = EncryptedObjects(plain, (secrets.token_bytes(32),))
    first = await store.put(b"canary " * 100, owner=f"{TENANT}/one")
    second = await store.put(b"another " * 100, owner=f"{TENANT}/two")
    paths = {path.name: path for path in tmp_path.rglob("*") if path.is_file()}
    one, two = paths[first.partition("/")[2]], paths[second.partition("/")[2]]
    assert b"canary" not in one.read_bytes()
    body = one.read_bytes()
    one.write_bytes(two.read_bytes())
    with pytest.raises(ProviderError, match="changed"):
        await store.get(first)
    one.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    with pytest.raises(ProviderError, match="changed"):
        await store.get(first)


async def test_keys_can_be_changed_while_old_objects_stay_readable(tmp_path: Path) -> None:
    old, new = secrets.token_bytes(32), secrets.token_bytes(32)
    plain = LocalObjects(tmp_path)
    unsealed = await plain.put(b"from before", owner=f"{TENANT}/zero")
    sealed = await EncryptedObjects(plain, (old,)).put(b"under the old key", owner=f"{TENANT}/one")
    both = EncryptedObjects(plain, (new, old))
    later = await both.put(b"under the new key", owner=f"{TENANT}/two")
    assert await both.get(sealed) == b"under the old key"
    assert await both.get(unsealed) == b"from before"
    only_new = EncryptedObjects(plain, (new,))
    assert await only_new.get(later) == b"under the new key"
    with pytest.raises(ProviderError, match="RECORDARI_OBJECT_KEYS"):
        await only_new.get(sealed)


def test_wrong_settings_are_refused_with_what_to_do(settings: Settings) -> None:
    for wrong in ("short", base64.b64encode(b"x" * 31).decode()):
        with pytest.raises(ConfigurationError, match="32 bytes"):
            make_objects(settings.model_copy(update={"object_keys": [SecretStr(wrong)]}))


@needs_s3
async def test_bodies_live_encrypted_in_a_bucket_and_erasure_removes_them(memory: Memory, s3: S3Server) -> None:
    store = EncryptedObjects(bucket(s3), (secrets.token_bytes(32),))
    remote = Memory(memory.resources.replacing(Objects, store), memory.identity)
    ana = remote.acting_as(user="ana", session="s")
    kept = await ana.remember("canary of ana " * 20_000, kind="tool_output", scope="user")
    document = await remote.add_document("big.txt", b"the manual says so. " * 10_000)
    assert len(s3.files()) == 2
    assert all(path.is_relative_to(s3.folder / BUCKET / "recordari") for path in s3.files())
    assert not [path for path in s3.files() if b"canary" in path.read_bytes()]
    assert kept.payload_key is not None
    assert (await ana.read_tool_output(kept.payload_key, start=10, length=3)).content == "ana"
    assert (await remote.read_original(document.document.document_id))[0].startswith(b"the manual")
    await remote.erase_user("ana")
    assert len(s3.files()) == 1
    await remote.delete_document(document.document.document_id)
    assert s3.files() == []


@needs_s3
async def test_a_bucket_that_is_away_is_an_error_and_changes_nothing(memory: Memory, s3: S3Server) -> None:
    wrong = S3Objects(
        S3Spec(bucket=BUCKET, endpoint=s3.endpoint, region="us-east-1", access_key="wrong", secret_key="wrong")
    )
    remote = Memory(memory.resources.replacing(Objects, wrong), memory.identity)
    with pytest.raises(ProviderError) as raised:
        await remote.add_document("big.txt", b"the manual says so. " * 10_000)
    assert "wrong" not in raised.value.message
    assert await memory.list_documents() == []


def aged(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            moment = (datetime.now(UTC) - OLD).timestamp()
            os.utime(path, (moment, moment))


async def test_only_old_objects_that_nothing_points_to_are_collected(memory: Memory) -> None:
    objects, folder = memory.resources.get(Objects), memory.resources.settings.home / "objects"
    tenant = memory.identity.tenant_id
    document = await memory.add_document("used.txt", b"words in use " * 10_000)
    orphan = await objects.put(b"left by an upload that was cut short", owner=f"{tenant}/orphan")
    foreign = await objects.put(b"another tenant's", owner=f"{uuid4()}/x")
    assert await memory.collect_objects() == 0, "an upload may still be on its way"
    aged(folder)
    assert await objects.put(b"on its way again", owner=f"{tenant}/late")
    assert await memory.collect_objects() == 1
    with pytest.raises(ProviderError):
        await objects.get(orphan)
    assert await objects.get(foreign) == b"another tenant's"
    assert (await memory.read_original(document.document.document_id))[0].startswith(b"words in use")
    await run_job(at(memory, OLD), "collect_objects")
    assert orphan not in [found.key async for found in objects.list_of(str(tenant))]


async def test_an_upload_that_finds_its_old_object_keeps_it_from_being_collected(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path)
    key = await store.put(b"the same body", owner=f"{TENANT}/one")
    aged(tmp_path)
    before = datetime.now(UTC) - timedelta(days=1)
    assert [found.modified_at < before async for found in store.list_of(TENANT)] == [True]
    await store.put(b"the same body", owner=f"{TENANT}/one")  # after the listing, before the removal
    assert not await store.delete_older(key, before)
    assert await store.get(key) == b"the same body"
