"""Keep what an agent is working on: state by key, notes, and the window of a session.

    python examples/09_state_and_notes.py

State is read by key and never searched. It expires, and a version protects it from two writers at once.
"""

import asyncio
from datetime import timedelta

from recordari import Memory, NewMessage
from recordari.errors import PreconditionFailed, QuotaExceeded


async def main() -> None:
    async with Memory.open(user="ana", agent="travel", session="trip-to-lyon") as memory:
        await memory.open_session("trip-to-lyon")

        # Each write gives the next version. A write over an older version is refused.
        cart = await memory.set_state("cart", {"seats": 1}, ttl=timedelta(minutes=30))
        cart = await memory.set_state("cart", {"seats": 2}, if_version=cart.version)
        try:
            await memory.set_state("cart", {"seats": 9}, if_version=1)
        except PreconditionFailed:
            print("another writer was first; the cart has", (await memory.get_state("cart")).value)
        # All keys of a session share 128 KiB: what does not fit is refused and changes nothing.
        try:
            await memory.set_state("map", "x" * 200_000)
        except QuotaExceeded:
            print("too large; the keys are", [entry.key for entry in await memory.list_state()])

        # Decisions and tasks are noted from what is said, and you can add notes of your own.
        await memory.add_messages([NewMessage(content="We decided to take the train. I will book it by Friday.")])
        await memory.add_note("trip-to-lyon", "Ana has a rail card", importance=0.9)
        notes = await memory.list_notes("trip-to-lyon")
        print("notes:", [f"{note.kind}: {note.content}" for note in notes])
        task = next(note for note in notes if note.kind == "action_item")
        await memory.delete_note("trip-to-lyon", task.note_id)

        # To continue later, read the summary, the window and the notes. Nothing is replayed.
        resumed = await memory.resume_session("trip-to-lyon")
        print("window:", [message.content for message in resumed.window.messages])
        print("open notes:", len(resumed.notes))

        # A closed session stays closed. Activity under its id continues in a successor.
        await memory.close_session("trip-to-lyon")
        print("continues:", (await memory.resume_session("trip-to-lyon")).session.continues)
        print("state after the close:", await memory.list_state())


asyncio.run(main())
