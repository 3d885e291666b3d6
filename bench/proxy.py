"""What the proxy costs a stream of tokens: straight to a model, through it without memory, and with memory, side by side.

    python bench/proxy.py [--tokens 500] [--rounds 20]

Model, proxy, server and client are processes of their own. The model sends its tokens as fast as it can, so that all of the
time is ours. The three ways take turns, because the machine is shared; CPU is that of the proxy, from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving import folder, tree_cpu

PROGRAM = Path(sys.executable).with_name("recordari")


async def model(port: int) -> None:
    """An imitation of a model: a stream of as many tokens as the request asks for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except asyncio.IncompleteReadError:  # somebody looked whether this is ready
            writer.close()
            return
        size = int(head.partition("content-length:")[2].split("\r\n")[0])
        asked = json.loads(await reader.readexactly(size))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for number in range(asked["max_tokens"]):
            delta = {
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": f" word{number}"}}],
            }
            writer.write(f"data: {json.dumps(delta)}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(0)  # one token, one write
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


def stream(port: int, headers: dict[str, str], tokens: int, number: int) -> tuple[float, float, str]:
    """Read one stream; the seconds until its first byte and until its last, and what the proxy says of memory."""
    body: dict[str, Any] = {"model": "m", "stream": True, "max_tokens": tokens}
    body["messages"] = [{"role": "user", "content": f"Question {number}: what is my boat called?"}]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    started = time.perf_counter()
    connection.request(
        "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json", **headers}
    )
    response = connection.getresponse()
    first = response.read1(1)
    begun = time.perf_counter()
    rest = response.read()
    ended = time.perf_counter()
    assert response.status == 200 and (first + rest).count(b"data: ") == tokens + 1, response.status
    connection.close()
    return begun - started, ended - started, response.headers.get("Recordari-Memory", "-")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(is_ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not is_ready():
        assert process.poll() is None, "it did not start"
        time.sleep(0.05)


def answers(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        connection.connect()
        connection.close()
    except OSError:
        return False
    return True


def main(tokens: int, rounds: int) -> None:
    upstream, memory, proxy = free_port(), free_port(), free_port()
    with folder(None, "recordari-proxy-") as home:
        environment = {**os.environ, "RECORDARI_HOME": str(home), "RECORDARI_PORT": str(memory)}
        environment["RECORDARI_EMBEDDING_PROFILE"] = "fast"
        log = home / "serve.log"
        with log.open("wb") as out:
            started = [
                subprocess.Popen([sys.executable, __file__, "--model", str(upstream)]),
                subprocess.Popen([PROGRAM, "serve"], env=environment, stdout=out, stderr=subprocess.STDOUT),
            ]
        try:
            wait_for(lambda: answers(upstream) and answers(memory) and "rcd_" in log.read_text("utf-8"), started[1])
            key = re.search(r"rcd_\S+", log.read_text("utf-8"))
            assert key is not None
            (home / "model.key").write_text("model-key")
            options = ["--port", str(proxy), "--openai-url", f"http://127.0.0.1:{upstream}"]
            options += ["--openai-key-file", f"{home}/model.key"]
            quiet = subprocess.DEVNULL
            started.append(subprocess.Popen([PROGRAM, "proxy", *options], env=environment, stdout=quiet, stderr=quiet))
            wait_for(lambda: answers(proxy), started[2])
            measure(started[-1].pid, upstream, proxy, key[0], tokens, rounds)
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def measure(pid: int, upstream: int, proxy: int, key: str, tokens: int, rounds: int) -> None:
    ways: dict[str, tuple[int, dict[str, str]]] = {
        "straight": (upstream, {}),
        "proxy, no memory": (proxy, {"Authorization": "Bearer own-key"}),
        "proxy, memory": (proxy, {"Authorization": f"Bearer {key}", "Recordari-User": "ana"}),
    }
    first: dict[str, list[float]] = {way: [] for way in ways}
    whole: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    states: dict[str, str] = {}
    for number in range(rounds + 2):
        for way, (port, headers) in ways.items():
            before = tree_cpu(pid)
            begun, ended, states[way] = stream(port, headers, tokens, number)
            spent = tree_cpu(pid) - before
            if number >= 2:  # the first ones open connections
                first[way].append(begun)
                whole[way].append(ended - begun)
                cpu[way].append(spent)
    print(f"{tokens} tokens, {rounds} rounds; medians, CPU of the proxy as a mean")
    print(f"{'':18} {'memory':>8} {'first byte ms':>14} {'µs a token':>11} {'CPU µs a token':>15}")
    for way in ways:
        each = statistics.median(whole[way]) / tokens * 1e6
        spent = sum(cpu[way]) / len(cpu[way]) / tokens * 1e6
        print(f"{way:18} {states[way]:>8} {statistics.median(first[way]) * 1000:14.1f} {each:11.0f} {spent:15.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--model", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.model:
        asyncio.run(model(given.model))
    else:
        main(given.tokens, given.rounds)
