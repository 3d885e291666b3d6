"""What every verb needs: the resources of the process, and who asks."""

from __future__ import annotations

from recordari.core.identity import Identity
from recordari.kit.resources import Resources


class Bound:
    """Resources bound to one identity."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity
