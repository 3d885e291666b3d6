"""Write the API as TypeScript, for the dashboard and the client, from the OpenAPI description: `python -m tools.web`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from recordari.config import Settings
from recordari.doors.rest.app import create_app
from tools.routes import operations as routes

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "clients" / "typescript" / "src" / "schema.ts"
"""The dashboard imports it too."""
HEAD = """// Made from the REST routes by `make routes`; do not edit.
"""
TYPES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
LEFT_OUT = "mem0"
"""The tag of the routes of another product's client."""


def type_of(schema: dict[str, Any]) -> str:
    """The TypeScript type of a JSON schema."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(dict.fromkeys(type_of(one) for one in schema[several]))
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{type_of(schema.get('items', {}))}>"
    if kind == "object" and "properties" in schema:
        return fields_of(schema)
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"Record<string, {type_of(more) if isinstance(more, dict) else 'unknown'}>"
    return TYPES.get(str(kind), "unknown")


def fields_of(schema: dict[str, Any], *, answered: bool = False) -> str:
    """The fields of an object; in an answer every field that the server knows is there."""
    required = schema.get("required", [])
    lines = [
        f"  {_name(name)}{'' if answered or name in required else '?'}: {type_of(field)};"
        for name, field in schema["properties"].items()
    ]
    return "{\n" + "\n".join(lines) + "\n}"


def _name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else json.dumps(name)


def parameters_of(operation: dict[str, Any], place: str) -> str:
    found = [one for one in operation.get("parameters", []) if one["in"] == place]
    fields = [
        f"{_name(one['name'])}{'' if one.get('required') else '?'}: {type_of(one.get('schema', {}))}" for one in found
    ]
    return f"{{ {'; '.join(fields)} }}" if fields else "Nothing"


def body_of(content: dict[str, Any] | None) -> str:
    if not content:
        return "undefined"
    found = next((value for media, value in content.items() if "json" in media), None)
    return type_of(found.get("schema", {})) if found is not None else "unknown"


def answer_of(operation: dict[str, Any]) -> str:
    answers = [body_of(one.get("content")) for status, one in operation["responses"].items() if status.startswith("2")]
    return " | ".join(dict.fromkeys(answers)) or "undefined"


def written() -> str:
    """The types of all bodies and answers, one table of operations, and which of them may be sent twice."""
    description = create_app(Settings(worker=False)).openapi()
    operations = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
        if LEFT_OUT not in operation.get("tags", [])
    }
    schemas = description["components"]["schemas"]
    asked = _named_in(json.dumps([one.get("requestBody") for _, _, one in operations.values()]), schemas)
    used = _named_in(json.dumps([one for _, _, one in operations.values()]), schemas)
    parts = [HEAD, "export type Nothing = Record<string, never>;"]
    for name in sorted(used):
        schema = schemas[name]
        if schema.get("type") == "object" and "properties" in schema:
            parts.append(f"export interface {name} {fields_of(schema, answered=name not in asked)}")
        else:
            parts.append(f"export type {name} = {type_of(schema)};")
    types, table = [], []
    for name, (method, path, operation) in sorted(operations.items()):
        body = body_of((operation.get("requestBody") or {}).get("content"))
        query, places = parameters_of(operation, "query"), parameters_of(operation, "path")
        types.append(f"  {name}: {{ path: {places}; query: {query}; body: {body}; answer: {answer_of(operation)} }};")
        table.append(f"  {name}: [{json.dumps(method)}, {json.dumps(path)}],")
    parts.append("export interface Operations {\n" + "\n".join(types) + "\n}")
    parts.append(
        "export const OPERATIONS: { [K in keyof Operations]: [string, string] } = {\n" + "\n".join(table) + "\n};"
    )
    parts.append(_repeatable())
    return "\n\n".join(parts) + "\n"


def _repeatable() -> str:
    """What may be sent twice: the operations that only read, and those that keep no answer under a key."""
    known = routes()
    lists = {
        "READS": [name for name, route in known.items() if route.get("reads")],
        "NOT_KEYED": [name for name, route in known.items() if route.get("not_idempotent")],
    }
    return "\n".join(
        f"export const {name}: ReadonlySet<string> = new Set({json.dumps(sorted(names))});"
        for name, names in lists.items()
    )


def _named_in(text: str, schemas: dict[str, Any]) -> set[str]:
    """The schemas that a text names, and those that these name."""
    found: set[str] = set()
    waiting = [text]
    while waiting:
        for name in re.findall(r"#/components/schemas/([\w.-]+)", waiting.pop()):
            if name not in found:
                found.add(name)
                waiting.append(json.dumps(schemas[name]))
    return found


if __name__ == "__main__":
    SCHEMA.write_text(written(), "utf-8")
