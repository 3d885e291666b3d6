"""Errors as `application/problem+json`: the message, the code and the id of the request."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from recordari.core.telemetry import request_id
from recordari.errors import (
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RecordariError,
    Unauthenticated,
)

_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")

# Used where the message of pydantic would repeat a part of the input.
_MESSAGES = {
    "json_invalid": "must be valid JSON",
    "uuid_parsing": "must be a UUID",
    "uuid_type": "must be a UUID",
    "datetime_parsing": "must be a date and time such as 2027-01-31T09:00:00Z",
    "datetime_from_date_parsing": "must be a date and time such as 2027-01-31T09:00:00Z",
    "extra_forbidden": "is not a known field",
}
_NO_JSON = "must be a JSON object, sent with `Content-Type: application/json`"


class FieldError(BaseModel):
    """An error in one field."""

    field: str = Field(examples=["body.time_zone"])
    message: str = Field(examples=["must be a string"])


SCHEMA_PATH = "#/components/schemas/{model}"
"""Where OpenAPI has the schema of a model."""


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(examples=["urn:recordari:problem:not_found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    code: str = Field(examples=["not_found"])
    detail: str = Field(examples=["there is no such user"])
    instance: str = Field(description="The id of the request, as in `X-Request-Id`.")
    errors: list[FieldError] | None = None


class ProblemResponse(JSONResponse):
    media_type = "application/problem+json"


def error_responses(descriptions: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Errors of a route, by status, for its description.

    They refer to one schema, which `problem_schemas` gives: a model for each of them would make every start slower.
    """
    schema = {"$ref": SCHEMA_PATH.format(model=Problem.__name__)}
    return {
        status: {"description": description, "content": {ProblemResponse.media_type: {"schema": schema}}}
        for status, description in descriptions.items()
    }


def problem_schemas() -> dict[str, Any]:
    """The schemas that `error_responses` refers to, by name."""
    schema = Problem.model_json_schema(ref_template=SCHEMA_PATH)
    return {**schema.pop("$defs"), Problem.__name__: schema}


def problem(error: RecordariError, *, errors: Sequence[FieldError] = ()) -> ProblemResponse:
    if not errors and isinstance(field := error.details.get("field"), str):
        errors = [FieldError(field=field, message=error.message)]
    return _rendered(error.status, error.code, public_detail(error), headers=_headers(error), errors=errors)


def public_detail(error: RecordariError) -> str:
    """Return the message for a caller. Details of our own set-up stay in the log of the server."""
    if isinstance(error, ProviderError):
        return f"An outside service failed: {error.service}. The log of the server says more."
    is_public = error.status < 500 or error.status == 503
    return error.message if is_public else (type(error).__doc__ or "").strip()


def internal_problem() -> ProblemResponse:
    """Render an unexpected exception: the id of the request and no details."""
    return _rendered(500, RecordariError.code, (RecordariError.__doc__ or "").strip())


def _rendered(
    status: int,
    code: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldError] = (),
) -> ProblemResponse:
    content: dict[str, Any] = {
        "type": f"urn:recordari:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
        "instance": request_id.get() or "",
    }
    if errors:
        content["errors"] = [error.model_dump() for error in errors]
    return ProblemResponse(content, status_code=status, headers=headers)


def _headers(error: RecordariError) -> dict[str, str]:
    match error:
        case Unauthenticated():
            address = error.details.get("resource_metadata")
            return {"WWW-Authenticate": f'Bearer resource_metadata="{address}"' if address else "Bearer"}
        case Overloaded():
            return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
        case DatabaseUnavailable():
            return {"Retry-After": "1"}
        case QuotaExceeded(retry_after=float(seconds)):
            return {"Retry-After": str(max(1, math.ceil(seconds)))}
        case _:
            return {}


def field_errors(errors: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    """Convert errors of pydantic; the values themselves are left out."""
    return [_field_error(tuple(error.get("loc", ())), error) for error in errors]


def _field_error(path: tuple[Any, ...], error: Mapping[str, Any]) -> FieldError:
    message = _MESSAGES.get(error["type"], str(error["msg"]).removeprefix("Value error, "))
    if error["type"] == "json_invalid" and path[:1] == ("body",):
        path, message = ("body",), f"{message}; it breaks off at character {path[-1]}"
    elif error["type"] == "model_attributes_type" and path == ("body",):
        message = _NO_JSON
    message += _advice(path[-1], error.get("known", ())) if path else ""
    # A field name that the caller made up freely is not repeated.
    parts = (str(part) if isinstance(part, int) or _FIELD_NAME.fullmatch(str(part)) else "?" for part in path)
    return FieldError(field=".".join(parts), message=message)


def with_known_fields(errors: Sequence[Mapping[str, Any]], body: Any) -> list[Mapping[str, Any]]:
    """The same errors; one of an unknown field of the body says which are known."""
    return [
        {**error, "known": _fields_at(body, error["loc"][1:-1])} if _is_unknown(error) else error for error in errors
    ]


def _is_unknown(error: Mapping[str, Any]) -> bool:
    return bool(error["type"] == "extra_forbidden" and error["loc"][0] == "body")


def _fields_at(annotation: Any, path: Sequence[Any]) -> tuple[str, ...]:
    """The names of the fields of the model at a path of the body; none where that is not plain."""
    model = _model_in(annotation)
    for part in path:
        if model is None:
            return ()
        if isinstance(part, str):
            field = next((one for name, one in model.model_fields.items() if (one.alias or name) == part), None)
            model = None if field is None else _model_in(field.annotation)
    return () if model is None else tuple(field.alias or name for name, field in model.model_fields.items())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)


def _advice(name: Any, known: Sequence[str]) -> str:
    if not known:
        return ""
    nearest = get_close_matches(str(name), known, n=1)
    return f"; did you mean {nearest[0]}?" if nearest else f"; known are {', '.join(known)}"


def install(app: FastAPI) -> None:
    """Answer every error that a route raises as a problem."""

    async def ours(_: Request, error: Exception) -> ProblemResponse:
        assert isinstance(error, RecordariError)
        return problem(error)

    async def invalid(request: Request, error: Exception) -> ProblemResponse:
        assert isinstance(error, RequestValidationError)
        route = request.scope.get("route")
        body = route.body_field if isinstance(route, APIRoute) else None
        errors = error.errors() if body is None else with_known_fields(error.errors(), body.field_info.annotation)
        return problem(InvalidInput(), errors=field_errors(errors))

    async def http(_: Request, error: Exception) -> ProblemResponse:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            return problem(NotFound("There is nothing at this address; /docs lists every route."))
        if error.status_code == 405:
            detail = "This address does not take that method; the header Allow names those that it takes."
            return _rendered(405, "method_not_allowed", detail, headers=error.headers)
        if error.status_code < 500:
            return problem(InvalidInput("The request cannot be read."))
        return internal_problem()

    app.add_exception_handler(RecordariError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
