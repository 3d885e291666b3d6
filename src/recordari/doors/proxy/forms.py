"""The forms of the model APIs: where a request has its system prompt and what was said, and where an answer has its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
_SYSTEM = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiForm:
    """One API."""

    said: Callable[[Body], list[Body]]
    """The messages of a request, each with a role."""
    shown: Callable[[Body, str], Body]
    """The request with a context after its own system prompt, so that the beginning stays as it is."""
    whole: Callable[[Body], str]
    """The text of an answer that comes at once."""
    part: Callable[[Body], str]
    """The text in one event of a stream."""


def _chat_shown(body: Body, context: str) -> Body:
    messages = list(body["messages"])
    place = next((i for i, one in enumerate(messages) if _role(one) not in _SYSTEM), len(messages))
    return {**body, "messages": [*messages[:place], {"role": "system", "content": context}, *messages[place:]]}


def _responses_said(body: Body) -> list[Body]:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else _objects(given)


def _responses_shown(body: Body, context: str) -> Body:
    own = body.get("instructions")
    return {**body, "instructions": f"{own}\n\n{context}" if own else context}


def _responses_whole(answer: Body) -> str:
    messages = [one for one in _objects(answer.get("output")) if one.get("type") == "message"]
    return "".join(text_of(one.get("content")) for one in messages)


def _messages_shown(body: Body, context: str) -> Body:
    own = body.get("system")
    blocks = [{"type": "text", "text": own}] if isinstance(own, str) and own else _objects(own)
    return {**body, "system": [*blocks, {"type": "text", "text": context}]}


def _chat_text(answer: Body, member: str) -> str:
    choices = _objects(answer.get("choices"))
    inner = choices[0].get(member) if choices else None
    return text_of(inner.get("content")) if isinstance(inner, dict) else ""


def _delta(event: Body, kind: str) -> str:
    if event.get("type") != kind:
        return ""
    delta = event.get("delta")
    return text_of(delta if isinstance(delta, str) else (delta or {}).get("text"))


FORMS: Mapping[str, ApiForm] = {
    "/v1/chat/completions": ApiForm(
        said=lambda body: _objects(body.get("messages")),
        shown=_chat_shown,
        whole=lambda answer: _chat_text(answer, "message"),
        part=lambda event: _chat_text(event, "delta"),
    ),
    "/v1/responses": ApiForm(
        said=_responses_said,
        shown=_responses_shown,
        whole=_responses_whole,
        part=lambda event: _delta(event, "response.output_text.delta"),
    ),
    "/v1/messages": ApiForm(
        said=lambda body: _objects(body.get("messages")),
        shown=_messages_shown,
        whole=lambda answer: text_of(answer.get("content")),
        part=lambda event: _delta(event, "content_block_delta"),
    ),
}


def questions(form: ApiForm, body: Body) -> list[str]:
    """What the user says in this request: the user's messages at its end. A tool's result alone says nothing."""
    texts: list[str] = []
    for message in reversed(form.said(body)):
        if _role(message) != "user":
            break
        texts.append(text_of(message.get("content")))
    return [text for text in reversed(texts) if text.strip()]


def first_question(form: ApiForm, body: Body) -> str:
    """What a conversation began with: it stays the same while the conversation grows."""
    return next((text_of(one.get("content")) for one in form.said(body) if _role(one) == "user"), "")


def answer_in(form: ApiForm, content: bytes, *, streams: bool) -> str:
    """The text of an answer, whole or as a stream of events; empty where there is none."""
    if not streams:
        answer = read_object(content)
        return form.whole(answer) if answer is not None else ""
    return "".join(form.part(event) for event in _events(content))


def text_of(content: object) -> str:
    """The text of a message: a text itself, or the text parts of a list."""
    if isinstance(content, str):
        return content
    kinds = {"text", "input_text", "output_text"}
    return "\n".join(str(part.get("text") or "") for part in _objects(content) if part.get("type") in kinds)


def _events(content: bytes) -> Iterator[Body]:
    for line in content.splitlines():
        if line.startswith(b"data:") and (event := read_object(line.removeprefix(b"data:"))) is not None:
            yield event


def read_object(content: bytes) -> Body | None:
    """The JSON object in a body; None where there is none."""
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _objects(values: object) -> list[Body]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, Sequence) else []


def _role(message: object) -> str:
    return str(message.get("role")) if isinstance(message, dict) else ""
