"""Entries: documents by namespace and key, that can be filtered and searched."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field

from recordari.core.identity import Scope
from recordari.entries import entries
from recordari.entries.rules import LONGEST_TTL, MAX_LABELS, MAX_PAGE, Entry, FoundEntry
from recordari.kit.rest import PROBLEMS, AgentCaller, Strict, client
from recordari.memory.rest import ScopeName

router = APIRouter(prefix="/v1/entries", tags=["entries"], responses=PROBLEMS)

Labels = Annotated[list[str], Field(max_length=MAX_LABELS)]
OWNER = "Whose: the user's if a user asks, else the agent's, if left out."


class EntryRequest(Strict):
    """A document to keep in place of what is there."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"namespace": ["preferences"], "key": "seat", "value": {"text": "aisle"}}]}
    )

    namespace: Labels = Field(min_length=1)
    key: str = Field(min_length=1)
    value: dict[str, Any]
    scope: ScopeName | None = Field(default=None, description=OWNER)
    index: list[str] | bool | None = Field(
        default=None, description="Fields that can be searched, such as `title` or `parts[*].text`; false: none."
    )
    ttl_seconds: int | None = Field(
        default=None,
        ge=1,
        le=int(LONGEST_TTL.total_seconds()),
        description="It ends that long after it was last written or read.",
    )
    if_version: int | None = Field(default=None, ge=0)


class EntrySearch(Strict):
    """Which documents to find."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"prefix": ["preferences"], "query": "where to sit", "filter": {"kind": "seat"}}]
        }
    )

    prefix: Labels = Field(default_factory=list)
    query: str | None = None
    filter: dict[str, Any] | None = Field(
        default=None, description="Fields and values, or operators: `{'score': {'$gte': 3}}`."
    )
    scope: ScopeName | None = Field(default=None, description=OWNER)
    limit: int = Field(default=10, ge=1, le=MAX_PAGE)
    offset: int = Field(default=0, ge=0)
    refresh: bool = True


class NamespaceSearch(Strict):
    """Which namespaces to list; `*` stands for any label."""

    prefix: Labels = Field(default_factory=list)
    suffix: Labels = Field(default_factory=list)
    max_depth: int | None = Field(default=None, ge=1)
    scope: ScopeName | None = Field(default=None, description=OWNER)
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    offset: int = Field(default=0, ge=0)


Namespace = Annotated[list[str], Query(max_length=MAX_LABELS)]
Key = Annotated[str, Query(min_length=1)]
Whose = Annotated[Scope | None, Query(description=OWNER)]
Version = Annotated[int | None, Query(ge=0)]


@router.put("", operation_id="put_entry")
async def put_entry(caller: AgentCaller, wanted: EntryRequest) -> Entry:
    """Keep a document under a key."""
    return await entries.put_entry(
        *caller,
        wanted.namespace,
        wanted.key,
        wanted.value,
        scope=wanted.scope,
        index=wanted.index,
        ttl=timedelta(seconds=wanted.ttl_seconds) if wanted.ttl_seconds is not None else None,
        if_version=wanted.if_version,
    )


@router.get("", operation_id="get_entry")
async def get_entry(
    caller: AgentCaller, namespace: Namespace, key: Key, scope: Whose = None, refresh: bool = True
) -> Entry:
    """One document."""
    return await entries.get_entry(*caller, namespace, key, scope=scope, refresh=refresh)


@router.delete("", operation_id="delete_entry", status_code=204)
async def delete_entry(
    caller: AgentCaller, namespace: Namespace, key: Key, scope: Whose = None, if_version: Version = None
) -> None:
    """Remove a document, and what recall finds of it."""
    await entries.delete_entry(*caller, namespace, key, scope=scope, if_version=if_version)


@router.post("/search", operation_id="search_entries", openapi_extra=client(reads=True))
async def search_entries(caller: AgentCaller, wanted: EntrySearch) -> list[FoundEntry]:
    """Documents below a namespace, the latest first; with a `query`, those that answer it first."""
    return await entries.search_entries(*caller, **wanted.model_dump())


@router.post(
    "/namespaces", operation_id="list_namespaces", openapi_extra=client(reads=True), response_model=list[list[str]]
)
async def list_namespaces(caller: AgentCaller, wanted: NamespaceSearch) -> object:
    """The namespaces that hold something."""
    return await entries.list_namespaces(*caller, **wanted.model_dump())
