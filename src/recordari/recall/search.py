"""How a question searches: in which scopes, by which terms and tokens, and how deep each arm goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from recordari.core import text
from recordari.core.identity import Identity, Scope
from recordari.core.items import require_owner
from recordari.kit.resources import Resources
from recordari.memory.rules import REQUEST_TERMS
from recordari.memory.tenant_view import TenantView
from recordari.models.static import StaticTokens
from recordari.recall.request import Arm, RecallRequest
from recordari.recall.rules.arms import FULL_DEPTHS, Depths
from recordari.recall.rules.candidates import Tokens
from recordari.recall.rules.ranking import Weights

MOST_POSTINGS = 4_000
MOST_TERMS = 24
MOST_EXACT = 3_000


def scope_weights(resources: Resources, request: RecallRequest) -> dict[Scope, float]:
    """The configured weight of each scope; one that is muted counts where it is asked for by name."""
    settings = resources.settings
    weights = {
        Scope.SESSION: settings.recall_weight_session,
        Scope.USER: settings.recall_weight_user,
        Scope.AGENT: settings.recall_weight_agent,
        Scope.TENANT: settings.recall_weight_tenant,
    }
    if request.scope is not None and not weights[request.scope]:
        weights[request.scope] = 1.0
    return weights


def scopes_of(identity: Identity, request: RecallRequest, weights: Mapping[Scope, float]) -> frozenset[Scope]:
    """The scopes to search. A scope asked for by name must have its owner; `any` takes those that have one."""
    if request.scope is not None:
        require_owner(request.scope, identity, identity.session_id)
        return frozenset({request.scope})
    owners = {
        Scope.TENANT: True,
        Scope.USER: identity.user_id is not None,
        Scope.AGENT: identity.agent_id is not None,
        Scope.SESSION: identity.session_id is not None,
    }
    return frozenset(scope for scope, owned in owners.items() if owned and weights[scope] > 0)


def scopes_left_out(request: RecallRequest, scopes: frozenset[Scope], weights: Mapping[Scope, float]) -> dict[str, str]:
    """Which scopes are not searched, and why."""
    if request.scope is not None:
        return {}
    return {
        scope: "its weight is 0" if weights[scope] == 0 else f"no {scope} is named"
        for scope in sorted(set(Scope) - scopes)
    }


def filters_of(request: RecallRequest) -> dict[str, Any]:
    """What narrows the question, as a trace shows it."""
    moments = {"since": request.since, "until": request.until, "as_of": request.as_of}
    given: dict[str, Any] = {name: moment.isoformat() for name, moment in moments.items() if moment is not None}
    if request.source_kinds is not None:
        given["source_kinds"] = [str(kind) for kind in request.source_kinds]
    if request.source_id is not None:
        given["source_id"] = str(request.source_id)
    if request.include_superseded:
        given["include_superseded"] = True
    return given


def rare_terms(terms: Sequence[str], view: TenantView) -> dict[str, float]:
    """The rarest terms with their weights: as many as find a few thousand items in all, and always one."""
    collection = view.collection(terms)
    chosen: dict[str, float] = {}
    postings = 0
    for term in sorted(dict.fromkeys(terms), key=lambda one: collection.frequencies[one])[:MOST_TERMS]:
        postings += collection.frequencies[term]
        if chosen and postings > MOST_POSTINGS:
            break
        chosen[term] = collection.rarity(term) * (Weights().request_words if term in REQUEST_TERMS else 1.0)
    return chosen


def exact_below(items: int, *, indexed_from: int) -> int | None:
    """How many vectors are still looked at one by one; None for a tenant too small to have an index.

    Below that, the tenant's index would pass over most of what it finds: slower, and some of the nearest are missed.
    """
    return max(MOST_EXACT, items // 25) if items >= indexed_from / 2 else None


@lru_cache(maxsize=128)
def weights_of(arms: frozenset[Arm]) -> Weights:
    """The ranker's weights without those of arms that are switched off."""
    off: dict[Arm, dict[str, Any]] = {
        Arm.LATE: {"late": 0.0},
        Arm.SESSION: {"session": 0.0, "following": 0.0, "previous_words": 0.0, "previous_late": 0.0, "repeat": 0.0},
        Arm.TIME: {"interval": 0.0, "date_words": 0.0, "newer": 0.0},
        Arm.ENTITY: {"entity": 0.0, "linked": 0.0},
        Arm.WORDING: {
            "speaker": 0.0,
            "own_words": 0.0,
            "question": 0.0,
            "dated": 0.0,
            "disclosure": 0.0,
        },
    }
    changes = {name: value for arm, values in off.items() if arm not in arms for name, value in values.items()}
    return replace(Weights(), **changes)


@lru_cache(maxsize=128)
def depths_of(arms: frozenset[Arm]) -> Depths:
    """How deep each arm searches; not at all when it is switched off."""
    full = FULL_DEPTHS
    return Depths(
        text=full.text if Arm.TEXT in arms else 0,
        vector=full.vector if Arm.VECTOR in arms else 0,
        time=full.time if Arm.TIME in arms else 0,
        entity=full.entity if Arm.ENTITY in arms else 0,
    )


def tokens_of(static: StaticTokens, words: Sequence[str], *, language: str) -> Tokens:
    """The question's tokens that belong to words with a meaning, each with the term of its word."""
    ids: dict[int, str] = {}
    for word in dict.fromkeys(words):
        if (term := _term_of(word, language)) is not None:
            for token in static.word_ids(word):
                ids.setdefault(token, term)
    return Tokens(
        ids=np.array(list(ids), dtype=np.int64), words=list(ids.values()), unit=static.unit, norms=static.norms
    )


@lru_cache(maxsize=20_000)
def _term_of(word: str, language: str) -> str | None:
    """The term of a word with a meaning."""
    return next(iter(text.terms(word, language)), None)
