"""The exception tree of Recordari: every error with its code and HTTP status.

::

    RecordariError                     500 internal
    ├── InvalidInput                   422 invalid_input        the caller must change the request
    ├── Unauthenticated                401 unauthenticated      no credential, or one that is not valid
    ├── Forbidden                      403 forbidden            the credential does not allow this
    ├── NotFound                       404 not_found            missing, or not yours: the answer is the same
    ├── Conflict                       409 conflict             the present state forbids it
    ├── PreconditionFailed             412 precondition_failed  it is not at the version of the request
    ├── TooLarge                       413 too_large            the request is over a size limit
    ├── QuotaExceeded                  429 quota_exceeded       a budget or quota is used up
    ├── Overloaded                     503 overloaded           try again after `retry_after` seconds
    │   └── RateLimited                429 rate_limited
    ├── TimedOut                       504 timed_out            stopped after the time a request may take
    ├── DatabaseUnavailable            503 database_unavailable the database cannot be reached
    ├── ConfigurationError             500 configuration        a setting is wrong or missing
    │   └── UnsafeRole                 500 unsafe_role          the database role could bypass isolation
    └── ProviderError                  502 provider             an embedder, reranker, LLM or store failed

An exception's docstring is its default message. Messages say what to do next and never carry content.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "ConfigurationError",
    "Conflict",
    "DatabaseUnavailable",
    "Forbidden",
    "InvalidInput",
    "NotFound",
    "Overloaded",
    "PreconditionFailed",
    "ProviderError",
    "QuotaExceeded",
    "RateLimited",
    "RecordariError",
    "TimedOut",
    "TooLarge",
    "Unauthenticated",
    "UnsafeRole",
]


class RecordariError(Exception):
    """Something went wrong inside Recordari."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, message: str | None = None, /, **details: Any) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.details = details
        super().__init__(self.message)


class InvalidInput(RecordariError):
    """The request is not valid."""

    code = "invalid_input"
    status = 422


class Unauthenticated(RecordariError):
    """A valid credential is needed: send it as `Authorization: Bearer <key>`."""

    code = "unauthenticated"
    status = 401


class Forbidden(RecordariError):
    """This credential does not allow that; use one with the role it needs."""

    code = "forbidden"
    status = 403


class NotFound(RecordariError):
    """There is no such thing here."""

    code = "not_found"
    status = 404


class Conflict(RecordariError):
    """The present state forbids this change."""

    code = "conflict"
    status = 409


class PreconditionFailed(RecordariError):
    """It is not at the version you named; read it again and repeat."""

    code = "precondition_failed"
    status = 412


class TooLarge(RecordariError):
    """The request is larger than allowed."""

    code = "too_large"
    status = 413


class QuotaExceeded(RecordariError):
    """A budget is used up; free some of it or ask for more."""

    code = "quota_exceeded"
    status = 429

    def __init__(self, message: str | None = None, /, *, retry_after: float | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after
        """Seconds until the budget is free again; None where waiting does not help."""


class Overloaded(RecordariError):
    """The service is at capacity; try again after the time given."""

    code = "overloaded"
    status = 503

    def __init__(self, message: str | None = None, /, *, retry_after: float = 1.0, **details: Any) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class RateLimited(Overloaded):
    """This key has sent too many requests; try again after the time given."""

    code = "rate_limited"
    status = 429


class TimedOut(RecordariError):
    """The request took too long and was stopped; ask for less, or try again."""

    code = "timed_out"
    status = 504


class DatabaseUnavailable(RecordariError):
    """The database cannot be reached; `recordari doctor` tells why."""

    code = "database_unavailable"
    status = 503


class ConfigurationError(RecordariError):
    """A setting is wrong or missing."""

    code = "configuration"
    status = 500


class UnsafeRole(ConfigurationError):
    """The database role could bypass row-level security; connect as the application role (`recordari db init`)."""

    code = "unsafe_role"


class ProviderError(RecordariError):
    """An outside service failed."""

    code = "provider"
    status = 502

    def __init__(self, message: str | None = None, /, *, service: str, **details: Any) -> None:
        """Strangers learn only the `service`, such as "the object store"; the message may say more."""
        self.service = service
        super().__init__(message or f"An outside service failed: {service}.", **details)
