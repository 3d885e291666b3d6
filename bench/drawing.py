"""Requests drawn from descriptions: REST operations from an OpenAPI document, MCP tools from their input schemas.

What a field means is read from its name and its schema alone, so that an operation that nobody thought of is drawn too.
Ids come from a `Names`, which decides whose id is used.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, unquote

JSON = "application/json"
NDJSON = "application/x-ndjson"
BYTES = "application/octet-stream"
STREAM = "text/event-stream"
READS = {"GET", "HEAD"}
NAMES = {
    *("id", "user", "agent", "session", "run", "tenant", "key", "source_ref", "owner_id", "entity_name"),
    *("agent_type", "task_type"),
}
"""Fields that are ids, beside those that end in `_id`."""
PLACES = {"namespace", "scope", "owner"}
"""Fields without which an id is not found."""
ALIASES = {"id": "item_id", "memory_id": "item_id", "result_key": "payload_key", "target_id": "choice_id"}
"""Other names of the same thing."""
SHARED_SCOPES = {"agent", "tenant"}
OPTIONAL_SHARE = 0.3
ODD = ("", " ", "'; DROP TABLE items; --", "%", "..", "a" * 300, "\u202e", "null", "-1", "{}", "😀", "٣")
MOMENTS = ("2026-03-02T09:00:00Z", "2031-01-01T00:00:00+02:00", "1970-01-01T00:00:00Z")


def is_name(field_name: str) -> bool:
    """Whether a field of that name holds an id."""
    return field_name in NAMES or field_name.endswith(("_id", "_key"))


class Names(Protocol):
    """The one who sends: whose ids and words are used."""

    def a_value(self, draw: random.Random, name: str) -> Any:
        """What this field should hold, or None if anything will do."""

    def wants(self, name: str) -> bool:
        """Whether this field should be there although it may be left out."""

    def an_id(self, draw: random.Random, noun: str, *, is_uuid: bool) -> str: ...

    def a_text(self, draw: random.Random, *, is_shared: bool) -> str: ...
    def is_private(self, value: Any) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, ready to be sent; all of it is text, so that an id in it can be replaced."""

    operation: str
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    is_shared: bool = False
    """Whether what it writes is meant for all users of the tenant."""
    names: dict[str, Any] = field(default_factory=dict)
    """The ids in it by field, and where they are."""
    is_writing_tool: bool = False
    """Whether it calls a tool that writes; what that makes is answered with 200, as everything over MCP."""

    @property
    def reads_only(self) -> bool:
        return self.method in READS

    def __str__(self) -> str:
        return " ".join(filter(None, (self.method, self.path, json.dumps(self.headers), self.body)))

    def replaced(self, changes: Mapping[str, str]) -> Request:
        """The same with these texts in place of those."""

        def new(text: str) -> str:
            for old, instead in changes.items():
                text = text.replace(quote(old, safe=""), quote(instead, safe="")).replace(old, instead)
            return text

        return Request(
            operation=self.operation,
            method=self.method,
            path=new(self.path),
            headers={name: new(value) for name, value in self.headers.items()},
            body=None if self.body is None else new(self.body),
            is_shared=self.is_shared,
            names=json.loads(new(json.dumps(self.names))),
            is_writing_tool=self.is_writing_tool,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that can be asked for, with the schemas of what it takes."""

    name: str
    method: str
    path: str
    parameters: tuple[dict[str, Any], ...] = ()
    media_type: str | None = None
    schema: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    streams: bool = False
    tool: str | None = None
    """The tool of an MCP server that is called at the path."""
    address: str | None = None
    """The address of a resource that is read at the path, or the template of such addresses."""

    @property
    def reads_only(self) -> bool:
        return self.method in READS

    @property
    def needs(self) -> frozenset[str]:
        """The ids that it cannot do without, by their first names."""
        schema = self.schema
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rpartition("/")[2]]
        parts = re.findall(r"{(\w+)}", self.address or "")
        fields = [one["name"] for one in self.parameters if one.get("required") and one["in"] != "header"]
        needed = {*parts, *fields, *schema.get("required", ())}
        in_path = {one["name"] for one in self.parameters if one["in"] == "path"}
        names = {one for one in needed if is_name(one.removesuffix("s")) or one in in_path or one == "namespace"}
        names = {one.removesuffix("s") if one.endswith("_ids") else one for one in names}
        return frozenset(self.renamed.get(one, ALIASES.get(one, one)) for one in names)

    @property
    def renamed(self) -> dict[str, str]:
        """Fields that mean something else here than elsewhere: the key of a tool output is that of its payload."""
        return {"key": "payload_key"} if "tool_output" in self.name else {}


def operations_of(document: dict[str, Any]) -> Iterator[Operation]:
    """Every operation of an OpenAPI document."""
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            contents = described.get("requestBody", {}).get("content", {})
            media_type = next((name for name in (JSON, NDJSON, BYTES) if name in contents), None)
            yield Operation(
                name=described["operationId"],
                method=method.upper(),
                path=path,
                parameters=tuple(described.get("parameters", ())),
                media_type=media_type,
                schema=contents[media_type].get("schema", {}) if media_type else {},
                definitions=document["components"]["schemas"],
                streams=STREAM in described["responses"].get("200", {}).get("content", {}),
            )


def named_in(operations: Iterable[Operation], method: str, path: str) -> dict[str, Any]:
    """The ids in the path of a request, by the fields that the operation has for them."""
    for operation in operations:
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", operation.path)
        if operation.method == method and (found := re.fullmatch(pattern, path.partition("?")[0])):
            return {ALIASES.get(name, name): unquote(value) for name, value in found.groupdict().items()}
    return {}


def tools_of(path: str, listed: dict[str, Any]) -> Iterator[Operation]:
    """Every tool that an MCP server lists."""
    for tool in listed["tools"]:
        schema = tool["inputSchema"]
        is_reading = tool.get("annotations", {}).get("readOnlyHint", False)
        yield Operation(
            name=f"{path}:{tool['name']}",
            method="POST",
            path=path,
            media_type=JSON,
            schema=schema,
            definitions=schema.get("$defs", {}),
            tool=f"{'' if is_reading else '!'}{tool['name']}",
        )


def resources_of(path: str, listed: dict[str, Any]) -> Iterator[Operation]:
    """Every resource, and every template of one, that an MCP server lists."""
    for resource in (*listed.get("resources", ()), *listed.get("resourceTemplates", ())):
        address = resource.get("uri") or resource["uriTemplate"]
        yield Operation(name=f"{path}:{address}", method="POST", path=path, media_type=JSON, address=address)


class Drawing:
    """Draws requests of one sender."""

    def __init__(self, draw: random.Random, names: Names) -> None:
        self._draw = draw
        self._names = names
        self._is_shared = False
        self._definitions: dict[str, Any] = {}
        self._named: dict[str, Any] = {}

    def request(self, operation: Operation, headers: Mapping[str, str], *, is_shared: bool) -> Request:
        """A request for an operation: every required field, some of the others."""
        self._definitions = operation.definitions
        self._is_shared = is_shared
        self._named = {}
        body = None
        if operation.media_type is not None:
            if operation.media_type == JSON and self._draw.random() < 0.3 and self._takes_scope(operation.schema):
                self._is_shared = True
            body = self._body(operation)
        path, query, sent = operation.path, [], dict(headers)
        for parameter in operation.parameters:
            name, place = parameter["name"], parameter["in"]
            is_required = parameter.get("required", False)
            if place == "header" or (not is_required and self._draw.random() > OPTIONAL_SHARE):
                continue
            value = self.value(parameter.get("schema", {}), name)
            self._note(name, value, in_path=place == "path")
            for one in value if isinstance(value, list) else [value]:
                text = quote(one if isinstance(one, str) else json.dumps(one), safe="")
                if place == "path":
                    path = path.replace(f"{{{name}}}", text or "-")
                else:
                    query.append(f"{name}={text}")
        if operation.media_type is not None:
            sent["Content-Type"] = operation.media_type
        if operation.streams and self._draw.random() < 0.3:
            sent["Accept"] = STREAM
        return Request(
            operation=operation.name,
            method=operation.method,
            path=f"{path}?{'&'.join(query)}" if query else path,
            headers=sent,
            body=body,
            is_shared=self._is_shared,
            names=self._named,
            is_writing_tool=(operation.tool or "").startswith("!"),
        )

    def _note(self, name: str, value: Any, *, in_path: bool = False) -> None:
        if is_name(name) or in_path or name in PLACES:
            self._named[ALIASES.get(name, name)] = value

    def _takes_scope(self, schema: dict[str, Any]) -> bool:
        return '"scope"' in json.dumps(self._resolved(schema))

    def _body(self, operation: Operation) -> str:
        if operation.media_type == BYTES:
            return self._names.a_text(self._draw, is_shared=self._is_shared)
        if operation.media_type == NDJSON:
            return self._lines(operation)
        if operation.address is not None:
            uri = re.sub(
                r"{(\w+)}", lambda part: self._names.an_id(self._draw, part[1], is_uuid=True), operation.address
            )
            return _call("resources/read", {"uri": uri})
        drawn = self.value(operation.schema, "")
        for name, value in drawn.items() if isinstance(drawn, dict) else ():
            self._note(name, value)
        if operation.tool is not None:
            return _call("tools/call", {"name": operation.tool.removeprefix("!"), "arguments": drawn})
        return json.dumps(drawn)

    def _lines(self, operation: Operation) -> str:
        """Lines of JSON: what the schema says, or an export if it says nothing."""
        if not self._resolved(operation.schema).get("properties"):
            return str(self._names.a_value(self._draw, "export") or self._text())
        return "".join(json.dumps(self.value(operation.schema, "")) + "\n" for _ in range(self._draw.randint(1, 2)))

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        return schema

    def value(self, schema: dict[str, Any], name: str) -> Any:
        """A value that fits the schema, or nearly."""
        schema = self._resolved(schema)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                options = [one for one in schema[several] if one.get("type") != "null"]
                return self.value(self._draw.choice(options or schema[several]), name)
        if "allOf" in schema:
            return self.value(schema["allOf"][0], name)
        if "const" in schema:
            return schema["const"]
        given = self._names.a_value(self._draw, name) if name else None
        if name == "scope":
            is_misplaced = given in SHARED_SCOPES and not self._is_shared
        else:
            is_misplaced = self._is_shared and self._names.is_private(given)
        if given is not None and _fits(given, schema) and not is_misplaced:
            return given
        if "enum" in schema:
            return self._chosen(schema["enum"], name)
        match schema.get("type"):
            case "object":
                return self._object(schema, name)
            case "array":
                low, high = schema.get("minItems", 0), min(schema.get("maxItems", 3), 3)
                items, singular = schema.get("items", {}), name.removesuffix("s")
                return [self.value(items, singular) for _ in range(self._draw.randint(low, max(low, high)))]
            case "integer":
                return self._draw.randint(*self._bounds(schema))
            case "number":
                return round(self._draw.uniform(*self._bounds(schema)), 3)
            case "boolean":
                return self._draw.random() < 0.5
            case "null":
                return None
            case "string":
                return self._string(schema, name)
        return self._draw.choice([self._text(), 7, [1, self._text()], {"of": self._text()}])

    def _chosen(self, options: list[Any], name: str) -> Any:
        if name == "scope" and set(options) & SHARED_SCOPES:
            fitting = [one for one in options if (one in SHARED_SCOPES) is self._is_shared]
            return self._draw.choice(fitting or options)
        return self._draw.choice(options)

    def _bounds(self, schema: dict[str, Any]) -> tuple[int, int]:
        low = int(schema.get("minimum", schema.get("exclusiveMinimum", 0)))
        return low, max(low, min(int(schema.get("maximum", schema.get("exclusiveMaximum", 50))), low + 50))

    def _object(self, schema: dict[str, Any], name: str) -> dict[str, Any]:
        properties = schema.get("properties", {})
        if "enum" in (keys := self._resolved(schema.get("propertyNames", {}))):
            chosen = self._draw.sample(keys["enum"], self._draw.randint(0, 2))
            return {key: self.value(schema.get("additionalProperties", {}), "") for key in chosen}
        if not properties and schema.get("additionalProperties") is False:
            return {}
        if not properties:
            return {self._draw.choice(["of", "at", name or "x"]): self._text() for _ in range(self._draw.randint(0, 2))}
        required = set(schema.get("required", ()))
        if self._is_shared and "scope" in properties:
            required |= {"scope"}
        return {
            key: self.value(value, key)
            for key, value in properties.items()
            if key in required or self._draw.random() < (0.7 if self._names.wants(key) else OPTIONAL_SHARE)
        }

    def _string(self, schema: dict[str, Any], name: str) -> str:
        match schema.get("format"):
            case "uuid":
                return self._names.an_id(self._draw, name, is_uuid=True)
            case "date-time":
                return self._draw.choice(MOMENTS)
            case "date":
                return "2026-03-02"
        if self._draw.random() < 0.02:
            return self._draw.choice(ODD)
        if re.search(r"(^|_)(ur[il]|address)$", name):
            return "http://127.0.0.1:9/nobody"
        if name in NAMES or name.endswith("_id"):
            return self._names.an_id(self._draw, name, is_uuid=False)
        if name == "cursor":
            return self._draw.choice(ODD)
        return self._text()[: schema.get("maxLength", 1000)]

    def _text(self) -> str:
        return self._names.a_text(self._draw, is_shared=self._is_shared)


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is of the type of a schema, as far as it says one."""
    kinds = {"string": str, "array": list, "object": dict, "integer": int}
    return isinstance(value, kinds.get(schema.get("type", ""), object))


def _call(method: str, parameters: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
