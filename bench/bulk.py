"""A bulk import over REST, and recall over REST for one owner of many items.

    python bench/bulk.py [--items 10000,100000] [--questions 200] [--clients 16] [--profile fast] [--facts]
        [--home FOLDER [--again]]

Server, worker and PostgreSQL are processes of their own. For each number one user imports as many messages by one
`POST /v1/import`, which streams them as lines. Printed: items a second until the answer, how much later everything is
done that follows from them, CPU of each process for an item; then, once the vector index is built, for which a job looks a
minute after an import, recall with a new question each, by one client and by many. Facts are taken from the messages only
with `--facts`. With `--again` nothing is imported: the owners that the folder has are asked, so that two checkouts (`--source`)
can be compared in turn. Writes `bench/results/bulk.json`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from serving import RESULTS, ROOT, Client, Processes, Times, World, folder, running, wait_until_idle

CHUNK = 200  # lines that the client sends at a time
WARMING = 60  # questions before the clock runs: a memory of 10,000 items is kept in the process after 27


def lines(world: World, many: int) -> Iterator[bytes]:
    """Chunks of lines, one message each."""
    chunk: list[bytes] = []
    for number in range(many):
        item = {"content": world.said(), "scope": "user", "source_ref": f"bulk-{number}"}
        chunk.append(json.dumps(item).encode() + b"\n")
        if len(chunk) == CHUNK:
            yield b"".join(chunk)
            chunk = []
    yield b"".join(chunk)


def import_items(processes: Processes, user: str, many: int) -> dict[str, Any]:
    """Import messages of a user; the texts are made before the clock runs."""
    body, client = list(lines(World(many), many)), Client(processes)
    headers = client.head | {"Content-Type": "application/x-ndjson", "Recordari-User": user}
    connection = http.client.HTTPConnection("127.0.0.1", processes.port, timeout=3_600)
    before, start = processes.cpu(), time.perf_counter()
    connection.request("POST", "/v1/import", iter(body), headers, encode_chunked=True)
    answer = connection.getresponse()
    text = answer.read()
    passed = time.perf_counter() - start
    if answer.status >= 300:
        raise SystemExit(f"POST /v1/import: {answer.status} {text[:300]!r}")
    wait_until_idle(processes)
    settled, after = time.perf_counter() - start - passed, processes.cpu()
    cpu = {name: (after[name] - before[name]) / many * 1000 for name in after}
    return {"items": many, "items_a_second": many / passed, "settled_seconds": settled, "cpu": cpu}


def wait_for_jobs(processes: Processes) -> float:
    """Wait for the jobs that are due or run; returns the seconds that it took."""
    client, start = Client(processes, "admin"), time.perf_counter()
    while any(client.ask("GET", "/v1/jobs/counts")["jobs"].get(status) for status in ("todo", "doing")):
        time.sleep(0.5)
    return time.perf_counter() - start


def recall(processes: Processes, user: str, questions: int, clients: int) -> dict[str, Any]:
    """Latency of one client, and answers a second of many."""
    times, client, world = Times(), Client(processes), World(time.time_ns())

    def ask(client: Client, world: World) -> None:
        found = client.ask("POST", "/v1/recall", {"query": world.asked()}, user=user)
        if not found["items"]:
            raise SystemExit("a recall found nothing")

    for _ in range(WARMING):
        ask(client, world)
    before = processes.cpu()
    for _ in range(questions):
        times.run("recall", lambda: ask(client, world))
    after = processes.cpu()
    share = max(1, questions // clients)

    def work(number: int) -> None:
        client, world = Client(processes), World(number + time.time_ns())
        for _ in range(share):
            ask(client, world)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = share * clients / (time.perf_counter() - start)
    return {
        "p50": times.milliseconds("recall", 0.5),
        "p95": times.milliseconds("recall", 0.95),
        "answers_a_second": rate,
        "cpu": {name: (after[name] - before[name]) / questions * 1000 for name in after},
    }


def show(found: dict[str, Any]) -> None:
    console = Console(width=130)
    imports = Table("items", "items/s", "all derived after s", "server", "worker", "PostgreSQL")
    imports.title = f"POST /v1/import, {found['profile']}; CPU in ms for an item"
    recalls = Table("items", "p50 ms", "p95 ms", f"answers/s, {found['clients']} clients", "server", "PostgreSQL")
    recalls.title = "POST /v1/recall; CPU in ms for an answer"
    for one in found["sizes"]:
        if "import" in one:
            cpu = [f"{one['import']['cpu'][name]:.2f}" for name in ("server", "worker", "postgres")]
            rate, settled = one["import"]["items_a_second"], one["import"]["settled_seconds"]
            imports.add_row(f"{one['items']:,}", f"{rate:,.0f}", f"{settled:.1f}", *cpu)
        answers = one["recall"]
        recalls.add_row(
            f"{one['items']:,}",
            f"{answers['p50']:.1f}",
            f"{answers['p95']:.1f}",
            f"{answers['answers_a_second']:.0f}",
            *(f"{answers['cpu'][name]:.1f}" for name in ("server", "postgres")),
        )
    if imports.row_count:
        console.print(imports)
    console.print(recalls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="10000,100000", help="sizes, each of a user of its own in one tenant")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--profile", choices=("fast", "best"), default="fast")
    parser.add_argument("--facts", action="store_true", help="take facts from the messages, as tenants do by default")
    parser.add_argument("--home", type=Path, help="a folder that is kept")
    parser.add_argument("--again", action="store_true", help="only ask the owners that the folder has")
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout whose server is measured")
    asked = parser.parse_args()
    found: dict[str, Any] = {"profile": asked.profile, "clients": asked.clients, "facts": asked.facts, "sizes": []}
    with (
        folder(asked.home, "recordari-bulk-") as home,
        running(home, asked.source, asked.profile, []) as processes,
    ):
        extraction = "users" if asked.facts else "off"
        Client(processes, "admin").ask("PATCH", "/v1/tenant", {"settings": {"extraction": extraction}})
        owners = home / "owners.json"
        if asked.again:
            found["sizes"] = [{"items": many, "user": user} for many, user in json.loads(owners.read_text())]
        # The largest first: an index that is built after a smaller one would slow it down.
        for many in sorted(map(int, asked.items.split(",")), reverse=True) if not asked.again else ():
            user = f"owner-of-{many}-{time.time_ns()}"
            # Loads the model.
            Client(processes).ask("POST", "/v1/items", {"content": "The first one.", "scope": "user"}, user=user)
            wait_until_idle(processes)
            found["sizes"].append({"items": many, "user": user, "import": import_items(processes, user, many)})
        owners.write_text(json.dumps([(one["items"], one["user"]) for one in found["sizes"]]))
        found["index_seconds"] = wait_for_jobs(processes)
        for one in found["sizes"]:
            one["recall"] = recall(processes, one["user"], asked.questions, asked.clients)
    show(found)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bulk.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
