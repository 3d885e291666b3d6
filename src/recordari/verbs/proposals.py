"""Changes of memory that wait for an administrator's word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from recordari.learning import proposals
from recordari.learning.proposals import Dreamt
from recordari.learning.rules.proposals import Proposal, ProposalPolicy
from recordari.verbs.bound import Bound


class ProposalVerbs(Bound):
    """The verbs of proposals."""

    async def dream(self) -> Dreamt:
        """Compare memory with itself and propose what should change, now instead of once a week."""
        return await proposals.dream(self.resources, self.identity)

    async def list_proposals(self, **request: Any) -> list[Proposal]:
        """Proposals, newest first; `request` are `status` (open unless said), `kind`, `before` and `limit`."""
        return await proposals.list_proposals(self.resources, self.identity, **request)

    async def get_proposal(self, proposal_id: UUID) -> Proposal:
        """One proposal."""
        return await proposals.get_proposal(self.resources, self.identity, proposal_id)

    async def accept_proposal(self, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Carry a proposal out; `Conflict` when what it is about has changed."""
        return await proposals.accept(self.resources, self.identity, proposal_id, reason=reason)

    async def reject_proposal(self, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Leave everything as it is; the same is not proposed again."""
        return await proposals.reject(self.resources, self.identity, proposal_id, reason=reason)

    async def undo_proposal(self, proposal_id: UUID, *, reason: str | None = None) -> Proposal:
        """Take back what accepting a proposal did."""
        return await proposals.undo(self.resources, self.identity, proposal_id, reason=reason)

    async def get_proposal_policy(self) -> ProposalPolicy:
        """Which proposals the tenant accepts by itself."""
        return await proposals.get_policy(self.resources, self.identity)

    async def set_proposal_policy(self, accept: Sequence[str]) -> ProposalPolicy:
        """Accept proposals of these kinds (`merge`, `retire`) as soon as they are made."""
        return await proposals.set_policy(self.resources, self.identity, accept)
