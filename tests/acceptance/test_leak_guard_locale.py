"""The leak guard in a database whose locale knows no letters but those of ASCII."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from tests.acceptance.test_leak_guard import GUARDED, protected
from tests.external_server import not_on_cluster
from tests.patience import PATIENT
from tests.stored import drop_database

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db import migrate
from recordari.db.address import APP_LOGIN
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import InvalidInput
from recordari.tenants import tenants
from recordari.wiring import open_resources

RUSSIAN = (
    "Члены общества могут взять не более шести инструментов сразу и держать каждый из них четырнадцать дней со дня получения. "
    "За опоздание платят две кроны в день; раз в год плату прощают тому, кто попросит об этом до конца месяца."
)
JAPANESE = (
    "会員は一度に六つまで道具を借りることができ、受け取りの日から十四日間使うことができます。返却が遅れた場合は、一日につき二クローネの料金がかかりますが、"
    "月末までに受付で申し出た会員は、年に一度だけ免除されます。電動工具は、安全講習を受けた会員だけが持ち出せます。"
)
OTHER_RUSSIAN = (
    "Анна вчера ходила в библиотеку инструментов, взяла там лестницу и пилу и вернётся с ними в субботу, если дождь кончится; "
    "потом она собирается на озеро к своей сестре, у которой новый дом и старая собака."
)
OTHER_JAPANESE = (
    "アナは道具図書館の会員で、先週の土曜日に長い梯子と電動の鋸を借りました。そのあと湖のそばに住んでいる妹の家に行き、古い犬と散歩をしてから、新しい家の屋根を直す手伝いをしました。"
    "来月はふたりで北の島へ旅行に行くつもりで、もう船の切符も買ってあります。"
)


@pytest.fixture
async def memory(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Memory]:
    """The memory of an administrator in a database of the locale C."""
    name = f"test_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'C'".encode()
        )
    await migrate.prepare(server.dsn(database=name), login=APP_LOGIN)
    settings = Settings(
        home=tmp_path,
        database_url=SecretStr(server.dsn(user=APP_LOGIN, database=name)),
        database_owner_url=SecretStr(server.dsn(database=name)),
        embedding_profile="fast",
        auto_migrate=False,
        **PATIENT,
    )
    async with open_resources(settings) as resources:
        tenant = await tenants.ensure_tenant(resources, "test")
        yield Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
    drop_database(server, name)


@not_on_cluster("its database is made on one server")
@pytest.mark.parametrize(("rule", "other"), [(RUSSIAN, OTHER_RUSSIAN), (JAPANESE, OTHER_JAPANESE)])
async def test_a_copy_in_another_script_is_refused_in_a_database_of_the_locale_c(
    memory: Memory, rule: str, other: str
) -> None:
    chat = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana", agent="helper")
    await protected(memory, f"# X\n\n{rule}")
    for copy in (rule, rule.upper(), f"Ana: {rule} Bo: OK.", rule.replace("、", " ").replace(",", " —")):
        with pytest.raises(InvalidInput, match=GUARDED):
            await chat.remember_fact(copy)
    assert (await chat.remember_fact(other)).was_new
