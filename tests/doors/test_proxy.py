"""Memory in front of a model, with the official SDKs of both vendors and an imitation of their models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.doors.proxied import proxied
from tests.hosts.models import FORMS as IMITATED
from tests.hosts.models import imitation
from tests.hosts.serving import serving, workbench
from tests.patience import PATIENCE, until

from recordari.doors.proxy.forms import FORMS, answer_in, questions
from recordari.kit.resources import Resources

NOTED = "All right, noted."


async def test_both_vendors_sdks_are_served_with_memory_streamed_or_not(resources: Resources, tmp_path: Path) -> None:
    bench = await workbench(resources, tmp_path)
    with imitation() as model:
        async with serving(bench.resources), proxied(bench, model) as setup:
            chat: Any = [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Ana's boat is called Halcyon."},
            ]
            openai = setup.openai("one")
            first = await openai.chat.completions.create(model="m", messages=chat)
            assert first.choices[0].message.content == NOTED
            assert await setup.kept("one", 2) == [("user", "Ana's boat is called Halcyon."), ("assistant", NOTED)]
            assert model.asked[-1].headers["authorization"] == "Bearer operators-key"
            assert setup.key not in model.asked[-1].text + str(model.asked[-1].headers), "no key of ours goes out"

            # Another session, another vendor, as a stream.
            question: Any = [{"role": "user", "content": "What is Ana's boat called?"}]
            async with setup.anthropic("two").messages.stream(
                model="m", max_tokens=100, system="Be brief.", messages=question
            ) as stream:
                assert "".join([text async for text in stream.text_stream]) == NOTED
            asked = model.asked[-1]
            assert asked.headers["x-api-key"] == "operators-key"
            assert asked.body["system"][0]["text"] == "Be brief." and "Halcyon" in asked.body["system"][1]["text"]
            assert asked.body["messages"] == question, "what the user said is passed on to the letter"
            assert await setup.kept("two", 2) == [("user", question[0]["content"]), ("assistant", NOTED)]

            # The conversation goes on: the beginning of the prompt stays the same to the byte.
            grown = [*question, {"role": "assistant", "content": NOTED}, {"role": "user", "content": "And its mast?"}]
            await setup.anthropic("two").messages.create(model="m", max_tokens=100, system="Be brief.", messages=grown)
            assert model.asked[-1].body["system"] == asked.body["system"]
            assert [text for _, text in await setup.kept("two", 4)][2:] == ["And its mast?", NOTED]

            responses = setup.openai("three").responses
            whole = await responses.create(model="m", input="Which boat has Ana?", instructions="Be brief.")
            assert whole.output_text == NOTED and "Halcyon" in model.asked[-1].body["instructions"]
            text = ""
            async for event in await responses.create(model="m", input="Which boat has Ana?", stream=True):
                text += event.delta if event.type == "response.output_text.delta" else ""
            assert text == NOTED
            async for chunk in await openai.chat.completions.create(model="m", messages=question, stream=True):
                assert chunk.object == "chat.completion.chunk"


async def test_an_echo_is_not_kept_and_a_stream_is_passed_on_to_the_byte(resources: Resources, tmp_path: Path) -> None:
    bench = await workbench(resources, tmp_path)
    fact = "The harbour of Horta opens its gate at six in the morning."
    with imitation(lambda _: f"{fact} Shall I book a berth?") as model:
        async with (
            serving(bench.resources),
            proxied(bench, model) as setup,
            httpx2.AsyncClient(timeout=PATIENCE) as http,
        ):
            await bench.memory.remember_fact(fact)
            body = {
                "model": "m",
                "stream": True,
                "messages": [{"role": "user", "content": "When does the harbour open?"}],
            }
            headers = {"Authorization": f"Bearer {setup.key}"}
            direct = (await http.post(f"{model.url}/v1/chat/completions", json=body)).content
            through = await http.post(f"{setup.url}/v1/chat/completions", json=body, headers=headers)
            assert through.content == direct and through.headers["recordari-memory"] == "used"

            async def is_kept() -> bool:
                return bool(await bench.memory.list_sessions())

            await until(is_kept)
            (session,) = await bench.memory.list_sessions()
            assert session.session_id.startswith("proxy-"), "a conversation without a name gets one"
            kept = await setup.kept(session.session_id, 2)
            assert [text.strip() for _, text in kept] == ["When does the harbour open?", "Shall I book a berth?"]
            again = await http.post(f"{setup.url}/v1/chat/completions", json=body, headers=headers)
            assert again.content == direct
            listed = await http.get(f"{setup.url}/v1/models", headers=headers)
            assert listed.status_code == 200 and listed.headers["recordari-memory"] == "unused"
            # A request without messages is for the model's side to judge.
            started = json.dumps({"model": "m", "prompt": {"id": "pmpt_1"}}).encode()
            passed = await http.post(f"{setup.url}/v1/responses", content=started, headers=headers)
            assert passed.status_code == 200 and passed.headers["recordari-memory"] == "unused"
            assert model.asked[-1].body == json.loads(started)


@pytest.mark.parametrize("rest", [3_600.0, 0.0])
async def test_a_conversation_that_has_rested_is_shown_what_is_new(
    resources: Resources, tmp_path: Path, rest: float
) -> None:
    bench = await workbench(resources, tmp_path)
    said: Any = [{"role": "user", "content": "Where is the dinghy moored?"}]
    with imitation() as model:
        async with serving(bench.resources), proxied(bench, model, rest=rest) as setup:
            await bench.memory.remember_fact("The dinghy is moored at berth 12.")
            await setup.openai("one").chat.completions.create(model="m", messages=said)
            first = model.asked[-1].body["messages"]
            await bench.memory.remember_fact("The dinghy was moved to berth 31.")
            await setup.openai("one").chat.completions.create(model="m", messages=said)
            assert "berth 12" in str(first)
            assert ("berth 31" in str(model.asked[-1].body["messages"])) == (rest == 0.0)


async def test_without_memory_it_passes_on_and_says_so(resources: Resources, tmp_path: Path) -> None:
    bench = await workbench(resources, tmp_path)
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    with imitation() as model:
        async with httpx2.AsyncClient(timeout=PATIENCE) as http, proxied(bench, model) as setup:

            async def post(said: Any = body, **headers: str) -> httpx2.Response:
                return await http.post(f"{setup.url}/v1/messages", json=said, headers=headers)

            own = await post(**{"x-api-key": "my-own", "Recordari-Key": setup.key})
            assert own.status_code == 200 and own.headers["recordari-memory"] == "away"
            assert model.asked[-1].headers["x-api-key"] == "my-own" and model.asked[-1].body == body
            assert (await post(**{"x-api-key": "my-own"})).headers["recordari-memory"] == "off"
            unchecked = await post(**{"x-api-key": setup.key})
            assert unchecked.status_code == 401, "nobody spends the operator's money with a key that was never checked"
            async with serving(bench.resources):
                assert (await post(**{"x-api-key": setup.key})).headers["recordari-memory"] == "used"
                assert (await post(**{"x-api-key": "rcd_wrong"})).status_code == 401
                assert (await post()).status_code == 401
            other = {**body, "messages": [{"role": "user", "content": "Good evening"}]}
            passed = await post(other, **{"x-api-key": setup.key})
            assert passed.status_code == 200 and passed.headers["recordari-memory"] == "away"
            assert passed.json()["content"][0]["text"] == NOTED


async def test_a_model_that_cannot_be_reached_is_a_502_with_a_reason(resources: Resources, tmp_path: Path) -> None:
    bench = await workbench(resources, tmp_path)
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    with imitation() as model:
        pass  # it is gone again
    async with serving(bench.resources), proxied(bench, model) as setup, httpx2.AsyncClient(timeout=PATIENCE) as http:
        for path in ("messages", "chat/completions"):
            headers = {"Authorization": f"Bearer {setup.key}"}
            answer = await http.post(f"{setup.url}/v1/{path}", json=body, headers=headers)
            assert answer.status_code == 502 and answer.headers["recordari-memory"] == "used"
            assert answer.json()["error"]["message"] == "the model cannot be reached"


@pytest.mark.parametrize("path", FORMS)
def test_every_form_is_read_as_a_stream_and_as_a_whole(path: str) -> None:
    form, imitated = FORMS[path], IMITATED[path.removeprefix("/v1")]
    whole = json.dumps(imitated("One. Two.", {}, False)[0][1]).encode()
    events = [data if isinstance(data, str) else json.dumps(data) for _, data in imitated("One. Two.", {}, True)]
    stream = "".join(f"data: {event}\n\n" for event in events).encode()
    assert answer_in(form, whole, streams=False) == answer_in(form, stream, streams=True) == "One. Two."
    assert answer_in(form, b"<html>", streams=False) == "" == answer_in(form, b"data: [1]\n", streams=True)
    parts = {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image", "source": {}}]}
    tool = {"role": "user", "content": [{"type": "tool_result", "content": "7"}]}
    for said, expected in (([parts], ["Look"]), ([parts, {"role": "assistant", "content": "x"}, tool], [])):
        assert questions(form, {"messages": said, "input": said}) == expected
