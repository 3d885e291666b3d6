"""The caller and the visibility of items: typed ids, `Identity` and `Scope`.

The tenant always comes from a credential. Every storage function is bound to an `Identity`, so that no code path builds
a key or a filter from loose strings (S1).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NewType, TypeVar
from uuid import UUID, uuid5

from recordari.core.described import DESCRIBED
from recordari.errors import Forbidden, InvalidInput, Unauthenticated

TenantId = NewType("TenantId", UUID)
UserId = NewType("UserId", str)
AgentId = NewType("AgentId", str)
SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)
Owner = NewType("Owner", str)
Choice = TypeVar("Choice", bound=StrEnum)

MAX_ID_LENGTH = 200
TENANT_NAMESPACE = UUID("6f0f4cf8-9a52-5c1c-8f3e-6c1d2b7a9e10")


class Scope(StrEnum):
    """Who may see an item."""

    SESSION = "session"
    USER = "user"
    AGENT = "agent"
    TENANT = "tenant"


class AskedScope(StrEnum):
    """Where a question looks: in one scope, in the user's other sessions, or in all that the identity has."""

    SESSION = "session"
    USER = "user"
    AGENT = "agent"
    TENANT = "tenant"
    HISTORY = "history"
    ANY = "any"


class Role(StrEnum):
    """What a credential may do: an agent remembers and recalls, an administrator also governs."""

    AGENT = "agent"
    ADMIN = "admin"


OPERATORS = frozenset({"library", "cli", "operator"})
"""The actors that need access to the machine or its database; no door gives them to a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The caller: the tenant always; user, agent, session and run where known."""

    __pydantic_config__ = DESCRIBED

    tenant_id: TenantId
    user_id: UserId | None = None
    agent_id: AgentId | None = None
    session_id: SessionId | None = None
    run_id: RunId | None = None
    role: Role = Role.AGENT
    users: frozenset[UserId] | None = None
    """The users that the credential may act for; None: any of the tenant."""
    actor: str = "library"
    """The credential that acts (a key's id, a token's subject, `library`, `cli`, `job`): written to the audit."""

    def __post_init__(self) -> None:
        if self.users is not None and self.user_id is not None and self.user_id not in self.users:
            raise Forbidden("this credential may not act for that user; name one that it is limited to, or none")

    def narrowed(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        run_id: str | None = None,
    ) -> Identity:
        """The same tenant and role, with these ids; an id that is None stays."""
        ids = {"user_id": user_id, "agent_id": agent_id, "session_id": session_id, "run_id": run_id}
        changes: dict[str, Any] = {name: checked_id(name, value) for name, value in ids.items() if value is not None}
        return replace(self, **changes)

    @property
    def is_operator(self) -> bool:
        """Whether the caller works on the machine itself, and did not come with a key or token of a tenant."""
        return self.actor in OPERATORS

    @property
    def spans_users(self) -> bool:
        """Whether it acts for all users of the tenant and for what they own: an administrator or a job that names none."""
        return self.role is Role.ADMIN and self.user_id is None

    @property
    def owned_by(self) -> Owner:
        """The owner of what this identity writes, and of the ids that it chooses."""
        return owned_by(self.user_id, self.agent_id)

    @property
    def viewpoint(self) -> Identity:
        """The same without the run and the credential, which do not decide what may be seen."""
        return replace(self, run_id=None, users=None, actor="")


def job_identity(tenant_id: TenantId, job: str) -> Identity:
    """The identity of our own work in a tenant, which is for all its users."""
    return Identity(tenant_id=tenant_id, role=Role.ADMIN, actor=f"job:{job}")


def owned_by(user_id: str | None, agent_id: str | None) -> Owner:
    """The owner in one text: the user; without a user the agent; without either the tenant. Like `owner_of` in SQL."""
    if user_id is not None:
        return Owner(f"user:{user_id}")
    return Owner(f"agent:{agent_id}" if agent_id is not None else "tenant")


def session_thread(owner: Owner, session_id: SessionId) -> str:
    """The thread of an owner's session, like `session_thread` in SQL; no id contains the separator."""
    return f"session:{owner}\x1f{session_id}"


def checked_id(field: str, value: str) -> str:
    """Return `value` if it can be an id: 1 to 200 printable characters, no white space at the ends."""
    if not value or value != value.strip() or len(value) > MAX_ID_LENGTH:
        raise InvalidInput(
            f"{field} must have 1 to {MAX_ID_LENGTH} characters and no white space at its ends", field=field
        )
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in value):
        raise InvalidInput(f"{field} must not contain control characters", field=field)
    return value


def checked_choice(field: str, choices: type[Choice], value: str) -> Choice:
    """Return the member of `choices` that `value` names, or raise `InvalidInput` with all of them."""
    if type(value) is choices:
        return value
    try:
        return choices(value)
    except ValueError:
        raise InvalidInput(f"{field} must be one of {', '.join(choices)}", field=field) from None


def optional_choice(field: str, choices: type[Choice], value: str | None) -> Choice | None:
    return checked_choice(field, choices, value) if value is not None else None


def tenant_id_of(name: str) -> TenantId:
    """The id of the tenant called `name`: the same name always gives the same id, with no look-up."""
    return TenantId(uuid5(TENANT_NAMESPACE, checked_id("tenant", name)))


def narrowed(
    identity: Identity,
    *,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    run: str | None = None,
) -> Identity:
    """The identity with the ids that a request adds; `Forbidden` where the credential is bound to another one."""
    for noun, bound, requested in (
        ("user", identity.user_id, user),
        ("agent", identity.agent_id, agent),
        ("session", identity.session_id, session),
        ("run", identity.run_id, run),
    ):
        if bound is not None and requested is not None and bound != requested:
            raise Forbidden(f"this credential is bound to another {noun}")
    return identity.narrowed(user_id=user, agent_id=agent, session_id=session, run_id=run)


def require_owner(scope: Scope | AskedScope, identity: Identity, session_id: SessionId | None) -> None:
    """Raise unless the identity has the id that the scope needs (R1)."""
    if scope in {AskedScope.USER, AskedScope.HISTORY} and identity.user_id is None:
        raise Unauthenticated(
            f"scope {scope} needs a user: use a credential of a person, or name the user (Recordari-User, --user)"
        )
    if scope == AskedScope.AGENT and identity.agent_id is None:
        raise Unauthenticated("scope agent needs an agent: name it (Recordari-Agent, --agent)")
    if scope == AskedScope.SESSION and session_id is None:
        raise InvalidInput(
            "scope session needs a session: name it (session_id, Recordari-Session, --session)", field="session_id"
        )
