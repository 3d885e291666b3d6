"""Time-ordered ids (UUID version 7): rows written together are together in every index."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import datetime
from uuid import UUID

FIRST = UUID(int=0)
LAST = UUID(int=2**128 - 1)
"""Before and after every id: the start of a list that begins with the oldest or the newest."""

_lock = threading.Lock()
_last_tick = 0


def first_id_of(moment: datetime) -> UUID:
    """The least id that is made in the millisecond of a moment."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def new_id() -> UUID:
    """A UUID v7 that is larger than every one this process made before."""
    global _last_tick
    with _lock:
        # 12 sub-millisecond bits keep the order of ids made within one millisecond.
        tick = max(time.time_ns() * 4096 // 1_000_000, _last_tick + 1)
        _last_tick = tick
    milliseconds, fraction = divmod(tick, 4096)
    value = (milliseconds & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62)
    return UUID(int=value)
