"""The tools of the profile `agent`: state, notes, runs, episodes, standing questions, and the choice of a workflow."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field

from recordari.app import Memory
from recordari.context.rules.questions import StandingAnswer, StandingQuestion
from recordari.core.identity import Scope
from recordari.doors.mcp.tools import Arguments, MemoryTool, from_text
from recordari.errors import InvalidInput
from recordari.kit.rest import Shown
from recordari.learning.rules.workflows import Choice
from recordari.learning.workflows import Rewarded
from recordari.memory.remember import Remembered
from recordari.sessions.rules.runs import (
    EPISODES_GIVEN,
    MAX_TYPE,
    MOST_EPISODES_GIVEN,
    NewToolCall,
    Run,
    RunStatus,
    StartedTurn,
    ToolCall,
)
from recordari.sessions.rules.sessions import NoteKind, SessionNote
from recordari.sessions.rules.state import LONGEST_TTL, StateEntry

Key = Annotated[str, Field(min_length=1, max_length=200, description="Name of the value, such as plan or cart/items.")]
Owner = Annotated[
    Literal["session", "run"], Field(description="session: for this conversation; run: until the current run ends.")
]
RunName = Annotated[str, Field(min_length=1, max_length=200, description="`run_id` of start_run.")]
Json = Annotated[Any, BeforeValidator(from_text)]


class StateArguments(Arguments):
    """Which value."""

    key: Key
    owner: Owner = "session"


class SetStateArguments(StateArguments):
    """A value to keep."""

    value: Json = Field(description="Any JSON.")
    ttl_seconds: int | None = Field(
        default=None,
        ge=1,
        le=int(LONGEST_TTL.total_seconds()),
        description="How long it is kept; an hour, if left out.",
    )
    if_version: int | None = Field(
        default=None, ge=0, description="Write only over this version; 0: only if there is none."
    )


class ListStateArguments(Arguments):
    """Which values."""

    prefix: str = Field(default="", max_length=200, description="Only keys that begin so.")
    owner: Owner = "session"


class NoteArguments(Arguments):
    """A note for the rest of the session."""

    content: str = Field(min_length=1, max_length=2_000)
    kind: NoteKind = NoteKind.NOTE
    importance: float = Field(default=0.5, ge=0, le=1, description="Above 50 notes the least important one goes.")


class NoteIdArguments(Arguments):
    """Which note."""

    note_id: UUID


class RunArguments(Arguments):
    """A run to start."""

    run_id: str | None = Field(
        default=None, max_length=200, description="Your own id; the same id again is the same run."
    )
    input: Annotated[dict[str, Any] | None, BeforeValidator(from_text)] = Field(
        default=None, description="What the run is given, as JSON."
    )
    episodes: int = Field(
        default=EPISODES_GIVEN, ge=0, le=MOST_EPISODES_GIVEN, description="How many of your last episodes to return."
    )


class CallArguments(Arguments):
    """A tool call that was made in a run."""

    run_id: RunName
    name: str = Field(min_length=1, max_length=200, description="Name of the tool.")
    arguments: Json = Field(description="What it was called with, as JSON.")
    result: Any = Field(default=None, description="What it returned: text, any JSON, or bytes in Base64.")
    result_type: str | None = Field(
        default=None, max_length=MAX_TYPE, description="Media type of bytes, such as image/png; else leave it out."
    )
    error: str | None = Field(default=None, description="Why it failed.")
    useful: bool = Field(default=False, description="Whether the result is worth a note in the session.")


class CompleteArguments(Arguments):
    """The end of a run that succeeded."""

    run_id: RunName
    output: Json = Field(default=None, description="What the run produced, as JSON.")


class FailArguments(Arguments):
    """The end of a run that failed."""

    run_id: RunName
    error: str = Field(min_length=1, description="What went wrong.")


class RunsArguments(Arguments):
    """Which runs."""

    status: RunStatus | None = None
    limit: int = Field(default=10, ge=1, le=50)


class EpisodeArguments(Arguments):
    """Something that you did."""

    content: str = Field(min_length=1, description="What you did and how it ended, in one or two sentences.")
    run_id: str | None = Field(default=None, max_length=200, description="The run that it belongs to.")
    scope: Literal["agent", "user"] | None = Field(
        default=None, description="agent: for your work with everybody; user: only with this user."
    )


class LastArguments(Arguments):
    """How many episodes."""

    limit: int = Field(default=EPISODES_GIVEN, ge=1, le=MOST_EPISODES_GIVEN)


class ChooseArguments(Arguments):
    """The task that a workflow is needed for."""

    agent_type: str = Field(min_length=1, max_length=200)
    task_type: str = Field(min_length=1, max_length=200)


class RewardArguments(Arguments):
    """How well a chosen workflow did."""

    choice_id: UUID = Field(description="`choice_id` of choose_workflow.")
    score: float = Field(ge=0, le=1, description="0: failed; 1: perfect.")


class StandingArguments(Arguments):
    """Which standing question."""

    name: str = Field(min_length=1, max_length=200, description="Its name, from list_questions.")


class StateShown(Shown):
    """Values by key."""

    entries: list[StateEntry]


class NotesShown(Shown):
    """The notes of the session, oldest first."""

    notes: list[SessionNote]


class EpisodeShown(Shown):
    """One episode."""

    id: UUID = Field(validation_alias="item_id")
    content: str
    scope: Scope
    event_time: datetime


class EpisodesShown(Shown):
    """Your last episodes, oldest first."""

    episodes: list[EpisodeShown]


class StartedShown(Shown):
    """A run that has begun, with your last episodes, oldest first."""

    run_id: str
    turn: int
    was_new: bool
    episodes: list[EpisodeShown]


class RunsShown(Shown):
    """Runs, newest first."""

    runs: list[Run]


class QuestionsShown(Shown):
    """The standing questions, by name."""

    questions: list[StandingQuestion]


class GoneShown(Shown):
    """Something that was removed."""

    removed: str


def _session(memory: Memory) -> str:
    if (session_id := memory.identity.session_id) is None:
        raise InvalidInput("notes belong to a session: the host names it (Recordari-Session, or --session)")
    return session_id


async def _set(memory: Memory, given: SetStateArguments) -> object:
    ttl = None if given.ttl_seconds is None else timedelta(seconds=given.ttl_seconds)
    return await memory.set_state(given.key, given.value, owner=given.owner, ttl=ttl, if_version=given.if_version)


async def _list_state(memory: Memory, given: ListStateArguments) -> Mapping[str, Any]:
    return {"entries": await memory.list_state(owner=given.owner, prefix=given.prefix)}


async def _removed(change: Awaitable[object], name: object) -> Mapping[str, Any]:
    await change
    return {"removed": str(name)}


async def _note(memory: Memory, given: NoteArguments) -> object:
    return await memory.add_note(_session(memory), given.content, kind=given.kind, importance=given.importance)


async def _notes(memory: Memory, _: Arguments) -> Mapping[str, Any]:
    return {"notes": await memory.list_notes(_session(memory))}


async def _delete_note(memory: Memory, given: NoteIdArguments) -> Mapping[str, Any]:
    return await _removed(memory.delete_note(_session(memory), given.note_id), given.note_id)


async def _start(memory: Memory, given: RunArguments) -> StartedShown:
    started: StartedTurn = await memory.start_run(run_id=given.run_id, input=given.input, episodes=given.episodes)
    return StartedShown(
        run_id=started.run.run_id,
        turn=started.turn.number,
        was_new=started.was_new,
        episodes=[EpisodeShown.model_validate(episode, from_attributes=True) for episode in started.episodes],
    )


async def _record(memory: Memory, given: CallArguments) -> ToolCall:
    call = NewToolCall(**given.model_dump(exclude={"run_id"}))
    (recorded,) = await memory.record_tool_calls(given.run_id, [call])
    return recorded


async def _runs(memory: Memory, given: RunsArguments) -> Mapping[str, Any]:
    return {"runs": await memory.list_runs(status=given.status, limit=given.limit)}


async def _last(memory: Memory, given: LastArguments) -> Mapping[str, Any]:
    return {"episodes": await memory.last_episodes(limit=given.limit)}


async def _questions(memory: Memory, _: Arguments) -> Mapping[str, Any]:
    return {"questions": await memory.list_questions()}


STATE_TOOLS = (
    MemoryTool(
        name="set_state",
        title="Keep a value",
        description=(
            "Keep a JSON value under a key for this conversation or run: a plan, a cart, a counter. It is read back to "
            "the letter and never searched. `version` grows with every write; pass it as `if_version` so that two "
            "writers do not overwrite each other."
        ),
        takes=SetStateArguments,
        gives=StateEntry,
        run=_set,
    ),
    MemoryTool(
        name="get_state",
        title="Read a value",
        description="Read the value under a key. An error says that there is none, or that it has expired.",
        takes=StateArguments,
        gives=StateEntry,
        run=lambda memory, given: memory.get_state(**dict(given)),
        reads_only=True,
    ),
    MemoryTool(
        name="list_state",
        title="List values",
        description="All values of this conversation or run that have not expired, in the order of their keys.",
        takes=ListStateArguments,
        gives=StateShown,
        run=_list_state,
        reads_only=True,
    ),
    MemoryTool(
        name="delete_state",
        title="Remove a value",
        description="Remove the value under a key.",
        takes=StateArguments,
        gives=GoneShown,
        run=lambda memory, given: _removed(memory.delete_state(**dict(given)), given.key),
        destroys=True,
    ),
)

NOTE_TOOLS = (
    MemoryTool(
        name="add_note",
        title="Add a note",
        description=(
            "Note something for the rest of this session: a decision, an action item, a useful result. Notes are shown "
            "in the context and are gone a day after the session was last used. For what should last, use remember_fact."
        ),
        takes=NoteArguments,
        gives=SessionNote,
        run=_note,
    ),
    MemoryTool(
        name="list_notes",
        title="List notes",
        description="The notes of this session, oldest first.",
        takes=Arguments,
        gives=NotesShown,
        run=_notes,
        reads_only=True,
    ),
    MemoryTool(
        name="delete_note",
        title="Remove a note",
        description="Remove a note that no longer applies, such as a task that is done.",
        takes=NoteIdArguments,
        gives=GoneShown,
        run=_delete_note,
        destroys=True,
    ),
)

RUN_TOOLS = (
    MemoryTool(
        name="start_run",
        title="Start a run",
        description=(
            "Begin a piece of work that should leave a record. The answer has your last episodes: what you did before. "
            "End it with complete_run or fail_run."
        ),
        takes=RunArguments,
        gives=StartedShown,
        run=_start,
    ),
    MemoryTool(
        name="record_tool_call",
        title="Record a tool call",
        description=(
            "Record a call of another tool in a run: what it was given, and what it returned. The result can be recalled "
            "later. Only while the run is open."
        ),
        takes=CallArguments,
        gives=ToolCall,
        run=_record,
    ),
    MemoryTool(
        name="complete_run",
        title="Complete a run",
        description="End a run that succeeded. A second call with another output is refused.",
        takes=CompleteArguments,
        gives=Run,
        run=lambda memory, given: memory.complete_run(given.run_id, output=given.output),
    ),
    MemoryTool(
        name="fail_run",
        title="Fail a run",
        description="End a run that failed, and say why.",
        takes=FailArguments,
        gives=Run,
        run=lambda memory, given: memory.fail_run(given.run_id, error=given.error),
    ),
    MemoryTool(
        name="list_runs",
        title="List runs",
        description="Runs of yours, newest first, with status, output and cost.",
        takes=RunsArguments,
        gives=RunsShown,
        run=_runs,
        reads_only=True,
    ),
)

EPISODE_TOOLS = (
    MemoryTool(
        name="append_episode",
        title="Record what you did",
        description=(
            "Record one thing that you did and how it ended, so that your next run knows it. What you do again becomes "
            "a procedure by itself."
        ),
        takes=EpisodeArguments,
        gives=Remembered,
        run=lambda memory, given: memory.append_episode(**dict(given)),
    ),
    MemoryTool(
        name="last_episodes",
        title="What you did last",
        description="Your last episodes, oldest first.",
        takes=LastArguments,
        gives=EpisodesShown,
        run=_last,
        reads_only=True,
    ),
)

WORKFLOW_TOOLS = (
    MemoryTool(
        name="choose_workflow",
        title="Choose a workflow",
        description=(
            "Draw one of the saved ways to do a task; each is drawn as often as it is likely to be the best. Follow its "
            "`spec`, then call reward_workflow with the `choice_id`."
        ),
        takes=ChooseArguments,
        gives=Choice,
        run=lambda memory, given: memory.choose(given.agent_type, given.task_type),
        repeatable=False,
    ),
    MemoryTool(
        name="reward_workflow",
        title="Reward a workflow",
        description="Say how well a chosen workflow did. A choice is scored once; the same score again changes nothing.",
        takes=RewardArguments,
        gives=Rewarded,
        run=lambda memory, given: memory.reward(given.choice_id, given.score),
    ),
)

QUESTION_TOOLS = (
    MemoryTool(
        name="list_questions",
        title="List standing questions",
        description="The questions whose answers are kept up to date for every user, such as what a customer cares about.",
        takes=Arguments,
        gives=QuestionsShown,
        run=_questions,
        reads_only=True,
    ),
    MemoryTool(
        name="standing_answer",
        title="Answer a standing question",
        description="The answer to a standing question for this user, with the ids of its sources; empty if nothing answers.",
        takes=StandingArguments,
        gives=StandingAnswer,
        run=lambda memory, given: memory.standing_answer(given.name),
        reads_only=True,
    ),
)

AGENT_TOOLS = STATE_TOOLS + NOTE_TOOLS + RUN_TOOLS + EPISODE_TOOLS + QUESTION_TOOLS + WORKFLOW_TOOLS
