"""A migration that landed never changes: databases that it was applied to would not start any more."""

from __future__ import annotations

import pytest
from tools import migrations


def test_every_migration_is_as_it_landed() -> None:
    landed, found = migrations.listed(), migrations.present()
    assert landed
    assert [*migrations.broken(landed, found), *migrations.unlisted(landed, found)] == []


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({"0001_a.sql": "1", "0002_b.sql": "other"}, "0002_b.sql was changed: restore it and write a new migration"),
        ({"0001_a.sql": "1"}, "0002_b.sql is missing: restore it and write a new migration"),
        ({"0001_a.sql": "1", "0002_b.sql": "2", "0003_c.sql": "3"}, "0003_c.sql is not listed: run `python -m tools"),
    ],
)
def test_a_change_is_named_with_its_remedy(found: dict[str, str], complaint: str) -> None:
    landed = {"0001_a.sql": "1", "0002_b.sql": "2"}
    (said,) = [*migrations.broken(landed, found), *migrations.unlisted(landed, found)]
    assert said.startswith(complaint)
