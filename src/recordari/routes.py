"""The routers of all rooms: the server serves them, and `make routes` writes the client's table from them."""

from __future__ import annotations

from fastapi import APIRouter

from recordari.context import rest as context_rest
from recordari.databases import rest as databases_rest
from recordari.entries import rest as entries_rest
from recordari.events import rest as events_rest
from recordari.facts import rest as facts_rest
from recordari.knowledge import rest as knowledge_rest
from recordari.learning import rest as learning_rest
from recordari.lifetime import rest as lifetime_rest
from recordari.memory import rest as memory_rest
from recordari.operations import rest as operations_rest
from recordari.privacy import rest as privacy_rest
from recordari.recall import rest as recall_rest
from recordari.sessions import rest as sessions_rest
from recordari.sharing import rest as sharing_rest
from recordari.tenants import rest as tenants_rest
from recordari.transfer import mem0_rest
from recordari.transfer import rest as transfer_rest
from recordari.worker import rest as worker_rest

# A router's prefix is the whole path, so that metrics show a route by its own template.
ROUTERS: tuple[APIRouter, ...] = (
    operations_rest.health_router,
    memory_rest.router,
    memory_rest.entities_router,
    facts_rest.router,
    facts_rest.facts_router,
    facts_rest.rulings_router,
    recall_rest.router,
    context_rest.router,
    sessions_rest.router,
    sessions_rest.runs_router,
    sessions_rest.episodes_router,
    sessions_rest.state_router,
    entries_rest.router,
    learning_rest.workflows_router,
    databases_rest.router,
    learning_rest.router,
    learning_rest.sessions_router,
    sharing_rest.router,
    sharing_rest.links_router,
    tenants_rest.tenants_router,
    tenants_rest.users_router,
    sharing_rest.agents_router,
    context_rest.profiles_router,
    context_rest.questions_router,
    tenants_rest.keys_router,
    tenants_rest.audit_router,
    worker_rest.router,
    operations_rest.reports_router,
    operations_rest.stats_router,
    lifetime_rest.router,
    lifetime_rest.decay_router,
    lifetime_rest.items_router,
    lifetime_rest.erasures_router,
    lifetime_rest.agents_router,
    transfer_rest.router,
    privacy_rest.router,
    privacy_rest.privacy_router,
    events_rest.router,
    events_rest.webhooks_router,
    knowledge_rest.router,
    mem0_rest.router,
)
