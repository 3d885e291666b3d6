"""What a user notices of the embedded database: it is there, shared, private, and gone when not needed."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.folders import open_folder
from tests.patience import wait_for_statement

from recordari.db.embedded.data import default_home
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError

AS_ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not AS_ROOT, reason="only root runs the server under another account")

USER_PROCESS = """
import sys
from pathlib import Path
from recordari.db.embedded.server import EmbeddedServer

server = EmbeddedServer(Path(sys.argv[1]), cache_dir=Path(sys.argv[2]))
server.acquire()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cache_dir() -> Iterator[Path]:
    folder = open_folder("recordari-cache-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = open_folder("recordari-test-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server(folder: Path, cache_dir: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(folder / "data", cache_dir=cache_dir)
    yield server
    server.release()
    server.stop("immediate")


@pytest.fixture
def user_process(server: EmbeddedServer, cache_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run another process that uses the server and ends without a word when its input does."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER_PROCESS, str(server.data_dir), str(cache_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def ask(server: EmbeddedServer, query: str) -> object:
    with psycopg.connect(server.dsn()) as connection:
        row = connection.execute(query).fetchone()
    return row[0] if row else None


def setting(server: EmbeddedServer, name: str) -> object:
    return ask(server, f"SELECT current_setting('{name}')")


# -- a database from nothing -----------------------------------------------------------------------


def test_a_new_database_is_utf8_with_checksums_and_pgvector(server: EmbeddedServer) -> None:
    server.acquire()
    assert setting(server, "server_encoding") == "UTF8"
    assert setting(server, "data_checksums") == "on"
    assert ask(server, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'") == "C.UTF-8"
    assert ask(server, "SELECT count(*) FROM pg_available_extensions WHERE name IN ('vector', 'pg_trgm')") == 2


def test_acknowledged_writes_are_durable_by_default(server: EmbeddedServer) -> None:
    server.acquire()
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        assert setting(server, name) == "on"


def test_the_server_listens_on_no_network_and_its_socket_is_private(server: EmbeddedServer) -> None:
    server.acquire()
    assert setting(server, "listen_addresses") == ""
    assert server.socket_dir.stat().st_mode & 0o077 == 0
    assert server.data_dir.stat().st_mode & 0o077 == 0


def test_a_setting_can_be_changed_but_not_the_supervisors_own(folder: Path, cache_dir: Path) -> None:
    server = EmbeddedServer(folder / "data", cache_dir=cache_dir, settings={"work_mem": "5MB"})
    server.acquire()
    assert setting(server, "work_mem") == "5MB"
    server.release()
    for name in ("listen_addresses", "port", "bad name"):
        with pytest.raises(ConfigurationError, match="cannot be changed"):
            EmbeddedServer(folder / "data", settings={name: "x"})


@pytest.mark.parametrize("name", ["with space", 'a"quote', "a,comma", "per%cent", "long" * 40])
def test_any_folder_name_works(folder: Path, cache_dir: Path, name: str) -> None:
    server = EmbeddedServer(folder / name, cache_dir=cache_dir)
    server.acquire()
    assert len(str(server.socket_dir)) < 100
    assert ask(server, "SELECT 1") == 1
    assert server.run_tool("psql", "-Atc", "SELECT 2", capture_output=True).stdout == b"2\n"
    server.release()
    if server.socket_dir != server.run_dir:
        server.socket_dir.rmdir()


def test_the_remains_of_a_killed_first_start_do_not_block_the_next(server: EmbeddedServer) -> None:
    remains = server.data_dir.with_name(".data.new-abc")
    (remains / "base").mkdir(parents=True)
    (remains / "PG_VERSION").write_text("18\n")
    server.acquire()
    assert ask(server, "SELECT 1") == 1
    assert not remains.exists()


def test_without_a_usable_cache_the_database_is_made_in_place(folder: Path) -> None:
    (folder / "a file").touch()
    server = EmbeddedServer(folder / "data", cache_dir=folder / "a file")
    server.acquire()
    assert setting(server, "data_checksums") == "on"
    server.release()


def test_a_folder_with_other_files_is_refused_and_left_as_it_is(folder: Path, cache_dir: Path) -> None:
    data_dir = folder / "data"
    data_dir.mkdir()
    (data_dir / "letter.txt").write_text("dear reader")
    with pytest.raises(ConfigurationError, match="choose an empty folder"):
        EmbeddedServer(data_dir, cache_dir=cache_dir).acquire()
    assert [path.name for path in data_dir.iterdir()] == ["letter.txt"]


def test_data_of_another_version_is_refused_with_a_way_out(folder: Path, cache_dir: Path) -> None:
    data_dir = folder / "data"
    data_dir.mkdir()
    (data_dir / "PG_VERSION").write_text("15\n")
    with pytest.raises(ConfigurationError, match=r"was made by PostgreSQL 15.*recordari db upgrade"):
        EmbeddedServer(data_dir, cache_dir=cache_dir).acquire()
    assert (data_dir / "PG_VERSION").read_text() == "15\n"


def test_a_configured_folder_without_postgresql_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="no PostgreSQL server in the configured folder"):
        EmbeddedServer(folder / "data", bin_dir=folder).acquire()


# -- sharing it ------------------------------------------------------------------------------------


def test_the_server_stops_with_the_last_release_of_a_process(server: EmbeddedServer) -> None:
    server.acquire()
    server.acquire()
    server.release()
    assert server.status().running
    server.release()
    assert not server.status().running
    server.release()


def test_the_server_stays_until_the_last_process_leaves(
    server: EmbeddedServer, user_process: subprocess.Popen[bytes]
) -> None:
    server.acquire()
    assert server.status().users == 2
    server.release()
    assert server.status().running
    # It ends without releasing anything, as a forgetful script does.
    user_process.communicate()
    assert not server.status().running


def test_a_killed_process_is_no_user_any_more(server: EmbeddedServer, user_process: subprocess.Popen[bytes]) -> None:
    server.acquire()
    user_process.kill()
    user_process.wait()
    assert server.status().users == 1
    server.release()
    assert not server.status().running


def test_a_detached_server_outlives_its_users_until_it_is_stopped(server: EmbeddedServer) -> None:
    server.start_detached()
    server.acquire()
    server.release()
    assert server.status().running
    server.stop()
    assert not server.status().running
    server.acquire()
    server.release()
    assert not server.status().running, "the mark was for the server that was stopped"


def test_a_server_that_died_is_started_again(server: EmbeddedServer) -> None:
    server.acquire()
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    server.revive()
    assert ask(server, "SELECT 1") == 1
    server.release()
    assert not server.status().running


def test_the_server_is_out_of_reach_of_the_terminal(server: EmbeddedServer) -> None:
    server.acquire()
    pid = server.status().pid
    assert pid is not None
    assert os.getsid(pid) == pid


def test_a_forked_child_is_no_user_and_keeps_nobody_from_stopping(server: EmbeddedServer) -> None:
    server.acquire()
    # A real fork, in a fresh interpreter without threads of its own.
    script = f"""
import os, sys, time
from pathlib import Path
from recordari.db.embedded.server import EmbeddedServer
server = EmbeddedServer(Path({str(server.data_dir)!r}))
server.acquire()
child = os.fork()
if child == 0:
    server.release()
    os.close(1)
    time.sleep(600)
assert server.status().users == 2
print(child, flush=True)
os.kill(os.getpid(), 9)
"""
    output = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False)
    child = int(output.stdout)
    try:
        assert server.status().running
        assert server.status().users == 1
        server.release()
        assert not server.status().running
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_release_after_the_folders_were_removed_brings_nothing_back(folder: Path, cache_dir: Path) -> None:
    server = EmbeddedServer(folder / "inner" / "data", cache_dir=cache_dir)
    server.acquire()
    server.stop()
    shutil.rmtree(folder / "inner")
    server.release()
    assert list(folder.iterdir()) == []


def test_an_unknown_stop_mode_is_refused(server: EmbeddedServer) -> None:
    with pytest.raises(ConfigurationError, match="smart, fast, immediate"):
        server.stop("gently")


def test_the_status_of_a_database_that_does_not_exist_creates_nothing(server: EmbeddedServer, folder: Path) -> None:
    status = server.status()
    assert (status.running, status.pid, status.users) == (False, None, 0)
    assert status.version.split(".")[0].isdigit()
    server.stop()
    assert list(folder.iterdir()) == []


# -- tools and log ---------------------------------------------------------------------------------


def test_postgresql_tools_reach_the_server(server: EmbeddedServer) -> None:
    server.acquire()
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE notes (text text)")
    dump = server.run_tool("pg_dump", "--schema-only", capture_output=True, text=True, check=True)
    assert "CREATE TABLE public.notes" in dump.stdout
    command = [str(server.binary("psql")), "-Atc", "SELECT count(*) FROM notes"]
    answer = subprocess.run(command, env=server.tool_environment(), capture_output=True, check=True)
    assert answer.stdout == b"0\n"
    with pytest.raises(ConfigurationError, match="no program pg_wonder"):
        server.binary("pg_wonder")


def test_the_log_never_holds_statements_or_their_values(server: EmbeddedServer) -> None:
    server.acquire()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE secrets (text text PRIMARY KEY)")
        for statement in (
            "INSERT INTO secrets VALUES (%s), (%s)",  # a duplicate key: the detail quotes it
            "SELECT %s::int + length(%s)",  # the message quotes the value
            "SELECT canary_column WHERE %s = %s",  # the statement itself is wrong
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement, ("canary-value", "canary-value"))
        # A crash of a backend makes the server report what it was running.
        connection.pgconn.send_query(b"SELECT pg_sleep(60), 'canary-statement'")
        connection.pgconn.flush()
        wait_for_statement(server.dsn(), connection.info.backend_pid)
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        connection.close()
    server.revive()
    log = server.log_file.read_text()
    assert "ready to accept connections" in log
    assert "canary" not in log


def test_a_long_log_is_set_aside_at_the_next_start(server: EmbeddedServer) -> None:
    server.log_file.write_text("old line\n" * 1_200_000)
    server.acquire()
    assert "old line" not in server.log_file.read_text()
    assert server.log_file.with_suffix(".log.1").read_text().startswith("old line\n")


# -- as root ---------------------------------------------------------------------------------------


@only_root
def test_for_root_the_server_runs_under_an_ordinary_account(server: EmbeddedServer) -> None:
    server.acquire()
    pid = server.status().pid
    assert Path(f"/proc/{pid}").stat().st_uid == server.data_dir.stat().st_uid != 0


@only_root
def test_the_owner_of_the_data_goes_before_the_service_account(folder: Path, cache_dir: Path) -> None:
    first = EmbeddedServer(folder / "data", cache_dir=cache_dir)
    first.acquire()
    first.release()
    owner = pwd.getpwnam("daemon")
    assert first.data_dir.stat().st_uid != owner.pw_uid
    for path in folder.rglob("*"):
        os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    second = EmbeddedServer(folder / "data", cache_dir=cache_dir)
    second.acquire()
    assert Path(f"/proc/{second.status().pid}").stat().st_uid == owner.pw_uid
    second.release()


@only_root
def test_a_folder_that_the_account_cannot_enter_is_refused_with_one_that_works(folder: Path, cache_dir: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigurationError, match=re.escape(str(default_home()))):
        EmbeddedServer(closed / "data", cache_dir=cache_dir).acquire()
    assert closed.stat().st_mode & 0o777 == 0o700
    assert list(closed.iterdir()) == []


@only_root
def test_programs_that_the_account_cannot_reach_are_copied_to_the_cache(server: EmbeddedServer, folder: Path) -> None:
    package = server.binary("postgres").parents[2]
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for part in ("bin", "lib", "share"):
        shutil.copytree(package / "pginstall" / part, closed / package.name / "pginstall" / part)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name)
    (folder / "cache").mkdir(mode=0o755)
    hidden = EmbeddedServer(
        folder / "data", bin_dir=closed / package.name / "pginstall" / "bin", cache_dir=folder / "cache"
    )
    hidden.acquire()
    assert ask(hidden, "SELECT 1") == 1
    assert hidden.status().bin_dir.is_relative_to(folder / "cache")
    hidden.release()
    assert closed.stat().st_mode & 0o777 == 0o700
