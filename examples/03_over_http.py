"""The verbs of the library over HTTP: a server and its client, here in one process.

Run it: python examples/03_over_http.py. A server elsewhere is `recordari serve`, and the client is the same.
"""

from __future__ import annotations

import asyncio

import httpx2

from recordari import Client, Memory, RecordariError
from recordari.doors.rest.app import create_app


async def talk(client: Client) -> None:
    ana = client.acting_as(user="ana", session="chat-1")
    kept = await ana.remember_fact("Ana prefers tea, and no sugar")
    print("kept:", kept.was_new)
    answer = await ana.recall("What does Ana like to drink?")
    print("recalled:", answer.items[0].content)
    try:
        await ana.get_session("another chat")
    except RecordariError as error:  # the exceptions of the library
        print("refused:", error.code, "-", error.message)


async def main() -> None:
    async with Memory.open() as memory:
        key = await memory.create_key("example")
        app = create_app(resources=memory.resources)
        transport = httpx2.ASGITransport(app=app)  # leave it out to go over the network
        async with (
            app.router.lifespan_context(app),
            Client("http://127.0.0.1", key=key.key, transport=transport) as client,
        ):
            await talk(client)


if __name__ == "__main__":
    asyncio.run(main())
