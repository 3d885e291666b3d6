"""Settings of dataclasses that routes return: their attribute docstrings become descriptions in OpenAPI."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict, Field

DESCRIBED: Final = ConfigDict(use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)

LEFT_OUT_IF_EMPTY: Final[Any] = Field(exclude_if=lambda value: not value)
"""For a field that most answers do not have."""
