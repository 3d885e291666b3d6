"""Secrets at rest: encrypted with AES-256-GCM under the key of this installation, or under another one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from contextlib import suppress
from pathlib import Path

from recordari.errors import ConfigurationError

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_FILE = "secret.key"
_MARK = "v1:"


class Secrets:
    """Encrypts short texts; a text that was changed, or encrypted for another purpose, cannot be opened."""

    def __init__(self, *, home: Path, key: str | None = None) -> None:
        self._home = home
        self._configured = key
        self._key: bytes | None = None

    def seal(self, text: str, *, purpose: str = "") -> str:
        """Encrypt a text; `purpose` names its use and must be the same in `open`."""
        sealed = seal_with(self._installation_key(), text.encode(), purpose=purpose)
        return _MARK + base64.b64encode(sealed).decode()

    def open(self, sealed: str, *, purpose: str = "") -> str:
        """Decrypt a text; `ConfigurationError` when it was encrypted with another key."""
        try:
            raw = base64.b64decode(sealed.removeprefix(_MARK), validate=True)
        except binascii.Error:
            raw = b""
        return open_with(self._installation_key(), raw, purpose=purpose).decode()

    def derived(self, purpose: str) -> bytes:
        """A key for one purpose, which tells nothing about the key of this installation or of another purpose."""
        return hmac.digest(self._installation_key(), f"derived:{purpose}".encode(), "sha256")

    def _installation_key(self) -> bytes:
        if self._key is None:
            self._key = _parse(self._configured) if self._configured is not None else _of_file(self._home / KEY_FILE)
        return self._key


def seal_with(key: bytes, content: bytes, *, purpose: str = "") -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, purpose.encode())


def open_with(key: bytes, sealed: bytes, *, purpose: str = "") -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose.encode())
    except (InvalidTag, ValueError):
        raise ConfigurationError(
            "a secret cannot be decrypted: RECORDARI_SECRET_KEY, or secret.key in the home folder, is not the one it was "
            "encrypted with"
        ) from None


def _parse(text: str) -> bytes:
    """A key from its text: Base64 of 32 bytes, or any long phrase."""
    with suppress(binascii.Error, ValueError):
        if len(raw := base64.b64decode(text, validate=True)) == KEY_BYTES:
            return raw
    if len(text) < KEY_BYTES:
        raise ConfigurationError(
            "RECORDARI_SECRET_KEY must be Base64 of 32 bytes, or a phrase of 32 characters or more"
        )
    return hashlib.sha256(text.encode()).digest()


def _of_file(file: Path) -> bytes:
    """The key of this installation, made at its first use and readable by its owner only."""
    try:
        if not file.exists():
            _make(file)
        if file.stat().st_mode & 0o077:
            raise ConfigurationError(f"{file} can be read by others; make it private (chmod 600)")
        return _parse(file.read_text().strip())
    except OSError as error:
        raise ConfigurationError(f"cannot store a key in {file}: {error.strerror}; set RECORDARI_SECRET_KEY") from None


def _make(file: Path) -> None:
    """Write a key under another name, then link it: of two processes the second uses the key of the first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as target:
        target.write(base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
        target.flush()
        os.fsync(target.fileno())
    with suppress(FileExistsError):
        file.hardlink_to(draft)
    draft.unlink()
