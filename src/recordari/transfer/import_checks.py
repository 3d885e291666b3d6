"""Checks of the rows of an export that the database does not make itself."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from recordari.context.rules.context import ContextSettings
from recordari.context.rules.questions import LONGEST_QUESTION
from recordari.core.checks import TEXT_TYPE, check_label, checked_content, json_text
from recordari.core.identity import Owner, Scope, SessionId, checked_choice, checked_id, owned_by, session_thread
from recordari.core.items import MAX_CONTENT_BYTES, Kind, Tier, Trust
from recordari.errors import InvalidInput
from recordari.knowledge.ingest import MAX_NAME, MAX_TITLE
from recordari.knowledge.rules.knowledge_map import MAX_DESCRIPTION, MAX_SOURCE_NAME, MAX_TOOL, SourceKind, checked_text
from recordari.learning.rules.workflows import spec_text
from recordari.operations.rules import ReportKind
from recordari.privacy.rules.masking import PrivacyPolicy
from recordari.tenants.rules import SETTING as QUOTAS

Row = dict[str, Any]
MOST_DIGITS = 400


def checked_row(kind: str, row: Row) -> Row:
    """The row, ready to write; `InvalidInput` says what is wrong with it."""
    check = _CHECKS.get(kind)
    return check(row) if check is not None else row


def is_of_user(kind: str, row: Mapping[str, Any], user_id: str) -> bool:
    """Whether a row can belong to that user; the database checks the rows that it points to."""
    owner = owned_by(user_id, None)
    match kind:
        case "user" | "session" | "run":
            return bool(row.get("user_id") == user_id)
        case "item":
            thread = row.get("thread")
            in_session = str(thread).startswith(session_thread(owner, SessionId("")))
            return bool(row.get("user_id") == user_id and (thread is None or in_session)) or (
                row.get("user_id") is None and in_session
            )
        case "entry":
            return (row.get("scope"), row.get("owner_id")) == (Scope.USER, user_id)
        case "feedback":
            return str(row.get("given_by")).partition(":")[2] == user_id or row.get("given_by") == user_id
        case "turn_state" | "note" | "state_owner" | "state":
            return bool(row.get("owned_by") == owner)
        case "evidence":
            return True
        case _:
            return False


def row_id(row: Mapping[str, Any], name: str) -> UUID:
    try:
        return UUID(row[name])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidInput(f"a row of the export has no valid {name}", field=name) from None


def decoded(text: object, *, field: str) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput(f"the {field} of a row of the export cannot be read", field=field) from None


def body_of(item: Mapping[str, Any]) -> tuple[str, bytes, str]:
    """The key of an item's whole body, the body, and its media type."""
    payload = item.get("payload")
    if not isinstance(payload, Mapping) or not isinstance(payload.get("payload_key"), str):
        raise InvalidInput("the payload of an item of the export cannot be read", field="payload")
    return (
        payload["payload_key"],
        decoded(payload.get("body"), field="payload"),
        str(payload.get("media_type") or TEXT_TYPE),
    )


def whole_number(row: Mapping[str, Any], name: str, *, least: int = 0) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"a row of the export has no valid {name}", field=name)
    return value


def _item(row: Row) -> Row:
    for name, choices in (("kind", Kind), ("scope", Scope), ("tier", Tier), ("trust", Trust)):
        checked_choice(name, choices, row.get(name, ""))
    if len(checked_content(row.get("content", "")).encode()) > MAX_CONTENT_BYTES:
        raise InvalidInput(f"an item has at most {MAX_CONTENT_BYTES} bytes of content", field="content")
    for name in ("user_id", "agent_id", "session_id", "run_id"):
        if row.get(name) is not None:
            checked_id(name, row[name])
    _check_times(row, "event_time", "created_at", "valid_at")
    if row.get("access") is not None:
        if not isinstance(row["access"], Mapping):
            raise InvalidInput("an item of the export has no valid access", field="access")
        whole_number(row["access"], "times")
        _check_times(row["access"], "last_at")
    row_id(row, "item_id")
    return row


def _session(row: Row) -> Row:
    return {**row, "owned_by": _owner(row)}


def _run(row: Row) -> Row:
    """A run with its turns and calls, which have its owner."""
    nested = {
        name: [{**entry, "run_id": row.get("run_id"), "owned_by": _owner(row)} for entry in _rows(row, name)]
        for name in ("turn_log", "tool_calls")
    }
    return {**row, **nested, "owned_by": _owner(row)}


def _rows(row: Row, name: str) -> list[Row]:
    rows = row.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(entry, dict) for entry in rows):
        raise InvalidInput(f"a run of the export has no valid {name}", field=name)
    return rows


def _owner(row: Row) -> Owner:
    ids = {name: row.get(name) for name in ("user_id", "agent_id")}
    return owned_by(
        **{name: checked_id(name, str(value)) if value is not None else None for name, value in ids.items()}
    )


def _of_owner(row: Row) -> Row:
    """A row of something whose owner is not in its other columns."""
    kind, _, name = _text(row, "owned_by").partition(":")
    if kind not in {"user", "agent", "tenant", "erased"} or (kind == "tenant") != (name == ""):
        raise InvalidInput("a row of the export has no valid owned_by", field="owned_by")
    return row


def _tenant(row: Row) -> Row:
    settings = row.get("settings")
    if not isinstance(settings, dict) or not isinstance(row.get("language"), str):
        raise InvalidInput("a row of the export has no valid settings or language", field="settings")
    json_text(settings, field="settings")
    PrivacyPolicy.read(settings.get("privacy"))
    ContextSettings.read(settings.get("context"))
    return {**row, "settings": {name: value for name, value in settings.items() if name != QUOTAS}}


def _source(row: Row) -> Row:
    row_id(row, "source_id")
    checked_choice("kind", SourceKind, row.get("kind", ""))
    checked_id("name", checked_text("name", row.get("name", ""), most=MAX_SOURCE_NAME, least=1))
    checked_text("description", row.get("description", ""), most=MAX_DESCRIPTION)
    if row.get("tool") is not None:
        checked_text("tool", row["tool"], most=MAX_TOOL, least=1)
    _check_times(row, "created_at", "updated_at")
    return row


def _document(row: Row) -> Row:
    row_id(row, "document_id")
    row_id(row, "source_id")
    checked_text("name", row.get("name", ""), most=MAX_NAME, least=1)
    checked_text("title", row.get("title", ""), most=MAX_TITLE)
    for name in ("bytes", "characters", "chunks"):
        whole_number(row, name)
    whole_number(row, "revision", least=1)
    if not isinstance(row.get("metadata"), dict):
        raise InvalidInput("a document of the export has no valid metadata", field="metadata")
    _check_times(row, "created_at", "updated_at")
    return row


def _chunk(row: Row) -> Row:
    row_id(row, "document_id")
    row_id(row, "item_id")
    for name in ("ordinal", "first", "past"):
        whole_number(row, name)
    heading = row.get("heading")
    if not isinstance(heading, list) or not all(isinstance(line, str) for line in heading):
        raise InvalidInput("a chunk of the export has no valid heading", field="heading")
    return row


def _workflow(row: Row) -> Row:
    row_id(row, "workflow_id")
    for name in ("agent_type", "task_type", "name"):
        checked_id(name, _text(row, name))
    whole_number(row, "version", least=1)
    for name in ("prior_alpha", "prior_beta"):
        _check_decimal(row, name)
    _check_times(row, "valid_at")
    try:
        spec = json.loads(_text(row, "spec_text"))
    except (ValueError, RecursionError):
        raise InvalidInput("a workflow of the export has no valid spec_text", field="spec_text") from None
    text, digest = spec_text(spec)
    return {**row, "spec_text": text, "spec_hash": "\\x" + digest.hex()}


def _question(row: Row) -> Row:
    row_id(row, "question_id")
    checked_id("name", _text(row, "name"))
    if row.get("agent_id") is not None:
        checked_id("agent_id", _text(row, "agent_id"))
    check_label("question", _text(row, "question"), LONGEST_QUESTION)
    _check_times(row, "changed_at")
    return row


def _proposal(row: Row) -> Row:
    row_id(row, "proposal_id")
    if not isinstance(row.get("items"), list):
        raise InvalidInput("a proposal of the export has no valid items", field="items")
    _check_times(row, "proposed_at")
    return row


def _columns(
    *, time: str, uuid: str = "", text_id: str = "", count: str = "", owned: bool = False
) -> Callable[[Row], Row]:
    def check(row: Row) -> Row:
        if owned:
            _of_owner(row)
        if uuid:
            row_id(row, uuid)
        if text_id:
            checked_id(text_id, _text(row, text_id))
        if count:
            whole_number(row, count, least=1)
        _check_times(row, time)
        return row

    return check


def _report(row: Row) -> Row:
    row_id(row, "report_id")
    checked_choice("kind", ReportKind, row.get("kind", ""))
    _check_times(row, "created_at")
    return row


def _check_times(row: Mapping[str, Any], *required: str) -> None:
    """Refuse times that Python cannot read: the database also has `infinity`."""
    others = {name for name, value in row.items() if name.endswith("_at") and value is not None}
    for name in (*required, *sorted(others.difference(required))):
        try:
            datetime.fromisoformat(row[name])
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(f"a row of the export has no valid {name}", field=name) from None


def _check_decimal(row: Mapping[str, Any], name: str) -> None:
    try:
        value = Decimal(_text(row, name))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value <= 0 or len(row[name]) > MOST_DIGITS:
        raise InvalidInput(f"a workflow of the export has no valid {name}", field=name)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"a row of the export has no valid {name}", field=name)
    return value


_CHECKS: dict[str, Callable[[Row], Row]] = {
    "tenant": _tenant,
    "source": _source,
    "session": _session,
    "run": _run,
    "note": _of_owner,
    "turn_state": _of_owner,
    "state_owner": _of_owner,
    "state": _of_owner,
    "item": _item,
    "document": _document,
    "chunk": _chunk,
    "feedback": _columns(uuid="item_id", text_id="given_by", time="given_at"),
    "hold": _columns(uuid="item_id", text_id="action_id", time="created_at"),
    "protected_source": _columns(uuid="source_id", time="protected_at"),
    "question": _question,
    "workflow": _workflow,
    "choice": _columns(uuid="choice_id", count="candidates", time="chosen_at", owned=True),
    "outcome": _columns(text_id="outcome_id", time="rewarded_at", owned=True),
    "proposal": _proposal,
    "report": _report,
}
