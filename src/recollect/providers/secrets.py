"""Secrets at rest: sealed with a key that is not in the database, each bound to the row it belongs to."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from pathlib import Path

from recollect.errors import ConfigurationError

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_FILE = "secret.key"


class Seal:
    """Seals and opens texts by AES-256-GCM; `bound_to` must be the same for both, so that no row opens another's."""

    def __init__(self, home: Path, key: str | None = None) -> None:
        self._home = home
        self._given = key
        self._key: bytes | None = None

    def close(self, secret: str, *, bound_to: str) -> bytes:
        """Seal a text."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self._found_key()).encrypt(nonce, secret.encode(), bound_to.encode())

    def open(self, sealed: bytes, *, bound_to: str) -> str:
        """Open what was sealed; `ConfigurationError` when it was sealed with another key."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce, closed = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return AESGCM(self._found_key()).decrypt(nonce, closed, bound_to.encode()).decode()
        except InvalidTag:
            raise ConfigurationError(
                "a stored secret was sealed with another key; set RECOLLECT_SECRET_KEY to that one, or give the secret again"
            ) from None

    def _found_key(self) -> bytes:
        """The configured key, or the one in the home folder, which is made when first needed."""
        if self._key is None:
            self._key = _read(self._given) if self._given else self._kept_key()
        return self._key

    def _kept_key(self) -> bytes:
        file = self._home / KEY_FILE
        try:
            if not file.exists():
                self._make_key(file)
            if file.stat().st_mode & 0o077:
                raise ConfigurationError(f"{file} can be read by others; make it private (chmod 600)")
            return _read(file.read_text("ascii"))
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be made or read; set RECOLLECT_SECRET_KEY instead") from error

    def _make_key(self, file: Path) -> None:
        """Write it whole under another name, then link it: of two processes the second takes the first one's."""
        self._home.mkdir(parents=True, exist_ok=True)
        draft = self._home / f".{KEY_FILE}.{os.getpid()}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as written:
            written.write(base64.urlsafe_b64encode(os.urandom(KEY_BYTES)))
            written.flush()
            os.fsync(written.fileno())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
        draft.unlink()


def _read(text: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError("the secret key must be 32 bytes in base64, such as `openssl rand -base64 32` prints")
    return key
