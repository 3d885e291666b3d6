"""Entries: documents by namespace and key, with filters and search."""

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
OWNER = "The owner; by default the user if there is one, else the agent."


class EntryRequest(Strict):
    """A document to store; an earlier one is replaced."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"namespace": ["preferences"], "key": "seat", "value": {"text": "aisle"}}]}
    )

    namespace: Labels = Field(min_length=1)
    key: str = Field(min_length=1)
    value: dict[str, Any]
    scope: ScopeName | None = Field(default=None, description=OWNER)
    index: list[str] | bool | None = Field(
        default=None, description="Searchable fields, such as `title` or `parts[*].text`; false: none."
    )
    ttl_seconds: int | None = Field(
        default=None,
        ge=1,
        le=int(LONGEST_TTL.total_seconds()),
        description="It expires that long after its last write or read.",
    )
    if_version: int | None = Field(default=None, ge=0)


class EntrySearch(Strict):
    """A search of documents."""

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
    """A search of namespaces; `*` is any label."""

    prefix: Labels = Field(default_factory=list)
    suffix: Labels = Field(default_factory=list)
    max_depth: int | None = Field(default=None, ge=1)
    scope: ScopeName | None = Field(default=None, description=OWNER)
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    offset: int = Field(default=0, ge=0)


Namespace = Annotated[list[str], Query(max_length=MAX_LABELS)]
Key = Annotated[str, Query(min_length=1)]
Owner = Annotated[Scope | None, Query(description=OWNER)]
Version = Annotated[int | None, Query(ge=0)]


@router.put("", operation_id="put_entry")
async def put_entry(caller: AgentCaller, request: EntryRequest) -> Entry:
    """Store a document under a key."""
    ttl = timedelta(seconds=request.ttl_seconds) if request.ttl_seconds is not None else None
    return await entries.put_entry(*caller, **request.model_dump(exclude={"ttl_seconds"}), ttl=ttl)


@router.get("", operation_id="get_entry")
async def get_entry(
    caller: AgentCaller, namespace: Namespace, key: Key, scope: Owner = None, refresh: bool = True
) -> Entry:
    """Return a document."""
    return await entries.get_entry(*caller, namespace, key, scope=scope, refresh=refresh)


@router.delete("", operation_id="delete_entry", status_code=204)
async def delete_entry(
    caller: AgentCaller, namespace: Namespace, key: Key, scope: Owner = None, if_version: Version = None
) -> None:
    """Delete a document with its item."""
    await entries.delete_entry(*caller, namespace, key, scope=scope, if_version=if_version)


@router.post("/search", operation_id="search_entries", openapi_extra=client(reads=True))
async def search_entries(caller: AgentCaller, request: EntrySearch) -> list[FoundEntry]:
    """Search the documents in and below a namespace: the latest first, or with a `query` the best answers first."""
    return await entries.search_entries(*caller, **request.model_dump())


@router.post(
    "/namespaces", operation_id="list_namespaces", openapi_extra=client(reads=True), response_model=list[list[str]]
)
async def list_namespaces(caller: AgentCaller, request: NamespaceSearch) -> object:
    """List the namespaces that have entries."""
    return await entries.list_namespaces(*caller, **request.model_dump())
