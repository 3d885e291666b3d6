"""Erasing a user with 50 canaries in every layer, and a `kill -9` in the middle: no hit anywhere afterwards.

`RECORDARI_TEST_KILLS` sets how often the process that erases is killed. The killed process runs this module too.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT
from tests.stored import rows
from tests.working import settled, until_settled

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.items import NewItem
from recordari.errors import ProviderError
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.lifetime import erase
from recordari.lifetime.journal import journal_file
from recordari.runner import run_worker
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.tenants import tenants
from recordari.wiring import open_resources
from recordari.worker.dispatch import Pace

pytestmark = pytest.mark.faults

KILLS = int(os.environ.get("RECORDARI_TEST_KILLS", "4"))
ROOT = Path(__file__).parents[2]
CANARIES = [f"qxcanary{number:02d}zv" for number in range(50)]
USER = f"user-{CANARIES[0]}"
IMPATIENT = Pace(stalled_seconds=1.0, tick=0.2, retry_seconds=0.05, max_attempts=50)


async def work() -> None:
    """Run the worker that is to be killed while it erases; slowed down so that the kill hits it at work."""
    erase.ITEMS_AT_ONCE = 5
    erase.SESSIONS_AT_ONCE = 1
    async with open_resources(Settings()) as resources:
        await run_worker(resources.replacing(Pace, IMPATIENT), asyncio.Event())


@contextmanager
def worker(settings: Settings, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    assert settings.database_url is not None
    environment = {
        **os.environ,
        **PATIENT_ENVIRONMENT,
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_AUTO_MIGRATE": "false",
        "RECORDARI_HOME": str(settings.home),
        "RECORDARI_EMBEDDING_PROFILE": "fast",
        "RECORDARI_LOG_LEVEL": "debug",
    }
    command = "import asyncio; from tests.faults.test_erasure import work; asyncio.run(work())"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", command], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def hits(settings: Settings, *files: Path) -> list[str]:
    """Every column of every table, and every file, in which a canary stands, as text or as the bytes of text."""
    pattern = f"qxcanary|{b'qxcanary'.hex()}"
    columns = rows(
        settings,
        """SELECT n.nspname AS schema_name, c.relname AS table_name, a.attname AS column_name
           FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind IN ('r', 'p', 'm')
               AND a.attnum > 0 AND NOT a.attisdropped""",
    )
    # As the owner, who may see every sample that the planner keeps.
    samples = "concat_ws(' ', most_common_vals::text, histogram_bounds::text, most_common_elems::text)"
    found = [
        f'{row["schemaname"]}."{row["tablename"]}".{row["attname"]} in pg_stats'
        for row in rows(settings, f"SELECT schemaname, tablename, attname FROM pg_stats WHERE {samples} ~* %s", pattern)
    ]
    for column in columns:
        table = f'{column["schema_name"]}."{column["table_name"]}"'
        if rows(settings, f'SELECT FROM {table} WHERE "{column["column_name"]}"::text ~* %s LIMIT 1', pattern):
            found.append(f"{table}.{column['column_name']}")
    for file in files:
        for path in [file, *file.rglob("*")] if file.is_dir() else [file]:
            if path.is_file() and b"qxcanary" in path.read_bytes().lower():
                found.append(str(path))
            if "qxcanary" in path.name.lower():
                found.append(str(path))
    return found


def analyse(settings: Settings) -> None:
    """Let the planner take its samples, as autovacuum does from time to time."""
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value(), autocommit=True) as connection:
        connection.execute("ANALYZE")


async def planted(memory: Memory) -> dict[str, Any]:
    """Put canaries into every layer under the user, beside another user who must not be touched."""
    resources = memory.resources
    yesterday = datetime.now(UTC) - timedelta(days=1)
    words = iter(CANARIES * 3)
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    await tenants.save_user(resources, memory.identity, USER, display_name=f"Ana {next(words)}")
    await tenants.create_key(resources, memory.identity, name=f"key of {next(words)}", user_id=USER)
    ana = agent.acting_as(user=USER, agent="helper", session=f"session-{next(words)}")
    session_id = ana.identity.session_id
    said = [
        NewMessage(
            role=MessageRole.USER,
            content=f"We decided to call {next(words)} number {n}.",
            speaker=f"Ana {next(words)}",
            event_time=yesterday,
        )
        for n in range(12)
    ]
    added = await ana.add_messages(said, session_id=session_id)
    assert session_id is not None
    await ana.add_note(session_id, f"note about {next(words)}")
    run = await ana.start_run(run_id=f"run-{next(words)}", session_id=session_id, input={"task": next(words)})
    await ana.record_tool_calls(
        run.run.run_id,
        [NewToolCall(name="look", arguments={"who": next(words)}, result=f"found {next(words)} " * 30)],
    )
    await ana.set_state("draft", {"to": next(words)})
    facts = await ana.remember_many(
        [
            NewItem(content=f"Ana likes {next(words)}", kind="fact", scope="user", subject=next(words), predicate="likes",  # type: ignore[arg-type]
                    object=next(words), metadata={"from": next(words)})
            for _ in range(20)
        ]
    )  # fmt: skip
    await ana.edit_item(facts[0].id, f"Ana loves {next(words)}", reason=f"she said {next(words)}")
    await ana.invalidate_item(facts[1].id, reason=f"not {next(words)} any more")
    await ana.give_feedback(facts[2].id, "useful", reason=f"right about {next(words)}")
    await ana.remember(f"{next(words)} " * 2_000, kind="tool_output", source_ref=f"row-{next(words)}")
    await ana.remember(f"{next(words)} " * 20_000, kind="tool_output", source_ref=f"file-{next(words)}")
    await ana.append_episode(f"helped {next(words)}")
    # Derived from her alone, for another owner: a fact of the agent.
    derived = await agent.acting_as(agent="helper").remember_fact(f"customer {next(words)} is patient", scope="agent")
    bob = agent.acting_as(user="bob", agent="helper", session="bob-1")
    kept = await bob.remember_fact("Bob likes coffee")
    async with resources.database.transaction(memory.identity) as tx:
        link = Link(item_id=derived.id, source_item_id=added.messages[0].id, event_time=yesterday)
        await facts_storage.insert_links(tx, [link])
    await settled(memory)
    return {"bob": bob, "kept": kept, "facts": facts, "session_id": session_id}


@pytest.mark.timeout(600 + 30 * KILLS)
async def test_nothing_of_an_erased_user_is_left_after_kills_in_the_middle(
    settings: Settings, memory: Memory, tmp_path: Path
) -> None:
    there = await planted(memory)
    analyse(settings)
    before = hits(settings, settings.home)
    for layer in (
        "items",
        "sessions",
        "runs",
        "tool_calls",
        "notes",
        "state",
        "users",
        "api_keys",
        "audit",
        "entities",
    ):
        assert any(f'"{layer}"' in hit for hit in before), f"no canary in {layer}: {before}"
    assert any("objects" in hit for hit in before)
    erasure = await memory.start_erasing_user(USER)

    async def progress() -> tuple[int, int]:
        now = await memory.get_erasure(erasure.erasure_id)
        return now.items, now.sessions

    logs, killed_at_work = tmp_path / "worker.log", 0
    for _ in range(KILLS):
        with worker(settings, logs) as process:
            seen = await progress()
            async with asyncio.timeout(PATIENCE):
                while await progress() == seen and (await memory.get_erasure(erasure.erasure_id)).finished_at is None:
                    await asyncio.sleep(0.005)
            await asyncio.sleep(random.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait()
        killed_at_work += (await memory.get_erasure(erasure.erasure_id)).finished_at is None
    assert killed_at_work, "no kill came in the middle"
    with worker(settings, logs):
        async with asyncio.timeout(PATIENCE):
            while (await memory.get_erasure(erasure.erasure_id)).finished_at is None:
                await asyncio.sleep(0.05)
        await until_settled(memory)
    assert hits(settings, settings.home, logs) == []
    assert (await there["bob"].get_item(there["kept"].id)).content == "Bob likes coffee"
    done = [entry for entry in await memory.list_audit(limit=200) if entry.action == "user.erase"]
    assert [entry.details["sessions"] for entry in done] == [1]
    assert "qxcanary" not in journal_file(memory.resources, memory.identity).read_text()


async def test_an_erasure_that_is_run_again_does_no_harm(memory: Memory) -> None:
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id, role=Role.AGENT)).acting_as(
        user="ana", session="s"
    )
    await ana.remember("hello", source_ref="m1")
    erased = await memory.erase_user("ana")
    again = await erase.run_erasure(memory.resources, memory.identity, erasure_id=str(erased.erasure_id))
    assert again == erased
    assert (await memory.erase_user("ana")).items == 0


async def test_an_erasure_is_closed_only_when_its_journal_is_written(memory: Memory) -> None:
    await memory.save_user(USER)
    in_the_way = journal_file(memory.resources, memory.identity).parent
    in_the_way.write_text("no folder")
    with pytest.raises(ProviderError, match="journal of erasures cannot be"):
        await memory.erase_user(USER)
    in_the_way.unlink()
    erasure = await memory.erase_user(USER)
    assert erasure.finished_at is not None
    assert erasure.user_hash.hex() in journal_file(memory.resources, memory.identity).read_text()


async def test_what_is_forgotten_leaves_the_reasons_of_the_audit_and_the_samples_of_the_planner(
    memory: Memory, settings: Settings
) -> None:
    """One item is forgotten, the person stays: nothing of its text may be found through the owner's connection."""
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id, role=Role.AGENT)).acting_as(user="ana")
    facts = [await ana.remember_fact(f"Ana trusts Dr. Qxcanary{n} Zv") for n in range(8)]
    for fact in facts:
        await ana.give_feedback(fact.id, "useful", reason="Dr. Qxcanary said so")
    await settled(memory)
    analyse(settings)
    assert any('"audit".reason' in hit for hit in hits(settings))
    for fact in facts:
        await ana.forget(fact.id)
    await settled(memory)
    assert hits(settings) == []
