"""Those who attack the walls: credentials of three tenants, each with words and ids that nobody else has."""

from __future__ import annotations

import random
import re
import string
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from drawing import ALIASES, Operation, Request, is_name
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db import outbox
from recordari.db.queries import Query
from recordari.schedule import JOBS
from recordari.sharing import share
from recordari.tenants import tenants

USERS = ("ana", "ben", "sam")
AGENTS = ("helper", "support")
COMMON = ("monday", "nightly")
"""Ids of a session and a run that everybody has."""
SHOP = "shop.db"
"""A database that can be connected; its folder is the server's `database_files`."""
HINTS: dict[str, list[Any]] = {
    "job": sorted(JOBS),
    "dsn": [f"sqlite:///{SHOP}"],
    "tables": [["goods"]],
    "sql": ["SELECT name FROM goods", "SELECT count(*) FROM goods"],
    "entity_type": ["user", "agent", "run", "app"],
    "time_zone": ["Africa/Dar_es_Salaam", "Europe/Lisbon"],
    "result_type": ["text/plain"],
    "language": ["english", "german"],
    "accept": [["merge"], []],
}
"""Values of fields whose schema does not say which there are."""
WANTED = {*HINTS, "text", "query", "user_id"}
DEAD_LETTERS = 20
UUIDS = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")


@dataclass(eq=False)
class Sender:
    """One credential with the things of its user; its words are never sent by anybody else."""

    tenant: str
    name: str
    key: str
    key_id: str
    draw: random.Random
    user: str | None = None
    is_bound: bool = False
    """Whether the key itself names the user; otherwise each request does."""
    is_admin: bool = False
    is_free: bool = False
    common_word: str = ""
    word: str = ""
    mark: str = ""
    ids: dict[str, list[str]] = field(default_factory=dict)
    others: list[Sender] = field(default_factory=list)
    seen: list[Sender] = field(default_factory=list)
    """Those whose things the sender rightly sees: an administrator's whole tenant, and the sender."""
    sent: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    """Ids of others that are also ours now, because we chose the same ones."""
    foreign: set[str] = field(default_factory=set)
    """Ids of others in the request that is being drawn."""
    refusals: Counter[str] = field(default_factory=Counter)
    keeps_own: bool = False
    """Whether the request that is being drawn must spare what is the sender's own."""
    bundles: dict[str, deque[dict[str, Any]]] = field(default_factory=dict)
    """Ids that belong together, such as a note and its session, by the operation that showed them."""
    bundle: dict[str, Any] = field(default_factory=dict)
    """The one that the request is being drawn from."""
    renamed: dict[str, str] = field(default_factory=dict)
    fresh: list[tuple[str, str]] = field(default_factory=list)
    """New ids in the request that is being drawn: ours once it succeeds."""
    exported: str = ""

    def __post_init__(self) -> None:
        self.word = self.word or "q" + "".join(self.draw.choices(string.ascii_lowercase, k=11))
        self.mark = "k" + "".join(self.draw.choices(string.ascii_lowercase + string.digits, k=9))

    def is_foreign_to(self, other: Sender) -> bool:
        return self.tenant != other.tenant or not (self is other or other.is_admin or self.user is None)

    def know(self, noun: str, value: str) -> None:
        known = self.ids.setdefault(noun.removesuffix("_id"), [])
        if value not in known and value != self.key_id:
            known.append(value)
            del known[:-200]

    def begin(self, draw: random.Random, operation: Operation) -> None:
        """Begin to draw a request: from things of somebody else that belong together, from our own, or from nothing."""
        self.foreign, self.fresh, self.bundle, self.renamed = set(), [], {}, operation.renamed
        self.keeps_own = self.is_admin and not self.is_free and not operation.reads_only
        kind, needed = draw.random(), operation.needs
        if needed and kind < 0.35:
            other = draw.choice(self.others)
            self.bundle = other.a_bundle(draw, needed)
            owned = {one for ids in other.ids.values() for one in ids} - self._known()
            self.foreign = {one for one in self.bundle.values() if isinstance(one, str) and one in owned}
            if not self.foreign or other.word in str(self.bundle) or other.common_word in str(self.bundle):
                self.bundle, self.foreign = {}, set()
        elif needed and kind < 0.75 and not self.keeps_own:
            self.bundle = self.a_bundle(draw, needed)

    def a_bundle(self, draw: random.Random, needed: frozenset[str]) -> dict[str, Any]:
        fitting = [one for bundles in self.bundles.values() for one in bundles if needed <= one.keys()]
        return draw.choice(fitting) if fitting else {}

    def end(self, request: Request, objects: list[dict[str, Any]]) -> None:
        """Note what a request that succeeded shows: which new ids are ours now, and what belongs together."""
        for noun, value in self.fresh:
            if value in str(request):
                self.know(noun, value)
        place = request.path.partition("?")[0] if request.operation == "furnish" else request.operation
        kept = self.bundles.setdefault(place, deque(maxlen=12))
        for values in objects[:6] or [{}]:
            shown = {ALIASES.get(name, name): value for name, value in values.items() if is_name(name)}
            bundle = {**request.names, **{name: one for name, one in shown.items() if isinstance(one, str)}}
            if bundle and self.key_id not in bundle.values() and "rcd_" not in str(bundle):
                kept.append(bundle)

    def fail(self) -> None:
        """Strike off what is not there any more."""
        for bundles in self.bundles.values():
            if self.bundle in bundles:
                bundles.remove(self.bundle)

    def a_value(self, draw: random.Random, name: str) -> Any:
        if name == "export":
            return self.exported
        if name in HINTS and draw.random() < 0.9:
            return draw.choice(HINTS[name])
        if name == "template" and draw.random() < 0.9:
            return draw.choice(AGENTS)
        if name == "tenant" and self.is_free and draw.random() < 0.9:
            return "grey" if self.name == "green" else "green"
        if name == "memories":
            ids = [self.an_id(draw, "item", is_uuid=True)]
            if not self.keeps_own and draw.random() < 0.6 and (own := self.a_bundle(draw, frozenset(["item_id"]))):
                ids = [own["item_id"]]
            return [{"memory_id": one, "text": self.a_text(draw, is_shared=self.user is None)} for one in ids]
        name = self.renamed.get(name, ALIASES.get(name, name))
        return self.bundle.get(name) if draw.random() < 0.95 else None

    def is_private(self, value: Any) -> bool:
        """Whether a value contains a text that only the sender's user may see."""
        return self.word != self.common_word and self.word in str(value)

    def wants(self, name: str) -> bool:
        return name in WANTED

    def _known(self) -> set[str]:
        return {
            one for seen in self.seen for one in (*seen.taken, *(each for ids in seen.ids.values() for each in ids))
        }

    def an_id(self, draw: random.Random, noun: str, *, is_uuid: bool) -> str:
        noun = ALIASES.get(noun, noun).removesuffix("_id")
        if noun in {"owner", ""}:
            noun = draw.choice(["session", "run"])
        kind = draw.random()
        if kind < 0.5 and (found := self._others_id(draw, noun, is_uuid)) is not None:
            self.foreign.add(found)
            return found
        if kind < 0.9 and not self.keeps_own and (own := self._own_id(draw, noun, is_uuid)) is not None:
            return own
        return self.new_id(draw, noun, is_uuid)

    def _others_id(self, draw: random.Random, noun: str, is_uuid: bool) -> str | None:
        if noun in {"agent", "key"} and not is_uuid and draw.random() < 0.5:
            return None
        other = draw.choice(self.others)
        # Ids that are made from names are the same for two owners of one name.
        taken = {one for seen in self.seen for one in (*seen.taken, *seen.ids.get(noun, ()))}
        pool = other.pool(noun, is_uuid) if noun not in {"user", "entity_name"} else [other.mark]
        found = [one for one in pool if one not in taken]
        return draw.choice(found) if found else None

    def _own_id(self, draw: random.Random, noun: str, is_uuid: bool) -> str | None:
        if not is_uuid:
            match noun:
                case "agent_type" | "task_type":
                    return "helper" if noun == "agent_type" else "reply"
                case "user" | "entity_name":
                    return self.user or "dora"
                case "agent":
                    return draw.choice(AGENTS)
                case "tenant":
                    return draw.choice(["green", "grey"] if self.is_free else ["red", "blue", "green"])
            if draw.random() < 0.2:
                return draw.choice(COMMON)
        found = self.pool(noun, is_uuid)
        return draw.choice(found) if found else None

    def pool(self, noun: str, is_uuid: bool) -> list[str]:
        known = list(self.ids.get(noun, ()))
        if is_uuid and not known:
            known = [one for ids in self.ids.values() for one in ids]
        return [one for one in known if bool(UUIDS.fullmatch(one)) is is_uuid or noun == "key"]

    def new_id(self, draw: random.Random, noun: str, is_uuid: bool) -> str:
        if is_uuid:
            return str(_uuid(draw))
        new = f"{self.mark}-{noun}-{draw.randrange(10**9)}"
        self.fresh.append((noun, new))
        return new

    def a_text(self, draw: random.Random, *, is_shared: bool) -> str:
        word = self.common_word if is_shared or self.user is None else self.word
        if draw.random() < 0.1:
            return word
        return f"{word} {draw.choice(['likes', 'keeps', 'moved to'])} {a_nonce(draw)}"


def a_nonce(draw: random.Random) -> str:
    return f"n{''.join(draw.choices(string.ascii_lowercase, k=8))}n"


def _uuid(draw: random.Random) -> str:
    digits = f"{draw.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


def lookalike(draw: random.Random, one: str) -> str:
    """An id of the same form that nobody has; one that contains a time keeps it, because lists are ordered by it."""
    if UUIDS.fullmatch(one):
        return one[:14] + _uuid(draw)[14:]
    _, dash, rest = one.partition("-")
    return "m" + "".join(draw.choices(string.ascii_lowercase + string.digits, k=9)) + dash + rest


def belongings(sender: Sender) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests that give a user one thing of each sort, under ids of the user's own and under common ones."""
    text = sender.word
    for session, run in ((f"{sender.mark}-session-1", f"{sender.mark}-run-1"), COMMON):
        yield "POST", "/v1/sessions", {"session_id": session, "metadata": {"of": text}}
        said = [{"content": f"{text} lives in Kendwa", "message_id": f"{sender.mark}-message-1"}]
        yield "POST", f"/v1/sessions/{session}/messages", {"messages": said}
        yield "POST", f"/v1/sessions/{session}/notes", {"content": f"a note of {text}"}
        yield "POST", "/v1/runs", {"run_id": run, "session_id": session, "input": {"of": text}}
        call = {"name": "look", "arguments": {"of": text}, "result": f"{text} " * 6_000}
        yield "POST", f"/v1/runs/{run}/tool_calls", {"calls": [call]}
        yield "PUT", f"/v1/state/session/{session}/draft", {"value": {"of": text}}
        yield "PUT", f"/v1/runs/{run}/delegated/goal", {"value": text}
    yield "POST", "/v1/items", {"content": f"{text} is here", "kind": "fact", "scope": "user"}
    yield "POST", "/v1/episodes", {"content": f"did it for {text}", "episode_id": f"{sender.mark}-episode-1"}
    yield "PUT", "/v1/entries", {"namespace": [text], "key": "pilau", "value": {"of": text}, "scope": "user"}


def readings(sender: Sender) -> Iterator[str]:
    """Where a user finds these things again."""
    for session, run in ((f"{sender.mark}-session-1", f"{sender.mark}-run-1"), COMMON):
        yield from (f"/v1/sessions/{session}{part}" for part in ("", "/messages", "/notes"))
        yield from (f"/v1/runs/{run}{part}" for part in ("", "/replay", "/delegated"))
        yield f"/v1/state/session/{session}/draft"
    yield from (
        "/v1/items?kind=fact&scope=user",
        "/v1/items?kind=tool_output&scope=session",
        "/v1/items?kind=episode&scope=user",
    )
    yield f"/v1/entries?namespace={sender.word}&key=pilau&scope=user"


async def make_senders(settings: Settings, seed: int) -> list[Sender]:
    """Keys of three tenants: users with the same names in two of them, and administrators."""
    senders: list[Sender] = []
    draw = random.Random(seed)
    async with Memory.open(settings=settings, worker=False) as memory:
        for tenant in ("red", "blue", "green", "grey"):
            made = await tenants.ensure_tenant(memory.resources, tenant)
            governing = memory.bound(Identity(tenant_id=made.tenant_id, role=Role.ADMIN))
            if tenant != "grey":  # it shares with green, and may see all that green sees
                common = "q" + "".join(draw.choices(string.ascii_lowercase, k=11))
            await _leave_dead_letters(governing)
            wanted: list[tuple[str, str | None, dict[str, Any]]] = [("admin", None, {"role": Role.ADMIN})]
            is_free = tenant in {"green", "grey"}
            if is_free:
                await share.add_member(memory.resources, "guild", tenant)
            else:
                await governing.save_user("dora")
                wanted += [(user, user, {"user_id": user}) for user in USERS]
                wanted += [("cleo", "cleo", {"users": ["cleo"]}), ("nobody", None, {"users": []})]
            for name, user, limits in wanted:
                key = await governing.create_key(name, **limits)
                sender = Sender(
                    tenant="green" if is_free else tenant,
                    name=tenant if is_free else name,
                    key=key.key,
                    key_id=str(key.key_id),
                    draw=random.Random(draw.random()),
                    user=user,
                    is_bound="user_id" in limits,
                    is_admin=name == "admin",
                    is_free=is_free,
                    common_word=common,
                    word=common if user is None else "",
                )
                sender.know("key", sender.key_id)
                senders.append(sender)
    return senders


async def _leave_dead_letters(memory: Memory) -> None:
    """Work that was given up, which an administrator may discard or run again."""
    async with memory.resources.database.transaction(memory.identity) as tx:
        await outbox.add(tx, "embed", [uuid4() for _ in range(DEAD_LETTERS)])
        await tx.run(
            Query(
                "bench.park",
                "Give all of it up.",
                "UPDATE outbox SET parked_at = now() WHERE tenant_id = %(tenant_id)s",
            )
        )
