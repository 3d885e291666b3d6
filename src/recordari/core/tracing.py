"""Spans by OpenTelemetry's conventions for generative AI: counts, flags and names, never content.

Without tracing nothing is made, and the package is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recordari.errors import ConfigurationError, RecordariError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

MEMORY_OPERATIONS = {
    "recall": "search_memory",
    "search_entries": "search_memory",
    "remember": "upsert_memory",
    "put_entry": "upsert_memory",
    "set_state": "upsert_memory",
    "add_messages": "create_memory",
    "append_episode": "create_memory",
}
"""What OpenTelemetry's conventions for generative AI call our operations; the others keep our names."""
_FIGURES = {"records": "gen_ai.memory.record.count"}


class Spans:
    """Makes the spans of operations and of tools, or none."""

    def __init__(self, *, tracing: bool) -> None:
        self._tracer = _tracer() if tracing else None

    @contextmanager
    def of_operation(self, operation: str, figures: Mapping[str, bool | float]) -> Iterator[None]:
        """The span of an operation of memory; `figures` are read at its end."""
        if self._tracer is None:
            yield
            return
        named = MEMORY_OPERATIONS.get(operation)
        with _begun(self._tracer, named or f"memory.{operation}") as span:
            span.set_attribute("gen_ai.operation.name", named or operation)
            span.set_attribute("recordari.operation", operation)
            try:
                yield
            except BaseException as error:
                _mark_failed(span, outcome_of(error))
                raise
            finally:
                for name, figure in figures.items():
                    span.set_attribute(_FIGURES.get(name, f"recordari.{name}"), figure)

    @contextmanager
    def of_tool(self, tool: str) -> Iterator[Callable[[str], None]]:
        """The span of a call of a tool, and what marks it as failed; arguments and results are content and not in it."""
        if self._tracer is None:
            yield _say_nothing
            return
        with _begun(self._tracer, f"execute_tool {tool}") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", tool)
            span.set_attribute("gen_ai.tool.type", "datastore")
            yield lambda outcome: _mark_failed(span, outcome)


def outcome_of(error: BaseException) -> str:
    """The label of an error in metrics and spans: its code, or `cancelled`, or `error`."""
    if isinstance(error, RecordariError):
        return error.code
    return "error" if isinstance(error, Exception) else "cancelled"


@contextmanager
def _begun(tracer: Tracer, name: str) -> Iterator[Span]:
    # The message of an exception may carry content, so the span gets only its class.
    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
        yield span


def _mark_failed(span: Span, outcome: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", outcome)
    span.set_status(StatusCode.ERROR)


def _say_nothing(_outcome: str) -> None:
    """Mark nothing: there is no span."""


def _tracer() -> Tracer:
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise ConfigurationError("RECORDARI_TRACING needs the extra: pip install 'recordari[otel]'") from error
    return trace.get_tracer("recordari")
