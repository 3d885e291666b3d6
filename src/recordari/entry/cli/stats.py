"""`recordari stats`: how a tenant's memory fares."""

from __future__ import annotations

from recordari.kit.commands import Tenant, ask
from recordari.kit.output import AsJson, print_json, print_note, print_record, record, size
from recordari.memory.index import Reembedding
from recordari.service.maintenance import DEVELOPMENT_TENANT


def stats(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show what memory holds, what waits, what was given up, how large it is, and the quota."""
    found = ask(lambda memory: memory.memory_stats(), tenant)
    if as_json:
        print_json(record(found))
        return
    counted = {
        f"{name.removeprefix('by_')} {key}": number
        for name in ("by_state", "by_kind", "by_tier", "by_scope")
        for key, number in sorted(getattr(found, name).items())
    }
    print_record(
        {
            "items": found.items,
            **counted,
            "pinned": found.pinned,
            "text": size(found.content_bytes),
            **record(found.others),
            "payload_bytes": size(found.others.payload_bytes),
            "pending embeddings": found.pending_embeddings,
            "embedding model": found.embedding_model,
            **_moving(found.reembedding),
            "dead letters": found.dead_letters,
            **{f"quota {name}": f"{share:.1%}" for name, share in found.quota.shares.items()},
        }
    )
    for warning in found.quota.warnings:
        print_note(f"warning: {warning}")


def _moving(reembedding: Reembedding | None) -> dict[str, str]:
    if reembedding is None:
        return {}
    return {"moving to": f"{reembedding.model_id}, {reembedding.done} of {reembedding.total} embedded"}
