"""Attack the walls between tenants and between users: every REST operation, every MCP tool and the feed, at random.

    python bench/isolation.py --requests 100000 --seed 1

Two tenants have users with the same names, each with a key of their own and with texts and ids that contain a mark of
theirs. A third tenant's administrator does whatever the API allows. Requests are drawn from the OpenAPI document and
from the tools' schemas, with ids of the sender, of others, and of nobody. Counted are

* answers with a text or an id of somebody else,
* ids of others that answer unlike ids that do not exist,
* answers of 5xx,
* things of the two users who send nothing (Sam in each tenant) that changed.

With `--owner` the server uses the database of that address, which `recordari db init` prepared, instead of an embedded one: for
a cluster, after `recordari db distribute`. Its tenants red, blue, green and grey must be new.

Ends with 1 if there is any. The same seed draws the same requests, as far as the answers are the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
from psycopg.conninfo import make_conninfo

from drawing import (
    ALIASES,
    PLACES,
    SHARED_SCOPES,
    STREAM,
    Drawing,
    Operation,
    Request,
    is_name,
    named_in,
    operations_of,
    resources_of,
    tools_of,
)
from recordari.config import Settings
from recordari.db.address import APP_LOGIN
from recordari.doors.mcp.profiles import PROFILES
from senders import AGENTS, COMMON, SHOP, UUIDS, Sender, a_nonce, belongings, lookalike, make_senders, readings

SILENT = "sam"
ACTING = ("Recordari-Agent", "Recordari-Session", "Recordari-Run")
CHOSEN_NAMES = {"session_id", "run_id", "message_id", "episode_id", "source_ref", "owner_id"}
"""Fields of ids that a caller chooses, and that may look like one of ours."""
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
TIMES = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?")
FLOATS = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
NONCES = re.compile(r"\bn[a-z]{8}n\b")
QUESTIONS = re.compile(r'[?&"](?:question|query)["=]')
CHOSEN = re.compile(r"\b[km][a-z0-9]{9}-[a-z_]+-\d+\b")
CURSORS = re.compile(r'"next_cursor":"[^"]*"')
WHOLE_TENANT = {
    *("sweep", "decay", "set_retention_policy", "set_privacy_policy", "update_tenant", "start_erasing_user"),
    *("mem0_delete_all", "mem0_delete_entity", "import_items", "import_export", "start_reembed", "enqueue_job"),
    *("accept_proposal", "delete_agent", "review_memory"),
}
"""What an administrator rightly does to all users of the tenant: left to the tenant that has nothing to lose."""
MORE_TRIES = 2
MORE_COMPARISONS = 8
"""Of two answers that differ, before the difference is held against the server: some answers are drawn by chance."""
BETWEEN_COMPARISONS = 1.0
"""Seconds; a degraded answer is used again for five, and must not be compared with one that is complete."""
BEAT = 0.5
STOPPED = 20.0
"""Seconds between two beats after which the campaign was stopped and continued, as for a measurement on a quiet machine."""
MOST_REFUSALS = 4
"""Of one operation to one sender, before it is seldom asked again."""
MOST_EXPORTED = 100_000
"""Characters of an export that is sent to be imported."""
SHOWN = 10
"""Findings of each sort that are printed whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    text: str

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_done(self) -> bool:
        """Whether what was asked for was done; the answer to a tool or a resource says so in its text."""
        return self.is_success and '"isError":true' not in self.text and '"error":{"code":' not in self.text

    @property
    def is_fault(self) -> bool:
        return self.status >= 500 or '"code":-32603' in self.text or '"text":"internal' in self.text

    def shape(self, *sent: str) -> tuple[int, str]:
        """The answer without what differs between two equal ones: ids, times, nonces."""
        text = self.text
        for one in sent:
            text = text.replace(one, "<id>")
        for pattern in (UUIDS, CHOSEN, TIMES, FLOATS, NONCES, CURSORS):
            text = pattern.sub("<>", text)
        return self.status, text


@dataclass
class Findings:
    """What was counted."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Counter[str]] = field(default_factory=dict)
    compared: int = 0
    waits: int = 0
    away: int = 0
    """Answers of 503 because a connection with the database was lost; the same request was answered when sent again."""
    wrong: dict[str, list[str]] = field(
        default_factory=lambda: {"foreign text": [], "foreign id": [], "unlike missing": [], "5xx": [], "changed": []}
    )

    def add(self, kind: str, sender: Sender, request: Request, said: str) -> None:
        who = f"{sender.tenant}/{sender.name}"
        found = f"request {self.requests}: {who} {request}\n      {said[:1500]}"
        self.wrong[kind].append(found)
        if len(self.wrong[kind]) <= SHOWN:
            print(f"{kind}: {found}", flush=True)


class Attack:
    """The campaign against one server."""

    def __init__(self, client: httpx2.AsyncClient, senders: list[Sender], operations: Sequence[Operation]) -> None:
        self._client = client
        self._senders = senders
        self.operations = operations
        self._owners: dict[str, Sender] = {}
        self._tenants: dict[str, str] = {}
        self._shared: dict[str, set[str]] = {}
        self._common: set[str] = set()
        self._continued = -math.inf
        self._words = re.compile("|".join({one.word for one in senders} | {one.common_word for one in senders}))
        self._marks = re.compile(rf"(?:{'|'.join(one.mark for one in senders)})(?:-[a-z_]+-\d+)?")
        self.findings = Findings()
        for sender in senders:
            sender.others = [other for other in senders if other.is_foreign_to(sender)]
            sender.seen = [other for other in senders if not other.is_foreign_to(sender)]

    async def run(self, requests: int, seconds: float) -> None:
        """Send until that many were sent or the time is over; in each round every sender who is not silent sends one."""
        until, furnished = time.monotonic() + seconds, self.findings.requests
        active = [sender for sender in self._senders if sender.name != SILENT]
        told = 0
        beating = asyncio.create_task(self._beat())
        while self.findings.requests - furnished < requests and time.monotonic() < until:
            await asyncio.gather(*(self._step(sender) for sender in active))
            if self.findings.requests - told >= 5_000:
                told = self.findings.requests
                wrong = {kind: len(found) for kind, found in self.findings.wrong.items()}
                print(f"{told:7} requests, {wrong}", flush=True)
        beating.cancel()

    async def _beat(self) -> None:
        """Note when the campaign, and the server with it, was stopped for a while: what was under way then ran out of time."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(BEAT)
            now = time.monotonic()
            if now - before > STOPPED:
                self._continued = now
            before = now

    async def _step(self, sender: Sender) -> None:
        operation = self._an_operation(sender)
        sender.begin(sender.draw, operation)
        headers = self._headers(sender, operation)
        drawing = Drawing(sender.draw, sender)
        request = drawing.request(operation, headers, is_shared=sender.user is None or sender.is_admin)
        if not self._common.isdisjoint(UUIDS.findall(str(request))):  # what is written over a shared text is shared too
            request = replace(request.replaced({sender.word: sender.common_word}), is_shared=True)
        foreign = {one for one in sender.foreign if one in str(request)}
        answer = await self.send(sender, request)
        if foreign and not answer.is_fault:
            await self._compare(sender, request, foreign, answer)
        elif answer.status == 404:
            sender.fail()

    def _an_operation(self, sender: Sender) -> Operation:
        """One of those that may be asked; of two, the one that succeeded less often."""
        found: list[Operation] = []
        while len(found) < 2:
            operation = sender.draw.choice(self.operations)
            if sender.is_admin and not sender.is_free and operation.name in WHOLE_TENANT:
                continue
            if sender.refusals[operation.name] < MOST_REFUSALS or sender.draw.random() < 0.1:
                found.append(operation)
        return min(found, key=lambda one: self.findings.succeeded[one.name])

    def _headers(self, sender: Sender, operation: Operation) -> dict[str, str]:
        headers = dict(MCP_HEADERS) if operation.path.startswith("/mcp") else {}
        for name in ACTING:
            if sender.draw.random() < (0.7 if name == ACTING[0] else 0.3):
                noun = name.removeprefix("Recordari-").lower()
                value = (
                    sender.draw.choice(AGENTS) if noun == "agent" else sender.an_id(sender.draw, noun, is_uuid=False)
                )
                headers[name] = value
        if sender.user is not None and (not sender.is_bound or sender.draw.random() < 0.5):
            headers["Recordari-User"] = sender.user
        if operation.method == "POST" and sender.draw.random() < 0.1:
            headers["Idempotency-Key"] = sender.an_id(sender.draw, "answer", is_uuid=False)
        return headers

    async def send(self, sender: Sender, request: Request) -> Answer:
        """Send, look at the answer, and learn its ids."""
        headers = {**request.headers, "Authorization": f"Bearer {sender.key}"}
        body = None if request.body is None else request.body.encode()
        if request.headers.get("Accept") == STREAM:
            answer = await self._listen(request, headers)
        else:
            response = await self._asked(request, headers, body)
            said = "\n".join(f"{name}: {value}" for name, value in response.headers.items() if name == "location")
            answer = Answer(status=response.status_code, text=response.text + said)
        findings = self.findings
        findings.requests += 1
        findings.statuses[answer.status] += 1
        findings.asked[request.operation] += 1
        if answer.is_done:
            findings.succeeded[request.operation] += 1
        else:
            said = " ".join(answer.shape()[1].split())[:160]
            findings.refused.setdefault(request.operation, Counter())[f"{answer.status} {said}"] += 1
        sender.refusals[request.operation] += answer.status in {401, 403}
        self._look(sender, request, answer)
        self._learn(sender, request, answer)
        if answer.is_done:
            # An id that somebody else has, too: we chose the same one.
            if not request.reads_only or any(
                one in request.headers.get(name, "") for one in sender.foreign for name in ACTING
            ):
                sender.taken |= {one for one in sender.foreign if _is_chosen(one, request)}
                sender.taken.update(self._marks.findall(str(request)))  # an import brings ids of others, too
            shown = list(_objects(answer.text))
            sender.end(request, [one for one in shown if any(name.endswith("_id") or name == "id" for name in one)])
            if request.operation == "export" and sender.is_free and "?" not in request.path:
                sender.exported = answer.text[:MOST_EXPORTED].rpartition("\n")[0] or answer.text
        return answer

    async def _asked(self, request: Request, headers: dict[str, str], body: bytes | None) -> httpx2.Response:
        """The answer; a server that is at capacity, was stopped, or closed an idle connection just then, is asked again."""
        cut = 0
        while True:
            started = time.monotonic()
            try:
                response = await self._client.request(request.method, request.path, headers=headers, content=body)
            except httpx2.TransportError:
                await asyncio.sleep(2 * BEAT)
                if (cut := cut + (self._continued < started)) > MORE_TRIES:
                    raise
                self.findings.waits += 1
                continue
            if response.status_code == 504:
                await asyncio.sleep(2 * BEAT)
                if self._continued > started:
                    self.findings.waits += 1
                    continue
            if response.status_code != 503:
                return response
            if '"overloaded"' in response.text:
                self.findings.waits += 1
                await asyncio.sleep(float(response.headers["retry-after"]))
            elif (cut := cut + 1) > MORE_TRIES:
                return response
            else:
                self.findings.away += 1
                await asyncio.sleep(2 * BEAT)

    async def _listen(self, request: Request, headers: dict[str, str]) -> Answer:
        """What a stream says in its first moments."""
        async with self._client.stream(request.method, request.path, headers=headers) as response:
            heard = b""
            try:
                async with asyncio.timeout(0.5):
                    async for part in response.aiter_bytes():
                        heard += part
            except TimeoutError:
                pass
            return Answer(status=response.status_code, text=heard.decode(errors="replace"))

    def _look(self, sender: Sender, request: Request, answer: Answer) -> None:
        sent = str(request)
        ids = {*self._marks.findall(sent), *UUIDS.findall(sent)}
        sender.sent |= ids
        if request.is_shared:  # who shares a text shows the session and the user that it comes from
            self._shared.setdefault(sender.tenant, set()).update(ids)
        if answer.is_fault:
            self.findings.add("5xx", sender, request, f"{answer.status} {answer.text}")
        for other in sender.others:
            words = {other.word} if other.tenant == sender.tenant else {other.word, other.common_word}
            for word in words:
                if word in answer.text:
                    self.findings.add("foreign text", sender, request, _around(word, answer.text))
        shared = self._shared.get(sender.tenant, set())
        for one in {*self._marks.findall(answer.text), *UUIDS.findall(answer.text)} - shared:
            owner, tenant = self._owner(one), self._tenants.get(one, sender.tenant)
            is_foreign = tenant != sender.tenant or (owner is not None and owner.is_foreign_to(sender))
            if is_foreign and not any(one in other.sent for other in sender.seen):
                self.findings.add("foreign id", sender, request, _around(one, answer.text))

    def _owner(self, one: str) -> Sender | None:
        if one[:1] == "k":
            return next((sender for sender in self._senders if one.startswith(sender.mark)), None)
        return self._owners.get(one)

    def _learn(self, sender: Sender, request: Request, answer: Answer) -> None:
        if not answer.is_success:
            return
        makes = answer.status == 201 or request.is_writing_tool or request.method in {"PUT", "PATCH"}
        for number, values in enumerate(_objects(answer.text)):
            if values.get("scope") in SHARED_SCOPES or (request.is_shared and makes):
                self._common.update(UUIDS.findall(str(values.get("item_id") or values.get("id"))))
                # The session that it comes from may be the successor of the one that was named.
                self._shared.setdefault(sender.tenant, set()).update(UUIDS.findall(str(values.get("session_id"))))
            shown = json.dumps([value for value in values.values() if not isinstance(value, (dict, list))])
            is_own = sender.user is not None and not sender.is_admin and not request.is_shared
            is_private = is_own and (sender.word in shown or (answer.status == 201 and number == 0))
            for name, value in values.items():
                if not isinstance(value, str) or not (name == "id" or name.endswith(("_id", "_key"))):
                    continue
                noun = ALIASES.get(name, name).removesuffix("_id")
                if UUIDS.fullmatch(value) and value not in sender.sent:
                    self._tenants.setdefault(value, sender.tenant)
                    if not is_private:
                        if sender.user is None:
                            sender.know(noun, value)
                        continue
                    self._owners.setdefault(value, sender)
                    sender.know(noun, value)
                elif noun == "key" and is_private and value not in str(request):
                    sender.know(noun, value)

    async def _compare(self, sender: Sender, request: Request, foreign: set[str], answer: Answer) -> None:
        """Ask the same with ids that do not exist. What differs only once has another reason."""
        self.findings.compared += 1
        first = answer.shape(*foreign)
        missing = await self._ask_missing(sender, request, foreign)
        if missing == first:
            return
        # What the first one made under ids of the sender must not meet the next one.
        is_made = answer.is_success and not request.reads_only
        own = {one for one in self._marks.findall(str(request)) if is_made and one.startswith(sender.mark)}
        for _ in range(MORE_COMPARISONS):
            await asyncio.sleep(BETWEEN_COMPARISONS)
            again = await self.send(sender, self._renewed(sender, request, _others(sender, own)))
            request = self._renewed(sender, request, _others(sender, own))
            if again.shape(*foreign) != first or await self._ask_missing(sender, request, foreign) != missing:
                return
        if foreign & (sender.taken | self._shared.get(sender.tenant, set())):
            return  # the sender gave the same id to something of its own meanwhile, or it is in what all users share
        self.findings.add("unlike missing", sender, request, f"{first}\n      {missing}")

    async def _ask_missing(self, sender: Sender, request: Request, foreign: set[str]) -> tuple[int, str]:
        changes = _others(sender, foreign)
        answer = await self.send(sender, self._renewed(sender, request, changes))
        return answer.shape(*changes.values(), *foreign)

    def _renewed(self, sender: Sender, request: Request, changes: dict[str, str]) -> Request:
        # What is written twice must differ; a question must not, or its answer may.
        written = () if QUESTIONS.search(str(request)) else NONCES.findall(str(request))
        nonces = {one: a_nonce(sender.draw) for one in sorted(set(written))}
        renewed = request.replaced({**nonces, **changes})
        if "Idempotency-Key" in renewed.headers:
            renewed.headers["Idempotency-Key"] = lookalike(sender.draw, "k-answer-1")
        return renewed


def _is_chosen(one: str, request: Request) -> bool:
    """Whether a request names something of the sender by that id: one of ours never names anything that is new."""
    if not UUIDS.fullmatch(one):
        return one in str(request)
    named = [value for name, value in request.names.items() if name in CHOSEN_NAMES]
    return one in named or one in (request.headers.get(name) for name in ACTING)


def _others(sender: Sender, ids: set[str]) -> dict[str, str]:
    return {one: lookalike(sender.draw, one) for one in sorted(ids, key=lambda one: (-len(one), one))}


def _around(found: str, text: str) -> str:
    at = text.find(found)
    return f"{found}: … {text[max(0, at - 400) : at + 200]} …"


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in a text, also those inside others and in the texts of tools."""
    for line in (text, *text.splitlines()):
        try:
            waiting = [json.loads(line.removeprefix("data: "))]
        except ValueError:
            continue
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                yield value
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
        return


async def furnish(attack: Attack, sender: Sender) -> None:
    acting = {"Recordari-Agent": "helper", "Recordari-User": str(sender.user)}
    for method, path, body in belongings(sender):
        headers = {**acting, "Content-Type": "application/json"}
        names = {name: value for name, value in body.items() if is_name(name) or name in PLACES}
        request = Request(
            operation="furnish",
            method=method,
            path=path,
            headers=headers,
            body=json.dumps(body),
            names={**names, **named_in(attack.operations, method, path)},
        )
        answer = await attack.send(sender, request)
        if not answer.is_success:
            sys.exit(f"{request}: {answer}")
    for noun in ("session", "run", "message", "episode"):
        sender.know(noun, f"{sender.mark}-{noun}-1")
    for key in ("draft", "pilau"):
        sender.know("key", key)
    await look_after(attack, sender)


async def furnish_tenant(attack: Attack, sender: Sender) -> None:
    """What an administrator makes, whose ids others try."""
    text, ends = sender.common_word, "application/octet-stream"
    things: list[tuple[str, str, Any]] = [
        *(("PUT", f"/v1/agents/{agent}", {"core": text}) for agent in AGENTS),
        ("PUT", f"/v1/users/{sender.mark}", {"display_name": text}),
        ("POST", "/v1/sources", {"name": text, "description": text}),
        ("POST", f"/v1/documents?name={text}.md&source={text}", f"{text} opens at nine."),
        ("PUT", "/v1/workflows", {"name": text, "spec": {"of": text}, "agent_type": "helper", "task_type": "reply"}),
        ("POST", "/v1/reports/daily_brief", {}),
        ("POST", "/v1/jobs", {"job": "measure_usage"}),
        ("POST", "/v1/keys", {"name": text}),
        ("POST", "/v1/databases", {"name": text, "dsn": f"sqlite:///{SHOP}", "tables": ["goods"]}),
    ]
    if sender.is_free:  # facts to compare, for the judge and for proposals
        for number, (first, then) in enumerate((("Lamu", "Pemba"), ("Mafia", "Kilwa"), ("Tanga", "Moshi"))):
            texts = [f"lives in {first}", f"lives in {then}", f"lives in {first} now", "drinks coffee without sugar"]
            said = [f"{text}{number} {one}" for one in (*texts, "drinks his coffee without sugar")]
            things += [("POST", "/v1/remember_fact", {"content": one, "scope": "tenant"}) for one in said]
        things.append(("POST", "/v1/proposals/review", {}))
    for method, path, body in things:
        is_text = isinstance(body, str)
        request = Request(
            operation="furnish",
            method=method,
            path=path,
            headers={"Content-Type": ends if is_text else "application/json"},
            body=body if is_text else json.dumps(body),
            is_shared=True,
        )
        answer = await attack.send(sender, request)
        if not answer.is_success:
            sys.exit(f"{request}: {answer}")

    if sender.is_free:
        await attack.send(sender, Request(operation="export", method="GET", path="/v1/export"))


async def look_after(attack: Attack, sender: Sender) -> None:
    """Read all things of a user, who must still have them."""
    acting = {"Recordari-Agent": "helper", "Recordari-User": str(sender.user), "Recordari-Session": COMMON[0]}
    for path in readings(sender):
        names = named_in(attack.operations, "GET", path)
        request = Request(operation="furnish", method="GET", path=path, headers=acting, names=names)
        answer = await attack.send(sender, request)
        if not answer.is_success or sender.word not in answer.text:
            attack.findings.add("changed", sender, request, f"{answer.status} {answer.text}")


async def known_operations(client: httpx2.AsyncClient, key: str) -> list[Operation]:
    """What the server says of itself."""
    operations = list(operations_of((await client.get("/openapi.json")).json()))
    headers = {**MCP_HEADERS, "Authorization": f"Bearer {key}"}
    for profile in PROFILES:
        path = "/mcp" if profile == "default" else f"/mcp/{profile}"
        for method, named in (
            ("tools/list", tools_of),
            ("resources/list", resources_of),
            ("resources/templates/list", resources_of),
        ):
            asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
            answer = await client.post(path, json=asked, headers=headers)
            operations += named(path, answer.json()["result"])
    return operations


@asynccontextmanager
async def serving(folder: Path, owner: str | None) -> AsyncIterator[tuple[Settings, str]]:
    """A server with its worker on a database of its own, or on that of an owner's address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    addresses: dict[str, Any] = (
        {} if owner is None else {"database_url": make_conninfo(owner, user=APP_LOGIN), "database_owner_url": owner}
    )
    settings = Settings(home=folder / "home", embedding_profile="fast", **addresses)
    with sqlite3.connect(folder / SHOP) as shop:
        shop.execute("CREATE TABLE goods (name text, price integer)")
    environment = {
        **os.environ,
        **{f"RECORDARI_{name.upper()}": address for name, address in addresses.items()},
        "RECORDARI_HOME": str(settings.home),
        "RECORDARI_PORT": str(port),
        "RECORDARI_EMBEDDING_PROFILE": "fast",
        "RECORDARI_RATE_LIMIT": "",
        "RECORDARI_LOG_LEVEL": "error",
        "RECORDARI_REQUEST_TIMEOUT": "120",
        "RECORDARI_DATABASE_FILES": str(folder),
        "RECORDARI_ALLOW_PRIVATE_ADDRESSES": json.dumps(["webhooks"]),
    }
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "recordari", "serve"], env=environment, stdout=log, stderr=log
        )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=5) as client:
            for _ in range(1200):
                if process.poll() is not None:
                    sys.exit((folder / "server.log").read_text())
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        break
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.1)
        yield settings, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def report(findings: Findings, operations: Sequence[Operation], seconds: float) -> bool:
    """Print the figures; True if nothing is wrong."""
    names = {operation.name for operation in operations}
    never = sorted(names - set(findings.succeeded))
    print(f"{findings.requests} requests in {seconds:.0f} s, {findings.waits} sent again because the server was busy")
    print(f"{findings.away} sent again because the database was away")
    print(f"answers {dict(sorted(findings.statuses.items()))}")
    print(
        f"{len(names & set(findings.asked))} of {len(names)} operations asked, {len(names) - len(never)} with success"
    )
    print(f"never with success: {len(never)}")
    for name in never:
        often = findings.refused.get(name, Counter()).most_common(3)
        print(f"  {name}: " + "; ".join(f"{times} × {said}" for said, times in often))
    print(f"{findings.compared} requests with ids of others, each compared with ids that do not exist")
    for kind, found in findings.wrong.items():
        print(f"{kind}: {len(found)}")
    return not any(findings.wrong.values())


async def campaign(requests: int, seconds: float, seed: int, folder: Path, owner: str | None) -> bool:
    async with serving(folder, owner) as (settings, address):
        senders = await make_senders(settings, seed)
        async with httpx2.AsyncClient(base_url=address, timeout=150) as client:
            operations = await known_operations(client, senders[0].key)
            attack = Attack(client, senders, operations)
            for sender in senders:
                if sender.is_admin:
                    await furnish_tenant(attack, sender)
                elif sender.user is not None:
                    await furnish(attack, sender)
            started = time.monotonic()
            await attack.run(requests, seconds)
            for sender in senders:
                if sender.name == SILENT:
                    await look_after(attack, sender)
            return report(attack.findings, operations, time.monotonic() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after that long with what was sent")
    parser.add_argument("--owner", help="the owner's address of a prepared database, in place of an embedded one")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="recordari-isolation-"))
    folder.chmod(0o755)  # an unprivileged user runs the database when we are root
    held = asyncio.run(campaign(given.requests, given.seconds, given.seed, folder, given.owner))
    if not held:
        sys.exit(f"something got through; repeat with --seed {given.seed}; the log is {folder / 'server.log'}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
