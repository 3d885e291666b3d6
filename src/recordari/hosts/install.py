"""Verbs for the person at this machine: install Recordari into a host, remove it again, and say how it does."""

from __future__ import annotations

import json
import secrets
import socket
import statistics
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from recordari import hosts
from recordari.config import Settings
from recordari.errors import ConfigurationError, Conflict, InvalidInput, NotFound, RecordariError
from recordari.hosts import hook
from recordari.hosts.process import stop_server
from recordari.hosts.rules.hosts import HOSTS, Change, HostName, Place, Programs, changes, generic_change, server_entry
from recordari.kit.commands import DEVELOPMENT_TENANT
from recordari.kit.resources import Resources
from recordari.kit.verbs import Caller
from recordari.tenants import tenants

BUDGET = 1_500  # tokens of the context at the start of a session
SECONDS = 1.0  # that a hook takes at most, whatever happens
PLUGIN = Path(hook.__file__).with_name("plugin.js")
"""What the plugins of all hosts begin with."""
READ_OF_LOG = 200  # lines


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledFile:
    """A file of a host that was changed, and what it was before."""

    file: str
    before: str | None
    """Base64 of its bytes; None: there was no such file."""
    written: str
    """SHA-256 of what was written."""
    folders: tuple[str, ...] = ()
    """The folders that were made for it, the inmost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstallation:
    """One host that calls Recordari, and where."""

    host: HostName
    place: Place
    project: str
    user: str
    tenant: str
    key_id: str
    files: tuple[InstalledFile, ...]
    prompts: bool = False
    file: str | None = None
    """The file that was named, for a generic host."""

    @property
    def name(self) -> str:
        return named(self.host, self.place, Path(self.project), self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """A host, and what its hooks did last."""

    host: str
    place: str
    user: str
    files: tuple[str, ...]
    changed_since: tuple[str, ...]
    """Files that somebody changed after the installation; ours may be gone from them."""
    calls: int
    away: int
    """Calls that found no server, such as those that started it: what they had to keep was sent later."""
    failed: int
    median_ms: float | None
    last: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsStatus:
    """All hosts of this machine."""

    hosts: tuple[HostStatus, ...]
    server: str
    paused: bool
    waiting: int
    """Messages that wait for the server."""
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to install, and where."""

    host: HostName
    place: Place = Place.USER
    project: Path = field(default_factory=Path.cwd)
    home: Path = field(default_factory=Path.home)
    user: str
    tenant: str = DEVELOPMENT_TENANT
    prompts: bool = False
    budget: int = BUDGET
    file: Path | None = None


def named(host: HostName, place: Place, project: Path, file: str | None) -> str:
    """The name of an installation, also of its file of settings."""
    if file is None and place is Place.USER:
        return str(host)
    return f"{host}-{sha256((file or str(project)).encode()).hexdigest()[:10]}"


async def install(resources: Resources, caller: Caller, request: Request) -> HostInstallation:
    """Write the host's settings, its hooks and a key of its own. Again, it brings all of that up to date."""
    settings, host = resources.settings, request.host
    _require_mcp()
    folder = folder_of(settings)
    name = named(host, request.place, request.project, str(request.file) if request.file else None)
    programs = programs_of(settings, request, folder / f"{name}.json")
    previous = next((each for each in installations(settings) if each.name == name), None)
    if previous is not None and previous.tenant != request.tenant:
        raise Conflict(f"it is installed for the tenant {previous.tenant!r}; uninstall it first")
    edits = planned(request, programs)
    texts = [_added(change, _before(change, previous)) for change in edits]  # fails before anything is written
    key = await tenants.create_key(*caller, f"{name} ({request.user})", user_id=request.user, agent_id=str(host))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    answers = {"answers": HOSTS[host].answers, "agent": str(host), "budget": request.budget, "seconds": SECONDS}
    try:
        files = _changed_files(edits, texts, previous)
    except InvalidInput:
        await tenants.revoke_key(*caller, key.key_id)
        raise
    private = {"prompts": request.prompts, "folder": str(folder), "key": key.key}
    _write(folder / f"{name}.json", json.dumps({**_server_of(settings), **answers, **private}))
    if previous is not None:
        await _revoke(caller, previous)
    made = HostInstallation(
        host=host,
        place=request.place,
        project=str(request.project),
        user=request.user,
        tenant=request.tenant,
        key_id=str(key.key_id),
        files=files,
        prompts=request.prompts,
        file=str(request.file) if request.file else None,
    )
    _save(settings, [each for each in installations(settings) if each.name != name] + [made])
    return made


async def uninstall(
    resources: Resources, caller: Caller, installation: HostInstallation, *, home: Path | None = None
) -> list[str]:
    """Remove Recordari from a host: a file that nobody changed since is as it was, byte for byte. Returns the files."""
    settings = resources.settings
    request = Request(
        host=installation.host,
        place=installation.place,
        project=Path(installation.project),
        home=home or Path.home(),
        user=installation.user,
        file=Path(installation.file) if installation.file else None,
    )
    folder = folder_of(settings)
    edits = planned(request, programs_of(settings, request, folder / f"{installation.name}.json"))
    for file, change in reversed([*zip(installation.files, edits, strict=True)]):
        _restore(file, change)
    await _revoke(caller, installation)
    remaining = [each for each in installations(settings) if each.name != installation.name]
    _save(settings, remaining)
    with suppress(FileNotFoundError):
        (folder / f"{installation.name}.json").unlink()
    if not remaining:
        stop_server(folder)
    return [file.file for file in installation.files]


def planned(request: Request, programs: Programs) -> list[Change]:
    if request.host is HostName.MCP:
        return [generic_change(request.file, programs)] if request.file is not None else []
    edits = changes(request.host, request.place, home=request.home, project=request.project, programs=programs)
    return [_existing_name(change) for change in edits]


def _existing_name(change: Change) -> Change:
    """OpenCode reads `opencode.jsonc` too: the one that exists is changed."""
    file = Path(change.file)
    other = file.with_suffix(".jsonc")
    return (
        replace(change, file=other) if file.name == "opencode.json" and not file.exists() and other.exists() else change
    )


def programs_of(settings: Settings, request: Request, file: Path) -> Programs:
    """The commands that the host runs. Without `site` Python starts in a fraction of the time."""
    command = [sys.executable, "-I", "-S", hosts.__file__, str(file)]
    tenant = [] if request.tenant == DEVELOPMENT_TENANT else ["--tenant", request.tenant]
    who = [*tenant, "--user", request.user, "--agent", str(request.host)]
    return Programs(
        hook=command,
        # A project is no place to import from, nor to read settings from.
        mcp=[sys.executable, "-P", "-m", "recordari", "mcp", "--settings", str(file), *who],
        plugin=_plugin(request.host, command),
    )


def printed_entry(settings: Settings, request: Request) -> dict[str, Any]:
    """The entry of the MCP server for a host that you change yourself: nothing is installed, and no secret is in it."""
    _require_mcp()
    mcp = [sys.executable, "-P", "-m", "recordari", "mcp", "--user", request.user, "--agent", str(request.host)]
    return server_entry(Programs(hook=[], mcp=mcp, environment=environment_of(settings)))


def _require_mcp() -> None:
    """Refuse to give a host a server that does not start."""
    if find_spec("mcp") is None:
        raise ConfigurationError("hosts use MCP, which needs a further package: pip install 'recordari[mcp]'")


def _plugin(host: HostName, command: Sequence[str]) -> str:
    """The plugin of a host that has one, with the command that it calls."""
    file = HOSTS[host].plugin
    if file is None:
        return ""
    head = PLUGIN.read_text("utf-8").replace("__COMMAND__", json.dumps(command))
    return f"{head}\n{PLUGIN.with_name(file).read_text('utf-8')}"


def environment_of(settings: Settings, *, secrets: bool = False) -> dict[str, str]:
    """The settings that were set, as environment variables; secrets only for files that nobody else can read."""
    shown = json.loads(settings.model_dump_json(include=settings.model_fields_set))
    environment = {}
    for name in sorted(shown):
        value = getattr(settings, name)
        is_secret = isinstance(value, SecretStr) or "key" in name
        if value is None or (is_secret and not secrets):
            continue
        plain = _revealed(value) if is_secret else shown[name]
        environment[f"RECORDARI_{name.upper()}"] = plain if isinstance(plain, str) else json.dumps(plain)
    return environment


def _revealed(value: Any) -> Any:
    if isinstance(value, list):
        return [_revealed(each) for each in value]
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _server_of(settings: Settings) -> dict[str, Any]:
    """The address of the server. Where it uses a database of yours, you start it yourself."""
    if settings.port == 0:
        raise ConfigurationError("hooks need a port that stays the same; set RECORDARI_PORT")
    start = [sys.executable, "-m", "recordari", "serve"] if settings.database_url is None else None
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104
    return {"host": host, "port": settings.port, "start": start, "environment": environment_of(settings, secrets=True)}


def folder_of(settings: Settings) -> Path:
    return settings.home.absolute() / "hosts"


def installations(settings: Settings) -> list[HostInstallation]:
    """What was installed on this machine."""
    try:
        stored = json.loads((folder_of(settings) / "installed.json").read_text("utf-8"))
    except FileNotFoundError:
        return []
    return [
        HostInstallation(
            **{
                **each,
                "host": HostName(each["host"]),
                "place": Place(each["place"]),
                "files": tuple(InstalledFile(**{**file, "folders": tuple(file["folders"])}) for file in each["files"]),
            }
        )
        for each in stored
    ]


def find_installation(
    settings: Settings, host: HostName, place: Place, project: Path, file: Path | None
) -> HostInstallation:
    name = named(host, place, project, str(file) if file else None)
    found = next((each for each in installations(settings) if each.name == name), None)
    if found is None:
        raise NotFound(f"Recordari is not installed in {HOSTS[host].title} there; `recordari status` lists where it is")
    return found


def set_paused(settings: Settings, *, paused: bool) -> None:
    """Let the hooks of all hosts do nothing, or go on."""
    file = folder_of(settings) / "paused"
    if paused:
        _write(file, "")
    else:
        file.unlink(missing_ok=True)


def status(settings: Settings) -> HostsStatus:
    """What is installed where, whether the server answers, and what the hooks did last."""
    folder = folder_of(settings)
    lines = _log_lines(folder)
    waiting = folder / "waiting"
    return HostsStatus(
        hosts=tuple(
            _host_status(each, [line for line in lines if line["agent"] == each.host])
            for each in installations(settings)
        ),
        server=_server_state(settings),
        paused=(folder / "paused").exists(),
        waiting=len(list(waiting.iterdir())) if waiting.exists() else 0,
        folder=str(folder),
    )


def _host_status(installation: HostInstallation, lines: Sequence[Mapping[str, Any]]) -> HostStatus:
    times = [line["milliseconds"] for line in lines]
    last = lines[-1] if lines else None
    return HostStatus(
        host=str(installation.host),
        place=installation.file or (installation.project if installation.place is Place.PROJECT else "every project"),
        user=installation.user,
        files=tuple(file.file for file in installation.files),
        changed_since=tuple(file.file for file in installation.files if not _is_as_written(file)),
        calls=len(lines),
        away=sum(line["outcome"].startswith(hook.AWAY) for line in lines),
        failed=sum(not line["outcome"].startswith(("ok", "paused", "ignored", hook.AWAY)) for line in lines),
        median_ms=round(statistics.median(times), 1) if times else None,
        last=None
        if last is None
        else f"{datetime.fromtimestamp(last['time'], UTC):%Y-%m-%d %H:%MZ} {last['event']}: {last['outcome']}",
    )


def _log_lines(folder: Path) -> list[dict[str, Any]]:
    try:
        written = (folder / "hook.log").read_text("utf-8").splitlines()[-READ_OF_LOG:]
    except FileNotFoundError:
        return []
    lines = []
    for line in written:
        with suppress(ValueError):
            lines.append(json.loads(line))
    return lines


def _server_state(settings: Settings) -> str:
    server = _server_of(settings)
    try:
        socket.create_connection((server["host"], server["port"]), timeout=1).close()
    except OSError:
        return "not running; a hook starts it" if server["start"] else "not running; start it with `recordari serve`"
    return f"running at {server['host']}:{server['port']}"


def _before(change: Change, previous: HostInstallation | None) -> bytes | None:
    """The bytes of a file without ours; None where there is no such file."""
    file = Path(change.file)
    try:
        current = file.read_bytes() if file.exists() else None
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}; nothing was changed") from None
    known = _known(previous, file)
    return current if known is None or current is None else _without_ours(change, known, current)


def _known(previous: HostInstallation | None, file: Path) -> InstalledFile | None:
    return next((each for each in (previous.files if previous else ()) if each.file == str(file)), None)


def _added(change: Change, before: bytes | None) -> tuple[bytes | None, bytes]:
    file = Path(change.file)
    text = change.empty if before is None else _text(file, before)
    try:
        return before, change.add(text if text.strip() else change.empty).encode()
    except RecordariError as error:
        raise type(error)(f"{file} was not changed, and neither was anything else: {error.message}") from None


def _text(file: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not UTF-8") from None


def _changed_files(
    edits: Sequence[Change], texts: Sequence[tuple[bytes | None, bytes]], previous: HostInstallation | None
) -> tuple[InstalledFile, ...]:
    """Write all files; where one cannot be written, those before it are as they were."""
    done: list[tuple[Path, bytes | None, InstalledFile]] = []
    for change, (before, after) in zip(edits, texts, strict=True):
        file = Path(change.file)
        current = file.read_bytes() if file.exists() else None
        try:
            done.append((file, current, _change(file, previous, before, after)))
        except OSError as error:
            for written, content, made in reversed(done):
                _put(written, content, made.folders)
            raise InvalidInput(f"cannot write {file}: {error.strerror}; nothing was changed") from None
    return tuple(made for _, _, made in done)


def _change(file: Path, previous: HostInstallation | None, before: bytes | None, after: bytes) -> InstalledFile:
    known = _known(previous, file)
    made = tuple(str(folder) for folder in file.parents if not folder.exists())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, after)
    except OSError:
        _remove_folders(made)
        raise
    return InstalledFile(
        file=str(file),
        before=None if before is None else b64encode(before).decode(),
        written=sha256(after).hexdigest(),
        folders=made or (known.folders if known is not None else ()),
    )


def _replace(file: Path, content: bytes) -> None:
    """Write a file at once, with its mode as it was; a link stays a link."""
    target = file.resolve()
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(content)
        if target.exists():
            part.chmod(target.stat().st_mode & 0o7777)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _restore(file: InstalledFile, change: Change) -> None:
    if (path := Path(file.file)).exists():
        _put(path, _without_ours(change, file, path.read_bytes()), file.folders)


def _without_ours(change: Change, file: InstalledFile, current: bytes) -> bytes | None:
    """The bytes of a file as they would be without ours; None where there would be no such file."""
    before = None if file.before is None else b64decode(file.before)
    if _is_as_written(file) or not current.strip():
        return before if current.strip() else current
    earlier = _text(Path(file.file), before or b"")
    try:
        text = change.remove(_text(Path(file.file), current), earlier if earlier.strip() else change.empty)
    except RecordariError as error:
        raise type(error)(f"{file.file} was not changed: {error.message}") from None
    return before if text.split() == change.empty.split() and not earlier.strip() else text.encode()


def _put(file: Path, content: bytes | None, folders: Sequence[str]) -> None:
    """Write a file, or remove it with the folders that were made for it; a link stays a link."""
    if content is not None:
        _replace(file, content)
        return
    file.resolve().unlink(missing_ok=True)
    _remove_folders(folders)


def _remove_folders(folders: Sequence[str]) -> None:
    for folder in folders:
        with suppress(OSError):  # it has other files
            Path(folder).rmdir()


def _is_as_written(file: InstalledFile) -> bool:
    path = Path(file.file)
    return path.exists() and sha256(path.read_bytes()).hexdigest() == file.written


async def _revoke(caller: Caller, installation: HostInstallation) -> None:
    with suppress(NotFound):
        await tenants.revoke_key(*caller, UUID(installation.key_id))


def _save(settings: Settings, all_of_them: Sequence[HostInstallation]) -> None:
    _write(folder_of(settings) / "installed.json", json.dumps([asdict(each) for each in all_of_them], indent=1))


def _write(file: Path, text: str) -> None:
    hook._write_private(str(file), text)
