"""A context as text, as chat messages, or as its sections: instructions as they are, everything else fenced as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.context.rules import fence
from recordari.context.rules.budget import Bid, Filled, Kept, Reason, fill
from recordari.context.rules.context import INSTRUCTIONS, SECTIONS, ContextItem, Layer, Rendering, SectionName, Share
from recordari.core.described import DESCRIBED
from recordari.core.tokens import MESSAGE_OVERHEAD, TokenCounter
from recordari.sessions.rules.window import MessageRole

_NUMBER = 999  # stands for an item's number while its place is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What a section is made of."""

    name: SectionName
    items: tuple[Kept[ContextItem], ...]
    budget: int

    def shown(self) -> ContextSection:
        """The section as it is answered."""
        return ContextSection(
            name=self.name,
            layer=SECTIONS[self.name].layer,
            budget=self.budget,
            items=tuple(_shown(self.name, place, kept) for place, kept in enumerate(self.items, start=1)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionItem:
    """One text of a section with where it comes from and who vouches for it."""

    __pydantic_config__ = DESCRIBED

    ref: str
    """What it is called in the text, such as `L1`."""
    content: str
    is_cut: bool
    """It ends with a sentence, but before its end."""
    kind: str
    trust: str
    source_ref: str
    item_id: UUID | None
    when: datetime | None
    who: str | None
    scope: str | None
    session_id: str | None
    payload_key: str | None
    score: float | None
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSection:
    """What one section shows."""

    __pydantic_config__ = DESCRIBED

    name: SectionName
    layer: Layer
    budget: int
    items: tuple[SectionItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message for a chat model."""

    __pydantic_config__ = DESCRIBED

    role: MessageRole
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A context ready to be handed over, and its tokens."""

    text: str | None
    messages: tuple[ChatMessage, ...] | None
    tokens: int


def bid_of(name: SectionName, share: Share, items: Sequence[ContextItem], count: TokenCounter) -> Bid[ContextItem]:
    """What a section asks of the budget."""
    frame = 2 if name in INSTRUCTIONS else count(fence.block(SECTIONS[name].title, [], "0" * fence.MARK_LENGTH)) + 4
    return Bid(
        name=name,
        tokens=share.tokens,
        priority=share.priority,
        items=items,
        most=share.most,
        frame=frame,
        contiguous=name is SectionName.WINDOW,
    )


def cost(name: SectionName, item: ContextItem, content: str, count: TokenCounter) -> int:
    """The tokens of an item as it will be written."""
    if name in INSTRUCTIONS:
        return count(content) + 1
    return count(_line(name, _NUMBER, item, content)) + 1


def preface_cost(hint: str | None, count: TokenCounter) -> int:
    """The tokens of what stands around all sections."""
    return count(fence.NOTICE) + (count(hint) if hint else 0) + 2 * MESSAGE_OVERHEAD


def render(sections: Sequence[Section], hint: str | None, how: Rendering, count: TokenCounter) -> Rendered:
    """Write a context; the tokens are those of the very text that is handed over."""
    blocks = _blocks(sections)
    if how is not Rendering.MESSAGES:
        text = "\n\n".join(_parts(sections, blocks, hint))
        return Rendered(text=text if how is Rendering.TEXT else None, messages=None, tokens=count(text))
    messages = _messages(sections, blocks, hint)
    tokens = sum(count(message.content) + MESSAGE_OVERHEAD for message in messages)
    return Rendered(text=None, messages=tuple(messages), tokens=tokens)


def _parts(sections: Sequence[Section], blocks: dict[SectionName, str], hint: str | None) -> list[str]:
    parts = _instructions(sections, hint)
    return [*parts, fence.NOTICE, *blocks.values()] if blocks else parts


def _instructions(sections: Sequence[Section], hint: str | None) -> list[str]:
    """The agent's own definition, and what we have to say to it."""
    own = [kept.content for section in sections if section.name in INSTRUCTIONS for kept in section.items]
    return [*own, hint] if hint else own


def _blocks(sections: Sequence[Section]) -> dict[SectionName, str]:
    """Every section that is data, in its block."""
    lines = {
        section.name: [
            _line(section.name, place, kept.item, kept.content, is_cut=kept.is_cut)
            for place, kept in enumerate(section.items, start=1)
        ]
        for section in sections
        if section.items and section.name not in INSTRUCTIONS
    }
    everything = [line for each in lines.values() for line in each]
    return {
        name: fence.block(SECTIONS[name].title, each, fence.mark_of(SECTIONS[name].title, each, everything))
        for name, each in lines.items()
    }


def _messages(sections: Sequence[Section], blocks: dict[SectionName, str], hint: str | None) -> list[ChatMessage]:
    """The definition for the system, the blocks as a user's message, then the conversation in its own roles."""
    messages: list[ChatMessage] = []
    instructions = _instructions(sections, hint)
    if instructions:
        messages.append(ChatMessage(role=MessageRole.SYSTEM, content="\n\n".join(instructions)))
    data = [text for name, text in blocks.items() if name is not SectionName.WINDOW]
    if data:
        messages.append(ChatMessage(role=MessageRole.USER, content="\n\n".join([fence.NOTICE, *data])))
    for section in sections:
        if section.name is SectionName.WINDOW:
            messages += [_said(place, kept) for place, kept in enumerate(section.items, start=1)]
    return messages


def _said(place: int, kept: Kept[ContextItem]) -> ChatMessage:
    """A message of the conversation. What a tool or another program put into it is data and gets no role of power."""
    message = kept.item.message
    if message is not None and message.role in {MessageRole.USER, MessageRole.ASSISTANT}:
        return ChatMessage(role=message.role, content=kept.content)
    line = _line(SectionName.WINDOW, place, kept.item, kept.content, is_cut=kept.is_cut)
    title = SECTIONS[SectionName.WINDOW].title
    return ChatMessage(role=MessageRole.USER, content=fence.block(title, [line], fence.mark_of(title, [line])))


def _handle(name: SectionName, place: int, item: ContextItem) -> str:
    """What an item is called: a message by its place in the session, which stays; others by their place here."""
    return f"{SECTIONS[name].handle}{item.message.position if item.message is not None else place}"


def _shown(name: SectionName, place: int, kept: Kept[ContextItem]) -> SectionItem:
    item = kept.item
    return SectionItem(
        ref=_handle(name, place, item),
        content=kept.content,
        is_cut=kept.is_cut,
        kind=item.kind,
        trust=item.trust,
        source_ref=item.source_ref,
        item_id=item.item_id,
        when=item.when,
        who=item.who,
        scope=item.scope,
        session_id=item.session_id,
        payload_key=item.payload_key,
        score=item.score,
        tokens=kept.tokens,
    )


def _line(name: SectionName, place: int, item: ContextItem, content: str, *, is_cut: bool | None = None) -> str:
    fields: dict[str, object] = {"ref": _handle(name, place, item), "kind": item.kind, "trust": item.trust}
    if item.who is not None:
        fields["who"] = item.who
    if item.when is not None:
        fields["when"] = f"{item.when:%Y-%m-%dT%H:%MZ}"
    fields["text"] = content
    if is_cut if is_cut is not None else len(content) < len(item.content):
        fields["cut"] = True
    if item.payload_key is not None:
        fields["read_tool_output"] = item.payload_key
    return fence.line(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A context, and what each section shows and leaves out."""

    filled: Mapping[str, Filled[ContextItem]]
    sections: tuple[Section, ...]
    rendered: Rendered


def compose(
    shares: Mapping[SectionName, Share],
    fetched: Mapping[SectionName, Sequence[ContextItem]],
    *,
    budget: int,
    hint: str | None,
    how: Rendering,
    count: TokenCounter,
) -> Composed:
    """Fill the budget, and let go of the least important while the written whole is still past it.

    Parts are counted one by one, which is a little more or less than the whole that a model reads: the whole decides.
    """
    bids = [bid_of(name, share, fetched[name], count) for name, share in shares.items() if fetched.get(name)]
    places = {id(item): SectionName(bid.name) for bid in bids for item in bid.items}
    room = max(0, budget - preface_cost(hint, count))
    known: dict[tuple[int, int], int] = {}

    def counted(item: ContextItem, content: str) -> int:
        # What is shown of an item is always a beginning of it: its length names it.
        key = (id(item), len(content))
        if key not in known:
            known[key] = cost(places[id(item)], item, content, count)
        return known[key]

    filled = fill(bids, room, counted)
    while True:
        sections = _sections(filled, shares)
        rendered = render(sections, hint, how, count)
        if rendered.tokens <= budget:
            return Composed(filled=filled, sections=sections, rendered=rendered)
        if not sections:  # the hint alone is past the smallest of budgets
            return Composed(filled=filled, sections=(), rendered=render((), None, how, count))
        _let_go(filled, bids)


def _sections(filled: Mapping[str, Filled[ContextItem]], shares: Mapping[SectionName, Share]) -> tuple[Section, ...]:
    """What is shown, in the order in which it is read; the window oldest first."""
    return tuple(
        Section(
            name=name,
            items=filled[name].kept[::-1] if name is SectionName.WINDOW else filled[name].kept,
            budget=shares[name].tokens,
        )
        for name in SectionName
        if name in filled and filled[name].kept
    )


def _let_go(filled: dict[str, Filled[ContextItem]], bids: Sequence[Bid[ContextItem]]) -> None:
    """Leave out the last item of the section with the least priority."""
    bid = min((bid for bid in bids if filled[bid.name].kept), key=lambda bid: bid.priority)
    one = filled[bid.name]
    last = one.kept[-1]
    filled[bid.name] = Filled(
        kept=one.kept[:-1], left=((last.item, Reason.BUDGET), *one.left), tokens=one.tokens - last.tokens
    )
