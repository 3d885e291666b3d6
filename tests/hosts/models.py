"""A small imitation of the model APIs of three vendors: it notes what it is asked, and answers with one text, streamed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


@dataclass(slots=True)
class Asked:
    """One request of a client."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def text(self) -> str:
        """All of the body, to look for words in it."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(slots=True)
class Model:
    """The imitation: its address, what it was asked, and what it answers."""

    url: str
    answer: Callable[[Asked], str]
    asked: list[Asked] = field(default_factory=list)

    def last(self, containing: str) -> Asked:
        """The last request that contains a text."""
        return next(one for one in reversed(self.asked) if containing in one.text)


@contextmanager
def imitation(answer: Callable[[Asked], str] = lambda _: "All right, noted.") -> Iterator[Model]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = Asked(self.path, json.loads(content or b"{}"), {k.lower(): v for k, v in self.headers.items()})
            model.asked.append(asked)
            path = self.path.partition("?")[0]
            if path.endswith(("/count_tokens", ":countTokens")):
                self._send(json.dumps({"input_tokens": 10, "totalTokens": 10}))
                return
            text = model.answer(asked)
            streams = bool(asked.body.get("stream")) or "stream" in path
            form = next((form for end, form in FORMS.items() if path.endswith(end)), None)
            if form is None:
                self._send("{}")
            elif streams:
                self._stream(form(text, asked.body, True))
            else:
                self._send(json.dumps(form(text, asked.body, False)[0][1]))

        def do_GET(self) -> None:
            asked = model.asked[-1].body if self.path == "/last" and model.asked else {}
            self._send(json.dumps({**asked, "data": [], "models": []}))

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, text: str) -> None:
            content = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, events: list[tuple[str | None, Any]]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for name, data in events:
                head = f"event: {name}\n" if name else ""
                written = data if isinstance(data, str) else json.dumps(data)
                self.wfile.write(f"{head}data: {written}\n\n".encode())
                self.wfile.flush()
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Keep quiet: clients that leave are part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    model = Model(f"http://127.0.0.1:{server.server_address[1]}", answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


Events = list[tuple[str | None, Any]]


def pieces(text: str) -> list[str]:
    """A text in a few parts, as a stream brings it."""
    return [text[i : i + 7] for i in range(0, len(text), 7)]


def _messages(text: str, body: dict[str, Any], streams: bool) -> Events:
    """Anthropic's messages."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    head = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "m"),
        "stop_sequence": None,
    }
    if not streams:
        done = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}
        return [(None, {**head, **done})]
    start = {**head, "content": [], "stop_reason": None, "usage": usage}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}
    return [
        ("message_start", {"type": "message_start", "message": start}),
        ("content_block_start", block),
        *(
            (
                "content_block_delta",
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}},
            )
            for one in pieces(text)
        ),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        ("message_delta", delta),
        ("message_stop", {"type": "message_stop"}),
    ]


def _chat(text: str, body: dict[str, Any], streams: bool) -> Events:
    """OpenAI's chat completions."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": "chatcmpl-1", "created": 1, "model": body.get("model", "m")}
    if body.get("model") == "calls-a-tool" and body["messages"][-1]["role"] != "tool":
        return [(None, {**head, "object": "chat.completion", "choices": [_tool_call(body)], "usage": usage})]
    if not streams:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return [(None, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})]
    head["object"] = "chat.completion.chunk"
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": one} for one in pieces(text))]
    chunks: Events = [
        (None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas
    ]
    end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    return [*chunks, (None, end), (None, "[DONE]")]


def _tool_call(body: dict[str, Any]) -> dict[str, Any]:
    """A choice that keeps the user's words with `remember_fact`."""
    said = body["messages"][-1]["content"]
    content = said if isinstance(said, str) else said[0]["text"]
    function = {"name": "remember_fact", "arguments": json.dumps({"content": content})}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    return {"index": 0, "message": message, "finish_reason": "tool_calls"}


def _responses(text: str, body: dict[str, Any], streams: bool) -> Events:
    """OpenAI's responses."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body.get("model", "m"),
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {**USAGE, **details},
    }
    if not streams:
        return [(None, whole)]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    empty = {**item, "status": "in_progress", "content": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": empty}),
        ("response.content_part.added", {**place, "part": {**part, "text": ""}}),
        *(("response.output_text.delta", {**place, "delta": one, "logprobs": []}) for one in pieces(text)),
        ("response.output_text.done", {**place, "text": text, "logprobs": []}),
        ("response.content_part.done", {**place, "part": part}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    ]
    return [(name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(events)]


def _gemini(text: str, body: dict[str, Any], streams: bool) -> Events:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    schema = (body.get("generationConfig") or {}).get("responseJsonSchema") or {}
    if schema:  # Gemini CLI asks small questions of its own in JSON
        text = json.dumps({name: _example(rule) for name, rule in (schema.get("properties") or {}).items()})
    content = {"role": "model", "parts": [{"text": text}]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return [(None, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"})]


def _example(rule: dict[str, Any]) -> Any:
    if "enum" in rule:
        return rule["enum"][0]
    return {"string": "flash", "number": 1, "integer": 1, "boolean": False, "array": [], "object": {}}.get(
        str(rule.get("type"))
    )


FORMS: dict[str, Callable[[str, dict[str, Any], bool], Events]] = {
    "/messages": _messages,
    "/chat/completions": _chat,
    "/responses": _responses,
    ":generateContent": _gemini,
    ":streamGenerateContent": _gemini,
}
