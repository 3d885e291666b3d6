"""Summaries without a model: the most important sentences of a conversation, its decisions and its tasks.

The summary is extractive: every sentence in it is quoted. It is rolling: each step takes the points so far and the
messages since and keeps the best of both, so that a session is never read from its beginning again. People's words are
kept first, in any language; advice in general is known in English, German, French, Spanish, Portuguese, Italian, Dutch,
Japanese and Chinese. Decisions and tasks are noted in English, German, French, Spanish, Portuguese, Italian and Dutch.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from recordari.core.items import Trust, normalised
from recordari.core.text import sentence_ends, terms
from recordari.core.tokens import cut_to_tokens, estimated_tokens
from recordari.facts.rules.spoken import Speech, speech_of
from recordari.sessions.rules.sessions import NoteKind

SUMMARY_TOKENS = 500  # C2: the budget of a session's summary in a context
FOLD_TOKENS = 300
LONGEST_POINT = 60  # tokens
SHORTEST_POINT = 3  # terms; a shorter sentence is kept together with its neighbour
SMALL_TALK = 8  # words
EXAMINED = 4_000  # characters at the beginning of a message, which show its subject
MOST_SENTENCES = 40  # of one message
MOST_NOTES_PER_MESSAGE = 5
MESSAGE_SHARE = 0.5  # of the budget, for one message
AGENTS_SHARE = 0.3  # of the budget, for what agents concluded
LEAST_CONCLUSION = 2.0
BULLET = "- "

_LIST_MARK = re.compile(r"^\s{0,8}(?:[-*•#>+]{1,6}|\d{1,3}[.)])\s{1,4}")
# The lines of a list, and the headings over them: advice in general, more often than not.
_LISTED = re.compile(r"(?m)^\s{0,8}(?:[-*•#>|+]{1,6}|\d{1,3}[.)])\s.*$")
_MARKUP = re.compile(r"\*{2,3}|__|`")
_SPACE = re.compile(r"\s+")

# Whole sentences are matched, every repetition is bounded: linear time on any text.
_DECISION = re.compile(
    r"\b(?:(?:we|i|they|team|everyone|let's|let us)(?:'ve|'ll| have| will| all| both| finally| just){0,3} "
    r"(?:decided?|agreed?|settled?|chose|choose|concluded?|opt(?:ed)?|go(?:ing)? (?:with|for)|went with|pick(?:ed)?)\b"
    r"|(?:decision|verdict|conclusion|agreement)(?: is| was|:)|(?:it(?:'s| is)|that(?:'s| is)) (?:decided|agreed|settled)"
    r"|(?:final|official) (?:decision|answer|choice)|approved|(?:is|are|was) (?:confirmed|final)"
    r"|(?:let's|let us) (?:use|go|stick|keep|do|take|make|book|start)\b)",
    re.IGNORECASE,
)
_ACTION = re.compile(
    r"\b(?:todo|to-do|action items?|next steps?|follow[- ]up)\b\s{0,2}[:\-–]"
    r"|\b(?:i|we|you|he|she|they|someone|[A-Z][a-z]{1,20})(?:'ll| will| must| shall| should| need(?:s)? to| ha(?:ve|s) to"
    r"| am going to| are going to| is going to| can you| could you) "
    r"(?!be\b|have\b|not\b|never\b|love\b|like\b|see\b|know\b|think\b|feel\b)[a-z]{2,20}\b"
    r"|\b(?:please|remember to|don't forget to|make sure to|remind me to|can you|could you) "
    r"(?:send|write|call|book|schedule|prepare|check|update|fix|create|add|review|share|order|file|draft|finish|email"
    r"|set up|look into|follow up|confirm|cancel|submit|deploy|test|contact|arrange|organi[sz]e)\b",
    re.IGNORECASE,
)
_DEADLINE = re.compile(
    r"\b(?:by|before|until|due|on|next|this) (?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight|today|noon"
    r"|week|month|end of|eod|\d{1,2}[:./ ]?\d{0,2}|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d[\d.,:/-]{0,30}")
_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{2,30}\b|\b[A-Z]{2,10}\b")
_GERMAN = re.compile(
    r"\b(?:der|die|das|den|dem|und|ist|sind|nicht|eine?|mit|für|auf|zu|bei|von|ich|wir|du)\b"
)  # capitals are no names
_QUESTION = re.compile(r"[?？؟](?:\s|$|[」』”’\"')])")
# What an agent did, promised or worked out.
_DONE = re.compile(
    r"\b(?:i(?:'ve| have| will|'ll| am going to|'m going to)|we(?:'ve| have|'ll| will)) (?!be\b|always\b|help\b"
    r"|happy\b)[a-z]{2,20}\b"
    r"|\b(?:booked|scheduled|sent|created|added|updated|cancelled|canceled|changed|fixed|deployed|reserved|ordered"
    r"|saved|noted|filed)\b"
    r"|\b(?:ich (?:habe|werde)|j'ai|je vais|he (?=\w+(?:ado|ido)\b)|voy a|vou|ho (?=\w+(?:ato|uto|ito)\b)|ik (?:heb|zal))\b",
    re.IGNORECASE,
)
_RESULT = re.compile(
    r"\b(?:total|sum|result|answer|difference|balance|deadline|price|cost)s?(?: \w{1,20}){0,3} (?:is|are|was"
    r"|comes? to|will be)\b"
    r"|\b(?:so|therefore|in short|in summary|to sum up|that (?:makes|leaves|means|gives))\b[^.]{0,80}\d|=\s?\d",
    re.IGNORECASE,
)
# Advice for anybody, politeness and offers, by language.
_ADVICE = {
    "en": r"here are|here(?:'s| is) (?:an?|some)|"
    r"generally|typically|usually|often|var(?:y|ies)|averages?|overall|in (?:general|conclusion)|as a rule|rule of thumb"
    r"|(?:many|most|some) people|people often|just a few|the (?:most|key to)|essential|crucial|unique|of course"
    r"|it(?:'s| is) (?:important|worth|recommended|advisable|common|always|a good idea)|best practices?|tips?"
    r"|you (?:may|might|could|can|should|would)|consider|make sure|remember|keep in mind|depend(?:s|ing)?|can help|be sure"
    r"|feel free|let me know|i hope|hope (?:this|that)|happy to|here to help|don't hesitate|would you like"
    r"|if you(?:'d| would| need| have)|i(?:'m| am) (?:sorry|glad|happy|confident|sure|an ai)|i apologi[sz]e|please"
    r"|thank(?:s| you)|great (?:question|choice|idea)|as an ai|consult|professional|cannot provide|can't provide|such as"
    r"|for example|a (?:great|good|common|popular|classic|excellent) \w{2,20}",
    "de": r"hier (?:sind|findest|ist eine?)|"
    r"im (?:durchschnitt|schnitt|allgemeinen)|durchschnittlich|sollte man|man sollte|hängt \w+|in der regel"
    r"|grundsätzlich|generell|normalerweise|üblicherweise|meist(?:ens)?|oft|häufig|es (?:ist|lohnt)|ist es"
    r"|wichtig|empf[eoi]hl\w*|ratsam|lohnt|solltest|sollten|du kannst|kannst du|man kann|sie können|können sie|beachte\w*"
    r"|denk\w* daran|viel (?:erfolg|glück|spaß)|hoffe|vielen dank|variieren|hilfreich|zum beispiel|je nach|kann \w+ sein",
    "fr": r"voici|"
    r"en moyenne|en règle générale|varient|en général|généralement|souvent|toujours|il (?:est|faut|convient)"
    r"|conseill\w*|recommand\w*|vous pouvez|on peut"
    r"|pensez|n'hésitez|merci|souhaite|par exemple|préférable|dépend\w*",
    "es": r"aquí (?:tienes|tiene|van?|están)|"
    r"en promedio|de media|por lo general|varían|en general|generalmente|normalmente|suelen?|a menudo|siempre"
    r"|es (?:importante|recomendable|mejor)|conviene"
    r"|recomend\w*|recuerda|no olvides|puedes?|pueden|espero|gracias|suerte|por ejemplo|depende",
    "pt": r"aqui (?:estão|tens|tem|vão|vai)|"
    r"em média|variam|dependendo|em geral|geralmente|normalmente|costumam?|sempre|é (?:importante"
    r"|recomendável|bom)|vale lembrar|recomend\w*"
    r"|lembre|você pode|podem|espero|obrigad\w|sucesso|por exemplo|depende",
    "it": r"ecco|in media|di norma|variano|in genere|generalmente|di solito|spesso|sempre|è (?:importante"
    r"|consigliabile|bene)|consigli\w*|ricorda|puoi"
    r"|possono|spero|grazie|fortuna|per esempio|dipende",
    "nl": r"hier (?:zijn|heb je|volgen)|"
    r"gemiddeld|over het algemeen|varieert|variëren|in het algemeen|meestal|vaak|altijd|het is (?:belangrijk"
    r"|aan te raden|verstandig)|raad\w* aan|je kunt|kun je"
    r"|vergeet niet|hoop|bedankt|succes|bijvoorbeeld|hangt af",
}
_GENERAL = re.compile(
    rf"\b(?:{'|'.join(_ADVICE.values())})\b|おすすめ|ことがあります|しましょう|でしょう|ください|ですね|建议|通常|一般来说|希望|例如",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"(?:hi|hello|hey|thanks?|thx|cheers|no worries"
    r"|great|cool|nice|awesome|perfect|wow|haha|lol|good (?:morning|evening|afternoon)|bye|welcome"
    r"|hallo|danke|guten (?:tag|morgen|abend)|super|alles klar|bonjour|bonsoir|salut|merci|parfait|hola|buen[oa]s|gracias|oi"
    r"|olá|bo[am] (?:dia|tarde|noite)|obrigad[oa]|ciao|buongiorno|grazie|hoi|dank|こんにちは|ありがとう|你好|谢谢)\b",
    re.IGNORECASE,
)
_REPLY = re.compile(
    r"(?:ok(?:ay)?|sure|yes|yeah|yep|no|nope|fine|right|ja|nein|oui|non|d'accord|sí|vale|sim|não|sì|va bene|nee|はい|好的?)"
    r"\b[\s,.!]{0,3}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message as a summariser reads it."""

    speaker: str
    content: str
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A decision or a task in a message."""

    kind: NoteKind
    content: str
    importance: float


def sentences_of(content: str) -> list[str]:
    """The sentences of a message without markup and list marks, each once."""
    text = _MARKUP.sub("", content[:EXAMINED])
    ends = [0, *sentence_ends(text, capitalised=False), len(text)]
    parts = (_SPACE.sub(" ", _LIST_MARK.sub("", text[start:end].lstrip("\n"))).strip() for start, end in pairwise(ends))
    return list(dict.fromkeys(part for part in parts if part))[:MOST_SENTENCES]


def rolled_summary(previous: str, said: Sequence[Said], *, most_tokens: int = SUMMARY_TOKENS) -> str:
    """The best points of the previous summary and the messages since, in their order.

    What people said comes first: statements, then questions that name something. Of an agent's message at most one sentence
    is kept, and only if it concludes something; together they take no more than a part of the budget.
    """
    old = [line.removeprefix(BULLET) for line in previous.splitlines() if line.strip()]
    most = int(most_tokens * MESSAGE_SHARE)
    new = [
        point
        for message, asked in zip(said, _asked_before(said), strict=True)
        for point in _points_of(message, asked, most)
    ]
    distinct: dict[str, str] = {}
    for point in [*old, *new]:
        distinct.setdefault(normalised(point), point)
    points = list(distinct.values())
    words = [set(terms(_content(point))) for point in points]
    frequency = Counter(chain.from_iterable(words))
    order = sorted(
        range(len(points)),
        key=lambda index: (-_weight(points[index], words[index], frequency, index / len(points)), -index),
    )
    chosen: set[int] = set()
    left = {True: int(most_tokens * AGENTS_SHARE), False: most_tokens}
    for index in order:
        cost, by_agent = estimated_tokens(points[index]) + 2, _is_by_agent(points[index])
        if words[index] and cost <= min(left[by_agent], left[False]):
            chosen.add(index)
            left[by_agent] -= cost
            left[False] -= cost * by_agent
    return "\n".join(f"{BULLET}{points[index]}" for index in sorted(chosen))


def _asked_before(said: Sequence[Said]) -> list[str]:
    """For each message, what people said since the message of an agent before it."""
    asked: list[str] = []
    current = ""
    for message in said:
        asked.append(current)
        current = "" if message.trust is Trust.AGENT else f"{current} {message.content[:EXAMINED]}"
    return asked


def _points_of(message: Said, asked: str, most_tokens: int) -> list[str]:
    """The parts of a message that may enter a summary, each with its speaker."""
    if message.trust is Trust.AGENT:
        sentences = _conclusion(message.content, asked)
    else:
        sentences = _with_neighbours([one for one in sentences_of(message.content) if not _is_small_talk(one)])
    points = [quoted(replace(message, content=cut_to_tokens(sentence, LONGEST_POINT))) for sentence in sentences]
    best: list[str] = []
    for point in sorted(points, key=lambda point: -_detail(_content(point))):
        if not best or sum(map(estimated_tokens, best)) + estimated_tokens(point) <= most_tokens:
            best.append(point)
    return [point for point in points if point in best]


def _with_neighbours(sentences: Sequence[str]) -> list[str]:
    """The sentences, with those that say too little alone joined to the one before."""
    points: list[str] = []
    is_short = False
    for sentence in sentences:
        was_short, is_short = is_short, len(set(terms(sentence))) < SHORTEST_POINT
        if points and (was_short or is_short) and estimated_tokens(f"{points[-1]} {sentence}") <= LONGEST_POINT:
            points[-1] += f" {sentence}"
            is_short = False
        else:
            points.append(sentence)
    return points


def _is_small_talk(sentence: str) -> bool:
    """Whether a sentence greets, thanks, agrees or exclaims, and says nothing else."""
    if len(sentence.split()) > SMALL_TALK or _detail(sentence):
        return False
    if reply := _REPLY.match(sentence):
        rest = sentence[reply.end() :]
        return len(set(terms(rest))) < SHORTEST_POINT - 1 or _GREETING.match(rest) is not None
    if _GREETING.match(sentence):
        return True
    return sentence.endswith(("!", "！")) and len(set(terms(sentence))) <= SHORTEST_POINT


def _detail(sentence: str) -> float:
    """How many numbers and names a sentence has; its first word is no name, and in German every noun has a capital."""
    names = [] if len(_GERMAN.findall(sentence)) * 6 >= len(sentence.split()) else _NAME.findall(sentence[1:])
    return min(len(_NUMBER.findall(sentence)) + 0.5 * len(names), 3.0)


def _conclusion(content: str, asked: str) -> list[str]:
    """The one sentence of an agent that says what was done, promised or found; none where it gives advice in general."""
    best, most = "", 0.0
    is_question, words, numbers = bool(_QUESTION.search(asked)), set(terms(asked)), set(_NUMBER.findall(asked))
    for sentence in sentences_of(_LISTED.sub("", content[:EXAMINED])):
        if sentence.rstrip("_ ").endswith(("?", "!", ":", "？", "！", "：")) or _is_small_talk(sentence):
            continue
        is_result = bool(_RESULT.search(sentence))
        if _GENERAL.search(sentence) and not is_result:
            continue
        detail, answers = _detail(sentence), len(words.intersection(terms(sentence)))
        is_new = is_question and bool(set(_NUMBER.findall(sentence)) - numbers)
        weight = 3.0 * (is_result or bool(_DONE.search(sentence))) + 2.0 * is_new + detail
        weight += 0.5 * min(answers, 4) if detail and is_question else 0.0
        if weight > most:
            best, most = sentence, weight
    return [best] if most >= LEAST_CONCLUSION else []


def _content(point: str) -> str:
    return point.partition(": ")[2] or point


def _is_by_agent(point: str) -> bool:
    speaker = point.partition(": ")[0]
    return speaker == "assistant" or speaker.endswith(f"({Trust.AGENT})") or speaker == Trust.AGENT


_SELF_EVIDENT = {("user", Trust.USER), ("assistant", Trust.AGENT)}
_NOT_IN_NAME = re.compile(r"[\s:()]+")


def quoted(said: Said) -> str:
    """What was said, after its speaker and its trust: `Ana (user): …`, `user: …`, `mailer (external): …`.

    A name with a colon or a bracket could pretend to be the speaker or the trust of something else.
    """
    speaker = _NOT_IN_NAME.sub(" ", said.speaker).strip() or str(said.trust)
    is_clear = (speaker, said.trust) in _SELF_EVIDENT or speaker == said.trust
    return f"{speaker if is_clear else f'{speaker} ({said.trust})'}: {' '.join(said.content.split())}"


def _weight(point: str, words: set[str], frequency: Counter[str], age: float) -> float:
    """How important a point is: by shared words, decisions and tasks, details, and a little by being recent."""
    if not words:
        return 0.0
    # Divided by a power of its length above the root: a long point does not win by its length alone.
    central = sum(math.log1p(frequency[word]) for word in words) / math.pow(len(words), 0.7)
    said = _content(point)
    decided = 1.5 * bool(_DECISION.search(said)) + 1.0 * bool(_ACTION.search(said))
    question = -3.0 if said.rstrip().endswith(("?", "？")) else 0.0
    return central + decided + _detail(said) + question - 2.0 * _is_by_agent(point) + 0.5 * age


def notes_in(content: str) -> list[Noted]:
    """Decisions and action items of a message, by rules."""
    notes = []
    speech = speech_of(content[:EXAMINED])
    for sentence in sentences_of(content):
        is_action, is_decided = _told(sentence, speech)
        if is_decided and (is_action or not sentence.endswith("?")):
            notes.append(Noted(kind=NoteKind.DECISION, content=sentence, importance=_importance(sentence, 0.7)))
        elif is_action:
            notes.append(Noted(kind=NoteKind.ACTION_ITEM, content=sentence, importance=_importance(sentence, 0.5)))
    return notes[:MOST_NOTES_PER_MESSAGE]


def _told(sentence: str, speech: Speech | None) -> tuple[bool, bool]:
    """Whether a sentence says what is to be done, and whether it says what was decided."""
    if speech is None or speech.code == "en":
        return _ACTION.search(sentence) is not None, _DECISION.search(sentence) is not None
    if any(speech.has(name, sentence) for name in ("would", "maybe")) or speech.starts("if", sentence):
        return False, False
    is_asked = any(speech.starts(name, sentence) for name in ("please", "polite")) or speech.has("courtesy", sentence)
    is_due = speech.has("promise", sentence) or speech.has("duty", sentence)
    is_action = speech.has("errand", sentence) and (is_asked or (is_due and not sentence.endswith("?")))
    return is_action, speech.has("decide", sentence)


def _importance(sentence: str, base: float) -> float:
    specific = min(len(_NUMBER.findall(sentence)) + len(_NAME.findall(sentence)), 4) * 0.03
    return round(min(1.0, base + specific + (0.15 if _DEADLINE.search(sentence) else 0.0)), 3)
