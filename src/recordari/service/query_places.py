"""How many questions to databases one tenant may have open at once in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from recordari.core.identity import TenantId
from recordari.errors import Overloaded


class QueryPlaces:
    """Counts the open questions of each tenant."""

    def __init__(self) -> None:
        self._taken: Counter[TenantId] = Counter()

    @contextmanager
    def held(self, tenant_id: TenantId, *, most: int) -> Iterator[None]:
        """Take a place until the block ends; `Overloaded` when the tenant has none left."""
        if self._taken[tenant_id] >= most:
            raise Overloaded(
                f"{most} questions to databases run already; ask again when one is answered", retry_after=2.0
            )
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]
