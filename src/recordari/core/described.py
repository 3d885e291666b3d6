"""How a dataclass that a route answers with is described: its attribute docstrings become descriptions in OpenAPI."""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict

DESCRIBED: Final = ConfigDict(
    use_attribute_docstrings=True,
    json_schema_serialization_defaults_required=True,
    # Rows of the database hold the texts of enums; on the way out they are made what the fields say.
    revalidate_instances="always",
)
