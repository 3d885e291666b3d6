"""Write the client's table of operations from the declarations of the REST routes: `python -m tools.routes`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute

from recordari.kit.rest import CLIENT
from recordari.routes import ROUTERS
from recordari.transfer import mem0_rest

TABLE = Path(__file__).parents[1] / "src" / "recordari" / "client" / "routes.json"


def operations() -> dict[str, dict[str, Any]]:
    """Every operation that the client may call, by its id, which is the name of the verb."""
    return {
        str(route.operation_id): {
            "method": min(route.methods or ()),
            "path": route.path.replace(":path", ""),
            **(route.openapi_extra or {}).get(CLIENT, {}),
        }
        for router in ROUTERS
        if router is not mem0_rest.router
        for route in router.routes
        if isinstance(route, APIRoute)
    }


def written() -> str:
    """The text of the table: an operation a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(route)}" for name, route in sorted(operations().items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(written(), "utf-8")
