"""What the hooks of a coding agent do: show what is known, and keep what is said.

It imports little of the standard library and nothing else, because a host waits for it. It never fails: whatever goes wrong,
the host gets an empty answer, the log a line, and what was to be kept waits in a folder for the next call.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time

from recordari.hosts.rules.capture import digest, is_ignored, marks_of, outside_blocks, storable, texts_in, without

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module `typing` takes as long to import as all others
    from typing import Any

KEPT_FOR_LATER, SENT_AT_ONCE = 500, 50  # requests that wait at most, and that one call sends
LONGEST_TEXT = 12_000  # characters of an answer or a tool's result
LONGEST_LOG, OLDEST_STATE = 256 * 1024, 30 * 86_400.0  # bytes, seconds
AWAY = "the server is away"
MOST_KNOWN = 4_000  # marks of a session
HERE = frozenset({"127.0.0.1", "localhost", "[::1]", "0.0.0.0"})  # noqa: S104  # names of this machine in an address

_FILE_TOOLS = frozenset("Edit MultiEdit Write NotebookEdit apply_patch write_file replace edit write patch".split())
_OUR_COMMAND = re.compile(
    r"(?:^|[\s/;&|(])recordari\s+(?:-\S+\s+)*(?:recall|ask|context|profile|facts|sessions|runs|document|source|proposals|export|import|mcp)\b"
)
_BETWEEN_WORDS = re.compile(r"[\s<>|;&()=,'\"`$]+")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


class Away(Exception):
    """The server does not answer."""


class Server:
    """One connection to the server; every request must be answered before the deadline."""

    def __init__(self, settings: dict[str, Any], deadline: float) -> None:
        self._settings = settings
        self._deadline = deadline
        self._socket: socket.socket | None = None
        self._rest = b""
        self.is_down = False
        """Whether nobody listens."""

    def send(self, method: str, path: str, body: object = None, *, session: str | None = None) -> Any:
        """The answer to a request, or None where the server refuses it."""
        content = b"" if body is None else json.dumps(body).encode()
        name = self._settings["host"]
        host = f"[{name}]:{self._settings['port']}" if ":" in name else f"{name}:{self._settings['port']}"
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {self._settings['key']}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        lines += [f"Recordari-Session: {session}"] if session else []
        try:
            connection = self._connected()
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + content)
            status, answer = self._answer(connection)
        except (OSError, ValueError) as error:
            self.is_down = isinstance(error, ConnectionRefusedError)
            raise Away(type(error).__name__) from None
        if status > 500 or status == 429:  # 500: it would fail again, and must not hold up what comes after it
            raise Away(str(status))
        return json.loads(answer or b"null") if status < 300 else None

    def _connected(self) -> socket.socket:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Away("late")
        if self._socket is None:
            self._socket = socket.create_connection((self._settings["host"], self._settings["port"]), timeout=left)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _unlink(os.path.join(self._settings["folder"], "starting"))  # if it dies, it may be started at once
        self._socket.settimeout(left)
        return self._socket

    def _answer(self, connection: socket.socket) -> tuple[int, bytes]:
        received = self._rest
        while b"\r\n\r\n" not in received:
            received += self._received(connection)
        head, _, body = received.partition(b"\r\n\r\n")
        names = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
        length = int(names.get(b"content-length", b"0"))
        while len(body) < length:
            body += self._received(connection)
        self._rest = body[length:]
        return int(head.split(b" ", 2)[1]), body[:length]

    def _received(self, connection: socket.socket) -> bytes:
        connection.settimeout(max(0.01, self._deadline - time.monotonic()))
        received = connection.recv(65_536)
        if not received:
            raise ConnectionResetError
        return received


class Hook:
    """One call of the hook."""

    def __init__(self, settings: dict[str, Any], name: str, given: dict[str, Any]) -> None:
        self.settings = settings
        self.name = name  # of the installation: what waits is sent with the key of the host that kept it
        self.given = given
        self.session = str(given.get("session_id") or given.get("conversation_id") or "")[:200]
        roots = given.get("workspace_roots") or [os.getcwd()]
        self.cwd = str(given.get("cwd") or roots[0])
        self.root = _project_root(self.cwd)
        self.project = os.path.basename(self.root)[:200] or "root"
        self.ignored = _ignored(self.root)
        self.server = Server(settings, time.monotonic() + settings["seconds"])
        self.outcome = "ok"
        self._state_file = os.path.join(settings["folder"], "state", digest(f"{settings['agent']} {self.session}"))
        self.state: dict[str, Any] = {"opened": False, "shown": False, "known": [], "notice": [], "files": []}

    def run(self, event: str) -> str | None:
        """The context to show the model, if there is one."""
        if "*" in self.ignored or not self.session:
            self.outcome = "ignored"
            return None
        self.state.update(_read_json(self._state_file) or {})
        before = dict(self.state)
        shown: str | None = getattr(self, f"_{event}")()
        if self.state != before:
            self._save(before)
        return shown

    def _save(self, before: dict[str, Any]) -> None:
        """Write what changed: a host calls the hook for several tools at once."""
        import fcntl

        folder = os.path.dirname(self._state_file)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = os.open(f"{folder}.lock", os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            now = _read_json(self._state_file) or {}
            _write_private(self._state_file, json.dumps(_merged(before, self.state, now)))
        finally:
            os.close(lock)

    def _start(self) -> str | None:
        _forget_old(os.path.dirname(self._state_file))
        try:
            self._open()
            return self._context(None)
        except Away as error:
            self._away(error)
            return None  # the first prompt brings it

    def _prompt(self) -> str | None:
        # A person may say again what is known, but pastes no notice of ours.
        text = without(str(self.given.get("prompt") or ""), self.state["notice"])
        shown = None
        try:
            self._open()
            question = text.strip()[:8_000] if self.settings.get("prompts") else None
            if not self.state["shown"] or question:
                shown = self._context(question if self.state["shown"] else None)
        except Away as error:
            self._away(error)
        if text.strip() and not re.fullmatch(r"/[\w:-]+", text.strip()):
            self._keep([{"role": "user", "content": _clipped(text)}])
        return shown

    def _tool(self) -> None:
        name = str(self.given.get("tool_name") or "")
        arguments = self.given.get("tool_input")
        arguments = arguments if isinstance(arguments, dict) else {}
        result = self.given.get("tool_response", self.given.get("output"))
        asked = str(
            arguments.get("command")
            or arguments.get("url")
            or arguments.get("query")
            or self.given.get("command")
            or ""
        )
        servers = [f"{host}:{self.settings['port']}/" for host in {*HERE, self.settings["host"]}]
        is_ours = "recordari" in name or _OUR_COMMAND.search(asked) or any(server in asked for server in servers)
        if is_ours:  # what it says is known
            self._know(texts_in(result))
            return
        path = (
            arguments.get("file_path")
            or arguments.get("path")
            or arguments.get("filePath")
            or self.given.get("file_path")
        )
        if name in _FILE_TOOLS or (not name and path):
            patched = _PATCHED.findall(
                str(arguments.get("input") or arguments.get("command") or arguments.get("patchText") or "")
            )
            for changed in patched or ([path] if path else []):
                shown = os.path.relpath(os.path.join(self.cwd, str(changed)), self.root)
                if not is_ignored(shown, self.ignored) and shown not in self.state["files"]:
                    self.state["files"] = [*self.state["files"], shown][-50:]
            return
        text = self._without_echo(_clipped("\n".join(texts_in(result))))
        if text.strip() and not any(is_ignored(word, self.ignored) for word in _BETWEEN_WORDS.split(asked)):
            self._keep(
                [{"role": "tool", "content": f"{name or 'shell'}: {asked[:500]}\n{text}", "speaker": name or "shell"}]
            )

    def _stop(self) -> None:
        given = self.given
        said = given.get("last_assistant_message") or given.get("prompt_response") or given.get("text")
        text = self._without_echo(_clipped(str(said or "")))
        messages = [{"role": "assistant", "content": text}] if text.strip() else []
        if self.state["files"]:
            changed = ", ".join(self.state["files"])
            messages.append({"role": "tool", "content": f"Changed files: {changed}", "speaker": "files"})
            self.state["files"] = []
        if messages:
            self._keep(messages)

    def _compact(self) -> None:
        """All that was said is kept already; what waits is sent now, and the next context repeats the session."""
        self.state["shown"] = False
        try:
            self._send_kept()
        except Away as error:
            self._away(error)

    def _end(self) -> None:
        self._write("POST", f"/v1/sessions/{_quoted(self.session)}/close", None)

    def _open(self) -> None:
        if not self.state["opened"]:
            self.server.send("POST", "/v1/sessions", self._session())
            self.state["opened"] = True
        self._send_kept()

    def _session(self) -> dict[str, Any]:
        metadata = {"project": self.project, "host": self.settings["agent"]}
        return {"session_id": self.session, "metadata": metadata}

    def _context(self, question: str | None) -> str | None:
        body = {"profile": "start", "project": self.project, "budget": self.settings["budget"]}
        if question:
            body["question"] = question
        context = self.server.send("POST", "/v1/context", body, session=self.session)
        self.state["shown"] = True
        texts = [
            item["content"]
            for section in (context or {}).get("sections", ())
            if section["name"] != "knowledge_map"
            and not (question and section["name"] in {"profile", "shared", "summary"})
            for item in section["items"]
        ]
        if not texts:
            return None
        self._know(texts)
        self.state["notice"] = marks_of(outside_blocks(context["text"]))
        return str(context["text"])

    def _know(self, texts: list[str]) -> None:
        """Note what the model was shown, as hashes, so that its answers do not bring it back as something new."""
        known = dict.fromkeys(self.state["known"])
        known.update(dict.fromkeys(mark for text in texts for mark in marks_of(text)))
        self.state["known"] = list(known)[-MOST_KNOWN:]

    def _without_echo(self, text: str) -> str:
        return without(text, self.state["known"] + self.state["notice"])

    def _keep(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            message["content"] = storable(message["content"])
            message["metadata"] = {"project": self.project}
            message["message_id"] = os.urandom(12).hex()
        self._write("POST", f"/v1/sessions/{_quoted(self.session)}/messages", {"messages": messages})

    def _write(self, method: str, path: str, body: dict[str, Any] | None) -> None:
        """Send a change to the server; where it is away, keep the change for the next call."""
        try:
            self._open()
            if self.server.send(method, path, body) is None:
                self.outcome = "refused"
        except Away as error:
            self._away(error)
            folder = os.path.join(self.settings["folder"], "waiting")
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if len(os.listdir(folder)) >= KEPT_FOR_LATER:
                self.outcome = f"not kept: {KEPT_FOR_LATER} wait already"
                return
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for message in (body or {}).get("messages", ()):
                message["event_time"] = moment
            kept = {
                "method": method,
                "path": path,
                "body": _masked(body),
                "session": self.session,
                "project": self.project,
            }
            _write_private(os.path.join(folder, f"{time.time_ns():020}.{self.name}.json"), json.dumps(kept))

    def _send_kept(self) -> None:
        """Send what waits, oldest first; the server knows a message that it has already."""
        folder = os.path.join(self.settings["folder"], "waiting")
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(f".{self.name}.json"))[:SENT_AT_ONCE]
        except OSError:
            return
        for name in names:
            file = os.path.join(folder, name)
            kept = _read_json(file)
            if kept is not None:
                opened = {
                    "session_id": kept["session"],
                    "metadata": {"project": kept["project"], "host": self.settings["agent"]},
                }
                self.server.send("POST", "/v1/sessions", opened)
                self.server.send(kept["method"], kept["path"], kept["body"])
            _unlink(file)

    def _away(self, error: Away) -> None:
        self.outcome = f"{AWAY} ({error})"
        if self.server.is_down:  # one that is only slow runs
            from recordari.hosts.process import start_server

            start_server(self.settings)


def _project_root(folder: str) -> str:
    """The folder of the git repository; where there is none, that of the nearest `.recordariignore`."""
    for mark in (".git", ".recordariignore"):
        current = folder
        while True:
            if os.path.lexists(os.path.join(current, mark)):
                return current
            parent = os.path.dirname(current)
            if parent == current:
                break
            current = parent
    return folder


def _ignored(root: str) -> list[str]:
    """The patterns of `.recordariignore`; `*` alone keeps nothing of the project."""
    try:
        with open(os.path.join(root, ".recordariignore"), encoding="utf-8-sig") as file:
            return [line.strip() for line in file if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        return []
    except (OSError, ValueError):  # there is one, and nobody knows what it says
        return ["*"]


def _merged(before: dict[str, Any], ours: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Our changes of a state on top of what another call has written since."""
    merged = {**ours, **now}
    for name, value in ours.items():
        earlier = before.get(name)
        if isinstance(value, list):
            gone = {*(earlier or ())} - {*value}
            kept = dict.fromkeys(one for one in merged[name] if one not in gone)
            kept.update(dict.fromkeys(one for one in value if one not in (earlier or ())))
            merged[name] = list(kept)
        elif value != earlier:
            merged[name] = value
    return merged


def _clipped(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    text = _without_secrets(text)  # before half of one is cut off, so that the rest cannot be recognised
    return f"{text[: LONGEST_TEXT * 2 // 3]}\n…\n{text[-LONGEST_TEXT // 3 :]}"


def _masked(body: Any) -> Any:
    """The same without secrets: what waits is on the disk, and the server's own masks come later."""
    if isinstance(body, dict):
        return {name: _masked(part) for name, part in body.items()}
    if isinstance(body, list):
        return [_masked(part) for part in body]
    return _without_secrets(body) if isinstance(body, str) else body


def _without_secrets(text: str) -> str:
    # Only here: these rules are rarely needed, since the server has them too.
    from recordari.privacy.rules.findings import PreparedText
    from recordari.privacy.rules.secrets import secrets_in

    for finding in sorted(secrets_in(PreparedText.of(text)), key=lambda finding: -finding.start):
        text = text[: finding.start] + finding.type.mask + text[finding.end :]
    return text


def _quoted(name: str) -> str:
    return "".join(
        c if (c.isalnum() and c.isascii()) or c in "-._~" else "".join(f"%{b:02X}" for b in c.encode()) for c in name
    )


def _read_json(file: str) -> Any:
    try:
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)
    except (OSError, ValueError):
        return None


def _write_private(file: str, text: str) -> None:
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    part = f"{file}.{os.getpid()}"
    with open(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)
    os.replace(part, file)


def _unlink(file: str) -> None:
    try:
        os.unlink(file)
    except OSError:
        pass


def _forget_old(folder: str) -> None:
    try:
        for entry in os.scandir(folder):
            if time.time() - entry.stat().st_mtime > OLDEST_STATE:
                _unlink(entry.path)
    except OSError:
        pass


def _log(folder: str, **line: object) -> None:
    """One line for each call, without content."""
    file = os.path.join(folder, "hook.log")
    try:
        if os.path.exists(file) and os.path.getsize(file) > LONGEST_LOG:
            os.replace(file, f"{file}.1")
        with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "w", encoding="utf-8") as opened:
            opened.write(json.dumps({"time": time.time(), **line}) + "\n")
    except OSError:
        pass


def main(arguments: list[str]) -> None:
    started = time.perf_counter()
    settings = _read_json(arguments[1])
    if settings is None:
        print("{}")  # noqa: T201
        return
    event, outcome = arguments[2], "paused"
    answer: dict[str, Any] = {}
    if not os.path.exists(os.path.join(settings["folder"], "paused")):
        try:
            given = json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
            hook = Hook(settings, os.path.basename(arguments[1]).removesuffix(".json"), given)
            context = hook.run(event)
            outcome = hook.outcome
            if context:
                answer = {settings["answers"]: context}
                if settings["answers"] == "hookSpecificOutput":
                    shown = {"hookEventName": given.get("hook_event_name"), "additionalContext": context}
                    answer = {"hookSpecificOutput": shown}
        except Exception as error:  # noqa: BLE001  # a host must never fail because of us
            outcome = f"failed: {type(error).__name__}"
    print(json.dumps(answer))  # noqa: T201
    milliseconds = round((time.perf_counter() - started) * 1000, 1)
    _log(settings["folder"], agent=settings["agent"], event=event, milliseconds=milliseconds, outcome=outcome)
