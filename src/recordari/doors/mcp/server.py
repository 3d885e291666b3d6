"""Serves a profile of tools: over HTTP behind the door of `http`, or over standard input and output."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from typing import Any
from uuid import UUID

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.types import ASGIApp

from recordari.app import Memory
from recordari.core.items import Kind
from recordari.doors.mcp.profiles import PROFILES, ToolProfile
from recordari.doors.mcp.tools import code_of, failed
from recordari.errors import NotFound, RecordariError
from recordari.kit.problems import public_detail

MemoryOf = Callable[[ServerRequestContext[Any, Any]], Memory]


def create_mcp(memory_of: MemoryOf, profile: ToolProfile) -> Server[Any]:
    """The MCP server of a profile; `memory_of` gives the memory bound to the caller of a request."""
    tools = {tool.name: tool for tool in profile.tools}

    @cache
    def listed() -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.described() for tool in profile.tools])

    async def list_tools(_: ServerRequestContext[Any, Any], __: object) -> types.ListToolsResult:
        return listed()

    async def call_tool(
        context: ServerRequestContext[Any, Any], request: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = tools.get(request.name)
        if tool is None:
            return failed("not_found", f"there is no such tool; there are {', '.join(tools)}")
        memory = memory_of(context)
        with memory.resources.telemetry.tool_called(tool.name) as fail:
            result = await tool.call(memory, request.arguments or {}, consent=partial(ask_user, context, request))
            if isinstance(result, types.CallToolResult) and result.is_error:
                fail(code_of(result))
            return result

    async def list_resources(_: ServerRequestContext[Any, Any], __: object) -> types.ListResourcesResult:
        return LISTED

    async def list_templates(_: ServerRequestContext[Any, Any], __: object) -> types.ListResourceTemplatesResult:
        return TEMPLATES

    async def read_resource(
        context: ServerRequestContext[Any, Any], request: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await read(memory_of(context), str(request.uri))

    async def list_prompts(_: ServerRequestContext[Any, Any], __: object) -> types.ListPromptsResult:
        return PROMPTS

    async def get_prompt(
        context: ServerRequestContext[Any, Any], request: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        return await prompt(memory_of(context), request.name, request.arguments or {})

    server: Server[Any] = Server(
        "recordari",
        title="Recordari",
        version=version("recordari"),
        description="Memory for AI agents.",
        instructions=profile.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    # Otherwise the SDK passes the text of exceptions to any OpenTelemetry set-up that it finds.
    server.middleware.clear()
    return server


async def ask_user(
    context: ServerRequestContext[Any, Any], request: types.CallToolRequestParams, question: str
) -> types.CallToolResult | types.InputRequiredResult | None:
    """Ask the user to agree to a call, where the host can ask; None lets the call go on.

    From 2026-07-28 on, the answer comes with the next request. Its name belongs to this question: no other answer counts.
    """
    capabilities = context.session.client_capabilities
    able = capabilities.elicitation if capabilities else None
    if able is None or (able.form is None and able.url is not None):
        return None
    agreement: dict[str, Any] = {"type": "object", "properties": {}}
    answer: object = None
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        name = f"consent-{sha256(question.encode()).hexdigest()[:16]}"
        answer = (request.input_responses or {}).get(name)
        if answer is None:
            form = types.ElicitRequestFormParams(message=question, requested_schema=agreement)
            return types.InputRequiredResult(input_requests={name: types.ElicitRequest(params=form)})
    elif context.session.can_send_request:
        try:
            answer = await context.session.elicit_form(question, agreement, context.request_id)
        except (MCPError, ValidationError):
            return failed("declined", "the user could not be asked; nothing was changed")
    else:
        return None
    if isinstance(answer, types.ElicitResult) and answer.action == "accept":
        return None
    return failed("declined", "the user did not agree; nothing was changed")


async def serve_stdio(memory: Memory, profile: ToolProfile) -> None:
    """Serve the memory over standard input and output until the client leaves."""
    server = create_mcp(lambda _: memory, profile)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def handling(profile: str, *, max_bytes: int) -> AsyncIterator[ASGIApp]:
    """What answers requests to a profile for as long as the block lasts; `state.memory` of a request is the caller's."""
    server = create_mcp(_memory_of_request, PROFILES[profile])
    server.streamable_http_app(
        stateless_http=True,
        json_response=True,
        max_request_body_size=max_bytes,
        # The door checks host names and origins: it knows more patterns.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    async with server.session_manager.run():
        yield server.session_manager.handle_request


def _memory_of_request(context: ServerRequestContext[Any, Any]) -> Memory:
    assert context.request is not None
    memory: Memory = context.request.state.memory
    return memory


PROMPTS = types.ListPromptsResult(
    prompts=[
        types.Prompt(
            name="what_do_you_know",
            title="What do you know?",
            description="What memory knows about the user and their last sessions, or about a project or matter.",
            arguments=[types.PromptArgument(name="about", description="A project, person or matter.", required=False)],
        ),
        types.Prompt(
            name="remember_this",
            title="Remember this conversation",
            description="Asks the model to keep what will matter later.",
        ),
    ]
)
REMEMBER = (
    "Look back over this conversation. Keep with remember_fact what will matter in later ones: decisions, preferences, "
    "names, dates and numbers, one fact per call, each as a full sentence. Leave out secrets and what was only tried."
)


async def prompt(memory: Memory, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """The messages of a prompt; what memory knows is data in them, in blocks that it cannot close."""
    about = arguments.get("about", "").strip()
    try:
        match name:
            case "what_do_you_know":
                context = await memory.get_context(about or None, profile="start")
                text = f"What do you know about {about or 'me and our last sessions'}?\n\n{context.text}"
            case "remember_this":
                text = REMEMBER
            case _:
                raise NotFound("there is no such prompt")
    except RecordariError as error:
        raise MCPError(code=types.INVALID_PARAMS, message=f"{error.code}: {public_detail(error)}") from error
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(messages=[message])


FACTS = "recordari://facts"
PROFILE = "recordari://profile"
MEMORY = "recordari://memories/"
JSON = "application/json"
NEWEST = 50  # facts in the list

LISTED = types.ListResourcesResult(
    resources=[
        types.Resource(
            uri=FACTS,
            name="facts",
            title="What is known",
            description=f"The newest {NEWEST} facts about the user and the agent.",
            mime_type=JSON,
        ),
        types.Resource(
            uri=PROFILE,
            name="profile",
            title="The profile",
            description="What is known of the user, or of the agent, in a few hundred tokens.",
            mime_type=JSON,
        ),
    ]
)
TEMPLATES = types.ListResourceTemplatesResult(
    resource_templates=[
        types.ResourceTemplate(
            uri_template=f"{MEMORY}{{id}}",
            name="memory",
            title="A memory",
            description="One memory, whole, by the id that `recall` gives.",
            mime_type=JSON,
        )
    ]
)


async def read(memory: Memory, address: str) -> types.ReadResourceResult:
    """Read a resource, or raise an error of the protocol if there is none."""
    try:
        resource = await _read(memory, address)
    except RecordariError as error:
        raise MCPError(code=types.INVALID_PARAMS, message=f"{error.code}: {public_detail(error)}") from error
    contents = types.TextResourceContents(uri=address, mime_type=JSON, text=to_json(resource).decode())
    return types.ReadResourceResult(contents=[contents])


async def _read(memory: Memory, address: str) -> object:
    if address == PROFILE:
        return await memory.profile()
    if address == FACTS:
        return (await memory.list_items(kinds=[Kind.FACT], limit=NEWEST)).items
    if address.startswith(MEMORY):
        try:
            item_id = UUID(address.removeprefix(MEMORY))
        except ValueError:
            raise NotFound("there is no such item") from None
        return await memory.get_item(item_id)
    raise NotFound(f"there is nothing at this address; there are {FACTS}, {PROFILE} and {MEMORY}{{id}}")
