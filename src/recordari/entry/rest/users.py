"""The people that a tenant's agents talk with."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from recordari.domain.profiles import Profile
from recordari.domain.tenants import User
from recordari.entry.bodies import ProfileShown
from recordari.kit.rest import PROBLEMS, AdminMemory, AgentMemory, Cursor, Limit, Page, Shown, Strict, page_of, position

router = APIRouter(prefix="/v1/users", tags=["users"], responses=PROBLEMS)


class UserShown(Shown):
    """A user."""

    user_id: str = Field(examples=["jane"])
    display_name: str | None = Field(examples=["Jane"])
    time_zone: str = Field(examples=["Europe/Stockholm"])
    created_at: datetime


class UserChange(Strict):
    """What to say of a user; what is left out stays."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"display_name": "Jane", "time_zone": "Europe/Stockholm"}]}
    )

    display_name: str | None = Field(default=None, max_length=200)
    time_zone: str | None = Field(default=None, max_length=64, description="An IANA name.")


@router.get("", operation_id="list_users", response_model=Page[UserShown])
async def list_users(memory: AdminMemory, limit: Limit = 50, cursor: Cursor = None) -> object:
    """Users by id."""
    return page_of(
        await memory.list_users(after=position(cursor) or "", limit=limit + 1),
        limit,
        lambda user: user.user_id,
    )


@router.get("/{user_id}", operation_id="get_user", response_model=UserShown)
async def get_user(memory: AgentMemory, user_id: str) -> User:
    """One user."""
    return await memory.get_user(user_id)


@router.get("/{user_id}/profile", operation_id="user_profile", response_model=ProfileShown)
async def user_profile(memory: AgentMemory, user_id: str) -> Profile:
    """What is known of a user, in a few hundred tokens; empty where nothing is."""
    return await memory.profile(user=user_id)


@router.put("/{user_id}", operation_id="save_user", response_model=UserShown)
async def save_user(memory: AgentMemory, user_id: str, change: UserChange) -> User:
    """Create or change a user: an administrator any, another key only the user it acts for."""
    return await memory.save_user(user_id, display_name=change.display_name, time_zone=change.time_zone)
