"""A database with memory in it gets owners and second times: what was there belongs to somebody, and is found again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from tests.stored import drop_database

from recordari.db import migrate
from recordari.db.address import APP_LOGIN
from recordari.db.embedded.server import EmbeddedServer

TENANT, WORKFLOW, CHOICE = (uuid.uuid4() for _ in range(3))
SAID, GONE, TOLD, FADED, ENDED, BOTH = (uuid.uuid4() for _ in range(6))

BEFORE = f"""
INSERT INTO tenants (tenant_id, name) VALUES ('{TENANT}', 'test');
INSERT INTO users (tenant_id, user_id) VALUES ('{TENANT}', 'ana');
INSERT INTO sessions (tenant_id, session_id, session_ref, root_id, user_id, agent_id, idle_seconds, notes_seconds, window_share,
    opened_at, active_at)
VALUES ('{TENANT}', 'monday', gen_random_uuid(), 'monday', 'ana', 'helper', 60, 60, 0.5, now(), now()),
    ('{TENANT}', 'batch', gen_random_uuid(), 'batch', NULL, 'helper', 60, 60, 0.5, now(), now());
INSERT INTO notes (tenant_id, session_id, note_id, kind, content, importance, created_at)
VALUES ('{TENANT}', 'monday', gen_random_uuid(), 'note', 'a note', 0.5, now());
INSERT INTO runs (tenant_id, run_id, run_ref, session_id, user_id, agent_id, started_at)
VALUES ('{TENANT}', 'nightly', gen_random_uuid(), 'batch', 'ana', 'helper', now()),
    ('{TENANT}', 'hers', gen_random_uuid(), 'monday', 'ana', 'helper', now());
INSERT INTO turns (tenant_id, run_id, number, started_at)
VALUES ('{TENANT}', 'nightly', 1, now()), ('{TENANT}', 'hers', 1, now());
INSERT INTO turn_states (tenant_id, session_id, run_id, number, status, created_at, updated_at)
VALUES ('{TENANT}', 'monday', 'hers', 1, 'running', now(), now());
INSERT INTO tool_calls (tenant_id, run_id, number, turn, name, arguments, started_at)
VALUES ('{TENANT}', 'hers', 1, 1, 'look', '{{}}', now());
INSERT INTO state_owners (tenant_id, owner_kind, owner_id, user_id, version, written_at)
VALUES ('{TENANT}', 'session', 'monday', 'ana', 1, now()), ('{TENANT}', 'run', 'nightly', NULL, 1, now()),
    ('{TENANT}', 'run', 'never-started', NULL, 1, now());
INSERT INTO state (tenant_id, owner_kind, owner_id, key, user_id, value, bytes, version, updated_at)
VALUES ('{TENANT}', 'session', 'monday', 'x', 'ana', '1', 1, 1, now());
INSERT INTO items (tenant_id, item_id, kind, scope, tier, user_id, agent_id, session_id, source_ref, thread, position, content,
    content_hash, trust, event_time, valid_at, anonymized_at, tsv, terms, tokens, traits)
VALUES ('{TENANT}', '{SAID}', 'chat_message', 'session', 'recent', 'ana', 'helper', 'monday', 'm-1',
        'session:monday', 1, 'said',
        '', 'user', now(), now(), NULL, '', '', '', 0),
    ('{TENANT}', '{GONE}', 'chat_message', 'session', 'recent', NULL, NULL, NULL, 'gone', 'session:monday', 2, '[REDACTED]',
        '', 'user', now(), now(), now(), '', '', '', 0),
    ('{TENANT}', '{TOLD}', 'fact', 'agent', 'persistent', 'ana', 'helper', NULL, 'f-1', NULL, NULL, 'told', '',
        'user', now(), now(), NULL, '', '', '', 0);
INSERT INTO items (tenant_id, item_id, kind, scope, tier, user_id, source_ref, content, content_hash, trust, event_time,
    valid_at, created_at, archived_at, invalid_at, tsv, terms, tokens, traits)
SELECT '{TENANT}', id, 'fact', 'user', 'recent', 'ana', id, 'x', '', 'user', now(), '2025-01-01', '2025-03-01', archived, ended,
    '', '', '', 0
FROM (VALUES ('{FADED}'::uuid, timestamptz '2025-05-01', NULL::timestamptz), ('{ENDED}', NULL, '2025-02-01'),
    ('{BOTH}', '2025-05-01', '2025-06-01')) AS f (id, archived, ended);
INSERT INTO vectors (tenant_id, item_id, model_id, live, kind, scope, user_id, event_time, embedding)
SELECT '{TENANT}', id::uuid, 'm', false, 'fact', 'user', 'ana', now(), '[1,2]'
FROM unnest(ARRAY['{FADED}', '{ENDED}', '{BOTH}']) AS id;
INSERT INTO payloads (tenant_id, payload_key, item_id, bytes, sha256, body) VALUES ('{TENANT}', 'k', '{SAID}', 1, '', 'x');
INSERT INTO vectors (tenant_id, item_id, model_id, live, kind, scope, user_id, agent_id, session_id, event_time, embedding)
VALUES ('{TENANT}', '{SAID}', 'm', true, 'chat_message', 'session', 'ana', 'helper', 'monday', now(), '[1,2]');
INSERT INTO workflows (tenant_id, workflow_id, agent_type, task_type, name, version, spec, spec_hash, alpha, beta, valid_at)
VALUES ('{TENANT}', '{WORKFLOW}', 'helper', 't', 'w', 1, '{{}}', '', 1, 1, now());
INSERT INTO choices (tenant_id, choice_id, workflow_id, agent_id, session_id, sample, candidates, chosen_at)
VALUES ('{TENANT}', '{CHOICE}', '{WORKFLOW}', 'helper', 'monday', 0.5, 1, now());
INSERT INTO outcomes (tenant_id, outcome_id, workflow_id, choice_id, score, rewarded_at)
VALUES ('{TENANT}', 'o-1', '{WORKFLOW}', '{CHOICE}', 1, now());
"""

OWNERS = {
    "sessions": ["agent:helper", "user:ana"],
    "notes": ["user:ana"],
    "runs": ["agent:helper", "user:ana"],  # a run has the owner of its session
    "turns": ["agent:helper", "user:ana"],
    "turn_states": ["user:ana"],
    "tool_calls": ["user:ana"],
    "state_owners": ["agent:helper", "tenant", "user:ana"],
    "state": ["user:ana"],
    "items": ["agent:helper", "tenant", "user:ana"],
    "payloads": ["user:ana"],
    "choices": ["user:ana"],
    "outcomes": ["user:ana"],
}


@pytest.fixture
def empty(server: EmbeddedServer) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server.dsn(database=name)
    drop_database(server, name)


async def test_what_was_there_before_belongs_to_somebody_and_keeps_its_times(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: [step for step in every if step.name < "0016"])
    await migrate.prepare(empty, login=APP_LOGIN)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("SET search_path = recordari, public")
        connection.execute("SET session_replication_role = replica")  # no triggers: they want a tenant
        connection.execute(BEFORE)
    monkeypatch.setattr(migrate, "migrations", lambda: every)
    assert "0016_owners" in await migrate.prepare(empty, login=APP_LOGIN)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("SET search_path = recordari, public")
        for table, owners in OWNERS.items():
            found = connection.execute(f"SELECT owned_by FROM {table}").fetchall()
            assert sorted({owner for (owner,) in found}) == owners, table
        threads = connection.execute("SELECT DISTINCT thread FROM items WHERE thread IS NOT NULL").fetchall()
        assert threads == [("session:user:ana\x1fmonday",)], "also of what was forgotten"
        assert connection.execute("SELECT owner FROM vectors WHERE kind = 'chat_message'").fetchall() == threads
        vectors = connection.execute("SELECT item_id, live, archived FROM vectors WHERE kind = 'fact'").fetchall()
        assert set(vectors) == {(FADED, True, True), (ENDED, False, False), (BOTH, False, True)}, "the faded are found"
        recorded = connection.execute(
            "SELECT item_id, retired_at FROM items WHERE source_ref <> 'f-1' AND kind = 'fact'"
        ).fetchall()
        assert dict(recorded) == {
            FADED: None,
            ENDED: datetime(2025, 3, 1, tzinfo=UTC),  # not before it was written
            BOTH: datetime(2025, 6, 1, tzinfo=UTC),
        }
        enabled = connection.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'items'::regclass AND NOT tgisinternal AND tgenabled <> 'O'"
        ).fetchone()
        assert enabled == (0,)
