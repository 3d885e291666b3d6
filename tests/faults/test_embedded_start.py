"""The embedded database comes up with every acknowledged row, whatever happened to it before."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.folders import open_folder
from tests.patience import wait_for_statement

from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError

pytestmark = pytest.mark.faults

ROUNDS = 7  # of each of the eight kinds of fault: more than fifty starts
ROWS_PER_ROUND = 5
AS_ROOT = os.geteuid() == 0

USER_PROCESS = """
import sys
from pathlib import Path
from recordari.db.embedded.server import EmbeddedServer

server = EmbeddedServer(Path(sys.argv[1]), cache_dir=Path(sys.argv[2]))
server.acquire()
print("ready", flush=True)
sys.stdin.read()
server.release()
"""


class Place:
    """A folder that the server's account can enter, and what was acknowledged by the database in it."""

    def __init__(self, folder: Path, cache_dir: Path) -> None:
        self.folder = folder
        self.cache_dir = cache_dir
        self.data_dir = folder / "data"
        self.acknowledged: set[int] = set()
        self.processes: list[subprocess.Popen[bytes]] = []

    def server(self) -> EmbeddedServer:
        return EmbeddedServer(self.data_dir, cache_dir=self.cache_dir)

    def start_user(self) -> subprocess.Popen[bytes]:
        """Start a process that will use the server until its input ends."""
        process = subprocess.Popen(
            [sys.executable, "-c", USER_PROCESS, str(self.data_dir), str(self.cache_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.processes.append(process)
        return process

    def write_rows(self, server: EmbeddedServer) -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (n int PRIMARY KEY)")
            for n in range(len(self.acknowledged), len(self.acknowledged) + ROWS_PER_ROUND):
                connection.execute("INSERT INTO kept VALUES (%s)", (n,))
                self.acknowledged.add(n)

    def rows(self, server: EmbeddedServer) -> set[int]:
        with psycopg.connect(server.dsn()) as connection:
            return {row[0] for row in connection.execute("SELECT n FROM kept")}

    def close(self) -> None:
        for process in self.processes:
            end(process)
        with contextlib.suppress(ConfigurationError):
            self.server().stop("immediate")


def wait_until_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def postmaster(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


@pytest.fixture(scope="module")
def cache_dir() -> Iterator[Path]:
    folder = open_folder("recordari-cache-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(cache_dir: Path) -> Iterator[Place]:
    folder = open_folder("recordari-test-")
    place = Place(folder, cache_dir)
    yield place
    place.close()
    shutil.rmtree(folder)


@pytest.fixture
def small_disk(cache_dir: Path) -> Iterator[Callable[[int], Place]]:
    """Mount file systems of a given size (MB), which only root can do."""
    if not AS_ROOT or sys.platform != "linux":
        pytest.skip("only root can mount a small file system to fill it")
    places = []

    def mount(megabytes: int) -> Place:
        folder = Path(tempfile.mkdtemp(prefix="recordari-disk-"))
        options = f"size={megabytes}m,mode=0755"
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False).returncode:
            folder.rmdir()
            pytest.skip("this container may not mount file systems")
        places.append(Place(folder, cache_dir))
        return places[-1]

    yield mount
    for place in places:
        subprocess.run(["mount", "-o", "remount,rw", str(place.folder)], check=True)
        place.close()
        subprocess.run(["umount", str(place.folder)], check=True)
        place.folder.rmdir()


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Leave no free byte on the file system of `folder`."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"\0" * 65536):
            pass
    try:
        yield
    finally:
        ballast.unlink()


# -- what happens before a start -------------------------------------------------------------------


def postmaster_is_killed(place: Place, server: EmbeddedServer) -> None:
    """Leave the dead server as a zombie of this very process."""
    server.acquire()
    place.write_rows(server)
    os.kill(postmaster(server), signal.SIGKILL)


def user_is_killed(place: Place, server: EmbeddedServer) -> None:
    user = place.start_user()
    wait_until_ready(user)
    place.write_rows(server)
    end(user)


def postmaster_and_user_are_killed(place: Place, server: EmbeddedServer) -> None:
    user = place.start_user()
    wait_until_ready(user)
    place.write_rows(server)
    os.kill(postmaster(server), signal.SIGKILL)
    end(user)


def postmaster_is_a_zombie_of_another_process(place: Place, server: EmbeddedServer) -> None:
    user = place.start_user()
    wait_until_ready(user)
    place.write_rows(server)
    os.kill(postmaster(server), signal.SIGKILL)  # and its parent never asks for its exit status


def pid_file_names(place: Place, server: EmbeddedServer, pid_line: str | None) -> None:
    """Stop the server as by a power cut and put back its pid files, with another pid in them."""
    server.acquire()
    place.write_rows(server)
    pid_files = [place.data_dir / "postmaster.pid", server.socket_dir / ".s.PGSQL.5432.lock"]
    contents = [path.read_text() for path in pid_files]
    owner = place.data_dir.stat()
    server.stop("immediate")
    server.release()
    for path, content in zip(pid_files, contents, strict=True):
        rest = content.partition("\n")[2]
        path.write_text("" if pid_line is None else f"{pid_line}\n{rest}")
        os.chown(path, owner.st_uid, owner.st_gid)


def pid_file_is_stale(place: Place, server: EmbeddedServer) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    pid_file_names(place, server, str(gone.pid))


def pid_file_names_an_unrelated_process(place: Place, server: EmbeddedServer) -> None:
    """PostgreSQL itself refuses to start when the pid belongs to a process of its own account."""
    server.acquire()
    owner = place.data_dir.stat()
    account = {"user": owner.st_uid, "group": owner.st_gid} if AS_ROOT else {}
    unrelated = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", **account)  # type: ignore[call-overload]
    place.processes.append(unrelated)
    pid_file_names(place, server, str(unrelated.pid))
    server.release()


def pid_file_is_empty(place: Place, server: EmbeddedServer) -> None:
    pid_file_names(place, server, None)


@pytest.mark.parametrize(
    "fault",
    [
        postmaster_is_killed,
        user_is_killed,
        postmaster_and_user_are_killed,
        postmaster_is_a_zombie_of_another_process,
        pid_file_is_stale,
        pid_file_names_an_unrelated_process,
        pid_file_is_empty,
    ],
)
def test_every_start_after_a_fault_has_all_acknowledged_rows(
    place: Place, fault: Callable[[Place, EmbeddedServer], None]
) -> None:
    for _ in range(ROUNDS):
        server = place.server()
        fault(place, server)

        after = place.server()
        after.acquire()
        assert place.rows(after) == place.acknowledged
        after.release()
        server.release()
        for process in place.processes:
            if process.args[0] == "sleep":  # type: ignore[index]
                assert process.poll() is None, "an unrelated process must never be harmed"
            end(process)
        place.processes.clear()


def test_two_processes_that_start_at_once_share_one_server(place: Place) -> None:
    for _ in range(ROUNDS):
        users = [place.start_user(), place.start_user()]
        for user in users:
            wait_until_ready(user)
        server = place.server()
        server.acquire()
        assert server.status().users == 3
        place.write_rows(server)
        assert place.rows(server) == place.acknowledged
        os.kill(postmaster(server), signal.SIGKILL)
        for user in users:
            end(user)
        server.release()


def test_a_start_waits_for_the_statements_of_a_killed_server_to_end(place: Place) -> None:
    server = place.server()
    server.acquire()
    place.write_rows(server)
    with contextlib.closing(psycopg.connect(server.dsn(), autocommit=True)) as connection:
        # It looks at nothing but its own loop, so it outlives the postmaster for a while.
        connection.execute("SET statement_timeout = '2s'")
        connection.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 1000000000)")
        connection.pgconn.flush()
        wait_for_statement(server.dsn(), connection.info.backend_pid)
        os.kill(postmaster(server), signal.SIGKILL)
        server.revive()
    assert place.rows(server) == place.acknowledged
    server.release()


# -- disks and folders -----------------------------------------------------------------------------


def test_a_disk_too_small_for_a_database_is_refused_and_left_clean(
    small_disk: Callable[[int], Place],
) -> None:
    place = small_disk(20)
    with pytest.raises(ConfigurationError, match="full"):
        place.server().acquire()
    assert not place.data_dir.exists()
    assert not [path for path in place.folder.iterdir() if path.name.startswith(".")]


def test_a_start_on_a_full_disk_is_refused_and_harms_nothing(small_disk: Callable[[int], Place]) -> None:
    place = small_disk(200)
    server = place.server()
    server.acquire()
    place.write_rows(server)
    server.release()
    with filled(place.folder), pytest.raises(ConfigurationError, match="full"):
        server.acquire()
    server.acquire()
    assert place.rows(server) == place.acknowledged
    server.release()


def test_a_disk_that_fills_up_in_use_loses_no_acknowledged_row(small_disk: Callable[[int], Place]) -> None:
    place = small_disk(200)
    server = place.server()
    server.acquire()
    place.write_rows(server)
    # 100 kB of text that does not compress: 80 of them are more than one segment of the log can take.
    bulk = "SELECT string_agg(md5(n::text || clock_timestamp()), '') FROM generate_series(1, 3200) AS n"
    with filled(place.folder), pytest.raises(psycopg.Error), psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE bulk (content text)")
        for _ in range(2000):
            connection.execute(f"INSERT INTO bulk {bulk}")
            connection.commit()
    server.revive()
    assert place.rows(server) == place.acknowledged
    server.release()


def test_a_read_only_disk_is_refused_and_harms_nothing(small_disk: Callable[[int], Place]) -> None:
    place = small_disk(200)
    server = place.server()
    server.acquire()
    place.write_rows(server)
    server.release()
    subprocess.run(["mount", "-o", "remount,ro", str(place.folder)], check=True)
    with pytest.raises(ConfigurationError, match="read-only"):
        server.acquire()
    subprocess.run(["mount", "-o", "remount,rw", str(place.folder)], check=True)
    server.acquire()
    assert place.rows(server) == place.acknowledged
    server.release()


@pytest.mark.skipif(AS_ROOT, reason="root may write to any folder; the read-only disk shows it for root")
def test_a_folder_that_may_not_be_written_is_refused_and_harms_nothing(place: Place) -> None:
    place.folder.chmod(0o555)
    with pytest.raises(ConfigurationError, match="may not write"):
        place.server().acquire()
    place.folder.chmod(0o755)
    server = place.server()
    server.acquire()
    place.write_rows(server)
    server.release()
    place.data_dir.chmod(0o500)
    with pytest.raises(ConfigurationError, match="may not write"):
        server.acquire()
    place.data_dir.chmod(0o700)
    server.acquire()
    assert place.rows(server) == place.acknowledged
    server.release()
