"""The object store: large bodies in a local folder or an S3 bucket (S4).

A key is `<tenant>/<hash of owner and body>`. The same bytes of two owners are two objects, so deleting one leaves the
other. The objects of a tenant can be listed, to find those that no row points to.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from recordari.errors import ConfigurationError, ProviderError

# The second form is older: without the tenant.
_KEY = re.compile(r"[0-9a-f-]{36}/[0-9a-f]{64}|[0-9a-f]{64}")
_TENANT = re.compile(r"[0-9a-f-]{36}")
S3_SECONDS = 30
LEFT_OVER = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    key: str
    modified_at: datetime


class Objects(Protocol):
    """Keeps bodies by owner and content."""

    async def put(self, body: bytes, *, owner: str) -> str:
        """Keep a body durably and return its key. A body that exists counts as written just now.

        `owner` is the tenant's id, then a slash and a name for the body.
        """

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """A body, or a range of it."""

    async def delete(self, key: str) -> None:
        """Delete a body if it exists."""

    async def delete_older(self, key: str, before: datetime) -> bool:
        """Delete a body unless it was written since. Return whether it was deleted."""

    def list_of(self, tenant: str) -> AsyncIterator[StoredObject]:
        """The objects of a tenant."""


def key_of(owner: str, body: bytes) -> str:
    tenant = owner.partition("/")[0]
    if not _TENANT.fullmatch(tenant):
        raise _failure("an object belongs to a tenant")
    digest = hashlib.sha256(owner.encode() + b"\x00" + body).hexdigest()
    return f"{tenant}/{digest}"


def checked_key(key: str) -> str:
    """Check a key, because it becomes the name of a file."""
    if not _KEY.fullmatch(key):
        raise _failure("not the key of an object")
    return key


def _failure(message: str) -> ProviderError:
    return ProviderError(message, service="the object store")


class StoresByKey(Objects, Protocol):
    """A store that also takes a body under a given key."""

    async def put(self, body: bytes, *, owner: str) -> str:
        return await self.put_at(key_of(owner, body), body)

    async def put_at(self, key: str, body: bytes) -> str:
        """Keep a body under a key. Written again even if it exists, which renews its time."""


class LocalObjects(StoresByKey):
    """Objects in a local folder: written under a temporary name, synced, renamed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put_at(self, key: str, body: bytes) -> str:
        await asyncio.to_thread(self._write, self._path(key), body)
        return key

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        return await asyncio.to_thread(self._read, self._path(key), start, length)

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._path(key).unlink, missing_ok=True)

    async def delete_older(self, key: str, before: datetime) -> bool:
        return await asyncio.to_thread(self._remove_older, self._path(key), before.timestamp())

    async def list_of(self, tenant: str) -> AsyncIterator[StoredObject]:
        for stored in await asyncio.to_thread(self._list, tenant):
            yield stored

    def _path(self, key: str) -> Path:
        tenant, _, digest = checked_key(key).rpartition("/")
        folder = self._folder / tenant if tenant else self._folder
        return folder / digest[:2] / digest

    def _list(self, tenant: str) -> list[StoredObject]:
        objects = []
        for path in (self._folder / tenant).glob("??/*"):
            try:
                modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            except FileNotFoundError:
                continue
            if _KEY.fullmatch(key := f"{tenant}/{path.name}"):
                objects.append(StoredObject(key=key, modified_at=modified))
            elif path.name.startswith(".") and datetime.now(UTC) - modified > LEFT_OVER:
                path.unlink(missing_ok=True)  # a crash left it half written or half deleted
        return objects

    @staticmethod
    def _write(path: Path, body: bytes) -> None:
        with suppress(OSError):
            os.utime(path)  # it exists: renew its time
            return
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with temporary.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise _failure(f"the object store cannot be written: {error.strerror}") from error

    @staticmethod
    def _remove_older(path: Path, before: float) -> bool:
        """Rename the file, check its time once more, then delete it: a writer either renewed it before the rename, which
        shows now, or finds it gone and writes it again.
        """
        aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return False
        if aside.stat().st_mtime >= before:
            if path.exists():
                aside.unlink()
            else:
                aside.rename(path)
            return False
        aside.unlink()
        return True

    @staticmethod
    def _read(path: Path, start: int, length: int | None) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except OSError as error:
            raise _failure(f"the object store cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Spec:
    """A bucket and its address; a field that is None comes from the environment, as in other S3 tools."""

    bucket: str
    folder: str = ""
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None


class S3Objects(StoresByKey):
    """Objects in a bucket of any service that speaks S3."""

    def __init__(self, spec: S3Spec) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import S3Store
        except ImportError:
            raise ConfigurationError(
                "an S3 bucket needs a package; install it with: pip install 'recordari[s3]'"
            ) from None
        settings = {
            "endpoint": spec.endpoint,
            "region": spec.region,
            "access_key_id": spec.access_key,
            "secret_access_key": spec.secret_key,
        }
        # Plain HTTP only where the endpoint says so, as for a store on this machine.
        options: Any = {"timeout": f"{S3_SECONDS}s", "allow_http": (spec.endpoint or "").startswith("http://")}
        config: Any = {name: value for name, value in settings.items() if value is not None}
        try:
            self._store = S3Store(spec.bucket, prefix=spec.folder or None, client_options=options, **config)
        except (BaseError, ValueError) as error:
            raise ConfigurationError(f"the settings of the S3 bucket are wrong ({type(error).__name__})") from None
        self._obstore = obstore
        self._error = BaseError

    async def put_at(self, key: str, body: bytes) -> str:
        with self._translated("written"):
            await self._obstore.put_async(self._store, checked_key(key), body)
        return key

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if length is not None and length > 0:
            try:
                return bytes(
                    await self._obstore.get_range_async(self._store, checked_key(key), start=start, length=length)
                )
            except (self._error, OSError):
                pass  # past the end, or a service without ranges: read all of it instead
        with self._translated("read"):
            answer = await self._obstore.get_async(self._store, checked_key(key))
            body = bytes(await answer.bytes_async())
        return body[start : None if length is None else start + length]

    async def delete(self, key: str) -> None:
        with self._translated("written"), suppress(FileNotFoundError):
            await self._obstore.delete_async(self._store, checked_key(key))

    async def delete_older(self, key: str, before: datetime) -> bool:
        with self._translated("read"):
            try:
                head = await self._obstore.head_async(self._store, checked_key(key))
            except FileNotFoundError:
                return False
        if head["last_modified"] >= before:
            return False
        await self.delete(key)
        return True

    async def list_of(self, tenant: str) -> AsyncIterator[StoredObject]:
        with self._translated("read"):
            async for page in self._obstore.list(self._store, prefix=f"{tenant}/"):
                for entry in page:
                    if _KEY.fullmatch(entry["path"]):
                        yield StoredObject(key=entry["path"], modified_at=entry["last_modified"])

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        """Translate an error of the store; only its type is shown, because its text may have a key or a secret."""
        try:
            yield
        except FileNotFoundError:
            raise _failure(f"the object store cannot be {verb}: the object is not there") from None
        except (self._error, OSError) as error:
            raise _failure(f"the object store cannot be {verb} ({type(error).__name__})") from None


_MARK = b"RCE1"
_NONCE = 12
_KEY_ID = 8
KEY_BYTES = 32


class EncryptedObjects:
    """Objects encrypted with AES-256-GCM: written with the first key, read with any of them.

    To change keys, put the new one first and keep the old ones in the list while their objects exist. Objects that were
    written without encryption stay readable.
    """

    def __init__(self, store: StoresByKey, keys: tuple[bytes, ...]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ConfigurationError("each of RECORDARI_OBJECT_KEYS must be 32 bytes in base64")
        self._store = store
        self._ciphers: dict[bytes, Any] = {_key_id(key): AESGCM(key) for key in keys}
        self._first = _key_id(keys[0])

    async def put(self, body: bytes, *, owner: str) -> str:
        key = key_of(owner, body)
        sealed = await asyncio.to_thread(self._sealed, key, body)
        return await self._store.put_at(key, sealed)

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Reads the whole body, because only the whole can be verified."""
        body = await asyncio.to_thread(self._opened, key, await self._store.get(key))
        return body[start : None if length is None else start + length]

    async def delete(self, key: str) -> None:
        await self._store.delete(key)

    async def delete_older(self, key: str, before: datetime) -> bool:
        return await self._store.delete_older(key, before)

    def list_of(self, tenant: str) -> AsyncIterator[StoredObject]:
        return self._store.list_of(tenant)

    def _sealed(self, key: str, body: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        # The key is authenticated too: an object in the place of another cannot be opened.
        sealed: bytes = self._ciphers[self._first].encrypt(nonce, body, key.encode())
        return _MARK + self._first + nonce + sealed

    def _opened(self, key: str, stored: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        if not stored.startswith(_MARK):
            return stored
        head = len(_MARK) + _KEY_ID
        cipher = self._ciphers.get(stored[len(_MARK) : head])
        if cipher is None:
            raise _failure("this object was encrypted with a key that RECORDARI_OBJECT_KEYS lacks")
        try:
            body: bytes = cipher.decrypt(stored[head : head + _NONCE], stored[head + _NONCE :], key.encode())
        except InvalidTag:
            raise _failure("an object was changed in its store and is not shown") from None
        return body


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"recordari object key" + key).digest()[:_KEY_ID]
