"""Connections to the Redis of the settings, for whoever keeps something there that may be lost."""

from __future__ import annotations

from typing import Any

from recordari.errors import ConfigurationError

CONNECT_FACTOR = 4
"""A connection takes several round trips, each as long as a command may take."""


def connect_redis(url: str, *, timeout: float) -> tuple[Any, tuple[type[Exception], ...]]:
    """A client that connects when it is used, and the errors of a Redis that fails or is late."""
    try:
        import redis.asyncio as library
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise ConfigurationError("RECORDARI_REDIS_URL needs the extra: pip install 'recordari[redis]'") from error
    try:
        # Retries of the library would hide failures from the caller.
        client = library.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout * CONNECT_FACTOR,
            retry=library.retry.Retry(NoBackoff(), 0),
            protocol=2,
        )
    except ValueError as error:
        raise ConfigurationError(
            "RECORDARI_REDIS_URL is not an address of Redis, such as redis://127.0.0.1:6379/0"
        ) from error
    return client, (library.RedisError, OSError, TimeoutError)


def is_refusal(error: Exception) -> bool:
    """Whether Redis answered, but refused: it is full or read-only."""
    from redis import ResponseError

    return isinstance(error, ResponseError)
