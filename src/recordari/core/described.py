"""How a dataclass that a route answers with is described: its attribute docstrings become descriptions in OpenAPI."""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict

DESCRIBED: Final = ConfigDict(use_attribute_docstrings=True)
