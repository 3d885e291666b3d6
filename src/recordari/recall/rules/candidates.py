"""Candidates: items that may answer, as rows and as the columns of numbers that the ranker computes with.

Columns are made for the rows of one search, or once for a snapshot of a small memory; those of the next snapshot take over what
they share. They are derived from the rows alone and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recordari.core import text
from recordari.core.cache import unlocked_property as cached_property
from recordari.core.identity import AskedScope, Scope
from recordari.memory.rules import Collection as Statistics
from recordari.memory.rules import Trait
from recordari.recall.rules.numbering import (
    NO_ROWS,
    SCOPES,
    Floats,
    Ids,
    Mask,
    Numbers,
    RowBlock,
    by_term,
    gathered,
    neighbours,
    reordered,
    rows_by,
)

T = TypeVar("T")
K = TypeVar("K")

FEWEST_QUOTED = 12  # terms that quote the beginning of a text
BLOCK = 64  # rows that are multiplied at a time
ITSELF = 0.9999  # above it, a token has met itself
LARGE = 4_000  # rows; of more, counts are not kept, and only those that were found are ranked
MOST_LINES = 1_200  # matches of words or of tokens: at most 4 bytes of each for every row
MOST_CACHED = 12  # sorts of lines, and single values
MOST_TOKENS = 1 << 16  # a token has two bytes
MOST_UNUSED = 1_000  # numbers of names
_NONE = np.empty(0, dtype=np.int64)
_PLACES = [AskedScope(scope) for scope in SCOPES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The question's tokens in the static table, each with the term of the word it belongs to."""

    ids: Ids
    words: Sequence[str]
    whole: frozenset[int] = frozenset()
    """Those that are a whole word; the others are pieces of one."""
    unit: NDArray[np.float32]
    """The table's vectors at length 1; `norms` are their lengths before: a long vector belongs to a distinctive token."""
    norms: NDArray[np.float32]
    asking: frozenset[int] = frozenset()
    """Tokens of words such as "ask": what a standing wish is about follows them, up to one of `ends`."""
    ends: frozenset[int] = frozenset()

    @property
    def keys(self) -> Sequence[tuple[int, str | None]]:
        """Each token, with its term if it is a whole word."""
        return [
            (token, word if token in self.whole else None)
            for token, word in zip(self.ids.tolist(), self.words, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Many candidates, one value for each row."""

    rows: Sequence[Any]
    """Candidates, or what else has their `item_id`, `thread`, `speaker` and `archived_at`."""
    known: tuple[Columns, Ids] | None = field(default=None, repr=False)
    """Columns that have some of these rows, and the index of each row in them, or -1: those are not derived anew."""
    new: RowBlock | None = field(default=None, repr=False)
    """The rows that are not known; None: made of the candidates."""
    before: Ids = field(init=False)
    """The index of the row one position earlier in the thread, or -1."""
    after: Ids = field(init=False)
    _numbers: Numbers = field(init=False, repr=False)
    _table: NDArray[np.void] = field(init=False, repr=False)
    _terms: NDArray[np.uint32] = field(init=False, repr=False)
    """All terms one after another."""
    _tokens: NDArray[np.uint16] = field(init=False, repr=False)
    _names: Ids = field(init=False, repr=False)

    def __post_init__(self) -> None:
        derived, known, block = object.__setattr__, self.known, self.new
        if known is not None and block is None and known[0].are_worn(len(self.rows)):
            known = None
        if block is None:
            new = self.rows if known is None else [self.rows[row] for row in np.flatnonzero(known[1] < 0).tolist()]
            block = RowBlock.of(new)
        numbers = Numbers() if known is None else known[0]._numbers
        if known is not None and block is NO_ROWS:
            table, terms, tokens, names = known[0]._chosen(known[1])
        else:
            table, names = numbers.table(block), numbers.named(block)
            terms, tokens = block.terms, block.tokens
            if known is not None:
                old, places = known
                order = np.where(places < 0, len(old) + np.cumsum(places < 0) - 1, places)
                joined = np.concatenate([old._table, table])
                terms = reordered(np.concatenate([old._terms, terms]), joined["terms"], order)
                tokens = reordered(np.concatenate([old._tokens, tokens]), joined["tokens"], order)
                names = reordered(np.concatenate([old._names, names]), joined["names"], order)
                table = joined[order]
        derived(self, "known", None)  # or the columns before those would be kept too
        derived(self, "new", None)
        derived(self, "_numbers", numbers)
        derived(self, "_table", table)
        derived(self, "_terms", terms)
        derived(self, "_tokens", tokens)
        derived(self, "_names", names)
        before, after = neighbours(table["thread"], table["position"])
        derived(self, "before", before)
        derived(self, "after", after)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_large(self) -> bool:
        return len(self.rows) > LARGE

    def among(self, rows: Ids) -> Columns:
        """The columns of these rows alone."""
        return Columns(rows=[self.rows[row] for row in rows.tolist()], known=(self, rows), new=NO_ROWS)

    def _chosen(self, rows: Ids) -> tuple[NDArray[np.void], NDArray[np.uint32], NDArray[np.uint16], Ids]:
        """The table, terms, tokens and names of these rows."""
        table, starts = self._table[rows], self._starts
        terms = gathered(self._terms, starts["terms"][rows], table["terms"])
        tokens = gathered(self._tokens, starts["tokens"][rows], table["tokens"])
        return table, terms, tokens, gathered(self._names, starts["names"][rows], table["names"])

    @cached_property
    def _starts(self) -> Mapping[str, Ids]:
        """Where the terms, tokens and names of each row begin."""
        return {name: np.cumsum(self._table[name]) - self._table[name] for name in ("terms", "tokens", "names")}

    def are_worn(self, rows: int) -> bool:
        """Whether most numbers would be of rows that are gone, if columns of so many rows were made from these."""
        return len(self._numbers) > MOST_UNUSED + 4 * rows

    def _column(self, name: str) -> NDArray[Any]:
        return np.ascontiguousarray(self._table[name])

    @cached_property
    def moments(self) -> Floats:
        return self._column("moment")

    @cached_property
    def threads(self) -> Ids:
        """A number for each thread; a row without one is alone in its own."""
        return self._column("thread")

    @cached_property
    def speakers(self) -> Mapping[str, Ids]:
        """The rows of each speaker."""
        numbers, rows = self._numbers.speakers, rows_by(self._table["speaker"])
        return {name: rows[number] for name, number in numbers.items() if number in rows}

    @cached_property
    def lengths(self) -> Floats:
        """How many terms each row has."""
        return self._table["terms"].astype(np.float64)

    @cached_property
    def brevity(self) -> Floats:
        """The worth of a match by the length of the row."""
        return np.asarray(1 / (1 + np.log(np.maximum(self.lengths, 1))), dtype=np.float64)

    @cached_property
    def is_fact(self) -> Mask:
        return self._column("is_fact")

    @cached_property
    def is_alone(self) -> Mask:
        return self._column("is_alone")

    @cached_property
    def sessions(self) -> Ids:
        """A number for each session, with the facts stated in it; a row of none is alone in its own."""
        return self._column("session")

    @cached_property
    def asks(self) -> Floats:
        return np.asarray(self._table["traits"] & Trait.ASKS > 0, dtype=np.float64)

    @cached_property
    def is_dated(self) -> Floats:
        return np.asarray(self._table["traits"] & Trait.DATED > 0, dtype=np.float64)

    @cached_property
    def disclosure(self) -> Floats:
        """How much the speakers say about themselves, 0 to 1; a record that nobody speaks says nothing of that kind."""
        disclosed = np.asarray((self._table["traits"] // Trait.DISCLOSES_ONE & 3) / 3, dtype=np.float64)
        disclosed[self.speakers.get("", _NONE)] = 0.0
        return disclosed

    @cached_property
    def wishes(self) -> Mask:
        return np.asarray(self._table["traits"] & Trait.WISHES > 0, dtype=np.bool_)

    @cached_property
    def is_users(self) -> Mask:
        return self._column("is_users")

    @cached_property
    def is_archived(self) -> Mask:
        return self._column("is_archived")

    def by_place(self, values: Mapping[AskedScope, float], line: Collection[str]) -> Floats:
        """The value of each row's place: its scope, or history for sessions that are not of this line; 1 for others."""
        scopes = self._table["scope"]
        of_scopes = np.array([values.get(scope, 1.0) for scope in _PLACES])
        of_rows: Floats = of_scopes[scopes]
        in_session = scopes == SCOPES[Scope.SESSION]
        if in_session.any():
            numbers = self._numbers.sessions
            of_line = [numbers[session_id] for session_id in line if session_id in numbers]
            of_rows[in_session & ~np.isin(self.sessions, of_line)] = values.get(AskedScope.HISTORY, 1.0)
        return of_rows

    @cached_property
    def _term_rows(self) -> Ids:
        """The row of each of all terms."""
        return np.repeat(np.arange(len(self.rows)), self._table["terms"])

    @cached_property
    def _token_starts(self) -> tuple[Ids, Ids]:
        """The rows that have any token, and where the tokens of each of these begin."""
        lengths = self._table["tokens"]
        filled = np.flatnonzero(lengths)
        return filled, np.cumsum(lengths[filled]) - lengths[filled]

    @cached_property
    def _vocabulary(self) -> tuple[Ids, Ids]:
        """The different tokens, and which of them each of all tokens is."""
        # By marks instead of sorting: there are many tokens and few different ones.
        flat = self._tokens
        occurs = np.zeros(MOST_TOKENS, dtype=np.bool_)
        occurs[flat] = True
        vocabulary = np.flatnonzero(occurs)
        numbers = np.empty(MOST_TOKENS, dtype=np.uint16)
        numbers[vocabulary] = np.arange(len(vocabulary))
        return vocabulary, numbers[flat].astype(np.int64)

    def naming(self, name: str) -> Ids:
        """The rows that mention a name."""
        number = self._numbers.names.get(name)
        return _NONE if number is None else self._name_rows[self._names == number]

    @cached_property
    def _name_rows(self) -> Ids:
        return np.repeat(np.arange(len(self.rows)), self._table["names"])

    def by_names_in(self, rows: Collection[int], left_out: Collection[str]) -> Iterable[Ids]:
        """The rows that mention each of the names in these rows, but the names that are left out."""
        is_among = np.zeros(len(self.rows), dtype=np.bool_)
        is_among[list(rows)] = True
        numbers = set(self._names[is_among[self._name_rows]].tolist())
        numbers -= {self._numbers.names[name] for name in left_out if name in self._numbers.names}
        return (self._name_rows[self._names == number] for number in numbers)

    @cached_property
    def _cache(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def _speaker_terms(self) -> Mapping[str, Sequence[Ids]]:
        return by_term((_speaker_terms(speaker), rows) for speaker, rows in self.speakers.items())

    @cached_property
    def _date_terms(self) -> Mapping[str, Sequence[Ids]]:
        days = rows_by(self._table["day"])
        return by_term((_date_terms(date.fromordinal(day)), rows) for day, rows in days.items())

    def counts(self, terms: Sequence[str]) -> Ids:
        """How often each row has each term, and a last 0; a line for each term."""
        return self._counts(terms) if self.is_large else self.cached_lines("counts", terms, self._counts)

    def _counts(self, terms: Sequence[str]) -> Ids:
        # Flat: to find the places in two dimensions takes ten times as long.
        found, many = np.flatnonzero(self._terms == text.hashes(terms)[:, None]), len(self.rows) + 1
        line, place = np.divmod(found, max(len(self._terms), 1))
        return np.bincount(line * many + self._term_rows[place], minlength=len(terms) * many).reshape(-1, many)

    def collection(self, terms: Sequence[str], repetitions: Ids) -> Statistics:
        """How common terms are in these rows; those that repeat another row do not count."""
        terms = list(dict.fromkeys(terms))
        has, lengths = self.having(terms), self.lengths
        if len(repetitions):
            counted = np.ones(len(self.rows), dtype=np.bool_)
            counted[repetitions] = False
            has, lengths = has[:, counted], lengths[counted]
        return Statistics(
            items=len(lengths),
            mean_length=float(lengths.mean()) if len(lengths) else 0.0,
            frequencies=dict(zip(terms, np.count_nonzero(has, axis=1).tolist(), strict=True)),
        )

    def having(self, terms: Sequence[str]) -> Mask:
        """Which rows have each term, or a speaker whose name has it; a line for each term."""
        return self.cached_lines("having", terms, self._having)

    def _having(self, terms: Sequence[str]) -> NDArray[np.bool_]:
        marks = self.counts(terms)[:, :-1] > 0
        for line, term in zip(marks, terms, strict=True):
            for rows in self.spoken_by(term):
                line[rows] = True
        return marks

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value for a key, computed at first use: questions repeat the same words."""
        value: T | None = self._cache.get(key)
        if value is None:
            if len(self._cache) > MOST_CACHED:
                self._cache.clear()
            value = self._cache[key] = make()
        return value

    def cached_if_again(self, key: Hashable, make: Callable[[], T]) -> T:
        """The same for a value that is kept from its second use on: most memories are asked once."""
        used: set[Hashable] = self.cached("used", set)
        if key in used:
            return self.cached(key, make)
        used.add(key)
        return make()

    @property
    def kept_bytes(self) -> int:
        """About how much room the matches of questions take."""
        total = 0
        for value in self._cache.values():
            if isinstance(value, np.ndarray):
                total += value.nbytes
            elif isinstance(value, dict) and value:  # lines, all of one length
                total += len(value) * next(iter(value.values())).nbytes
        return total

    def cached_lines(
        self, name: Hashable, keys: Sequence[K], make: Callable[[Sequence[K]], NDArray[Any]]
    ) -> NDArray[Any]:
        """The line of each key, not to be changed; `make` makes those that are missing, all at once."""
        lines: dict[K, NDArray[Any]] = self.cached(name, dict)
        missing = [key for key in keys if key not in lines]
        if missing and len(lines) > MOST_LINES:
            lines.clear()
            missing = list(keys)
        if len(missing) == len(keys):
            every = make(missing)
            lines.update(zip(missing, every, strict=True))
            return every
        if missing:
            lines.update(zip(missing, make(missing), strict=True))
        return np.array([lines[key] for key in keys])

    def spoken_by(self, term: str) -> Sequence[Ids]:
        """The rows of speakers whose name has the term."""
        return self._speaker_terms.get(term, ())

    def dated(self, term: str) -> Sequence[Ids]:
        """The rows of days whose date has the term."""
        if term not in _DAYS_AND_MONTHS and not (term.isdigit() and int(term) in self._years):
            return ()
        return self._date_terms.get(term, ())

    @cached_property
    def _years(self) -> range:
        """The years from the first row to the last one."""
        days = self._table["day"]
        if not len(days):
            return range(0)
        return range(date.fromordinal(int(days.min())).year, date.fromordinal(int(days.max())).year + 1)

    def best_matches(self, tokens: Tokens, previous: float) -> NDArray[np.float32]:
        """Squared cosine of each question token with the nearest token of each row, or of the row before times `previous`."""

        def make(keys: Sequence[tuple[int, str | None]]) -> NDArray[np.float32]:
            best = self._matched(tokens.unit, keys)
            return np.asarray(np.maximum(best[:, :-1], np.float32(previous) * best.take(self.before, axis=1)))

        return self.cached_lines(("late", previous), tokens.keys, make)

    def _matched(self, unit: NDArray[np.float32], keys: Sequence[tuple[int, str | None]]) -> NDArray[np.float32]:
        """The best match of each token in each row alone, and a last 0.

        A token that is a whole word matches itself only where the row has that word: "car" is not the first piece of "Caro".
        """
        best = np.zeros((len(keys), len(self.rows) + 1), dtype=np.float32)
        if len(self._tokens):
            filled, starts = self._token_starts
            vocabulary, numbers = self._vocabulary
            # The vectors of the vocabulary take most of the work to gather, and more room than all else when they are kept.
            blocks = self.cached_if_again(("blocks",), lambda: _blocks(unit, vocabulary))
            similar = _similarities(blocks, unit[[token for token, _ in keys]])
            # A line for each question token, so that values to compare are side by side in memory.
            best[:, filled] = np.maximum.reduceat(similar.T.take(numbers, axis=1), starts, axis=1)
            self._leave_out_pieces(best, similar, keys)
        return best

    def _leave_out_pieces(
        self, best: NDArray[np.float32], similar: NDArray[np.float32], keys: Sequence[tuple[int, str | None]]
    ) -> None:
        """Where a whole word met itself in a row without that word, take the next best."""
        whole = [line for line, (_, word) in enumerate(keys) if word is not None]
        if not whole:
            return
        is_piece = (best[whole, :-1] > ITSELF) & ~self.having([word for _, word in keys if word is not None])
        (filled, starts), (vocabulary, numbers) = self._token_starts, self._vocabulary
        for place in np.flatnonzero(is_piece.any(axis=1)).tolist():
            line = whole[place]
            others = np.where(vocabulary == keys[line][0], 0, similar[: len(vocabulary), line])
            nearest = np.zeros_like(best[line])
            nearest[filled] = np.maximum.reduceat(others.take(numbers), starts)
            best[line] = np.where(np.append(is_piece[place], False), nearest, best[line])

    def directions(self, tokens: Tokens) -> NDArray[np.float32]:
        """The sum of the static vectors of each row's different tokens, at length 1; 0 for a row without tokens."""
        return self.cached(("directions",), lambda: self._directions(tokens))

    def _directions(self, tokens: Tokens) -> NDArray[np.float32]:
        filled, starts = self._token_starts
        sums = np.zeros((len(self.rows), tokens.unit.shape[1]), dtype=np.float32)
        # Row by row: the vectors of all tokens at once would take a hundred times the room of the result.
        texts = np.split(self._tokens, starts[1:]) if len(filled) else []
        for row, ids in zip(filled.tolist(), texts, strict=True):
            sums[row] = tokens.norms[ids] @ tokens.unit[ids]
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9))

    def are_verbatim(self, terms: Sequence[str]) -> Mask:
        """Which rows consist of exactly these terms, or begin with them where they are many: the last may be cut off."""
        equal = np.zeros(len(self.rows), dtype=np.bool_)
        counts, wanted = self._table["terms"], text.hashes(terms)
        if terms and len(rows := np.flatnonzero(counts == len(terms))):
            equal[rows] = self._begin_with(wanted, rows)
        if len(terms) > FEWEST_QUOTED and len(rows := np.flatnonzero(counts >= len(terms))):
            equal[rows] |= self._begin_with(wanted[:-1], rows)
        return equal

    def _begin_with(self, terms: NDArray[np.uint32], rows: Ids) -> Mask:
        first = (np.cumsum(self._table["terms"]) - self._table["terms"])[rows]
        begin: Mask = (self._terms[first[:, None] + np.arange(len(terms))] == terms).all(axis=1)
        return begin

    def tokens_of(self, row: int) -> list[int]:
        """The tokens of one row."""
        past = int(self._table["tokens"][: row + 1].sum())
        tokens: list[int] = self._tokens[past - int(self._table["tokens"][row]) : past].tolist()
        return tokens


@lru_cache(maxsize=10_000)
def _speaker_terms(speaker: str) -> frozenset[str]:
    return frozenset(text.terms(speaker))


@lru_cache(maxsize=10_000)
def _date_terms(day: date) -> frozenset[str]:
    return frozenset(text.terms(f"{day:%d %B %Y}"))


_DAYS_AND_MONTHS = frozenset(
    term for day in range(366) for term in text.terms(f"{date(2000, 1, 1) + timedelta(days=day):%d %B}")
)
"""All terms of dates but years."""


def _blocks(unit: NDArray[np.float32], ids: Ids) -> NDArray[np.float32]:
    """The vectors of these tokens in blocks; the last block is padded."""
    padded = np.zeros(-(-len(ids) // BLOCK) * BLOCK, dtype=np.intp)
    padded[: len(ids)] = ids
    return unit[padded].reshape(-1, BLOCK, unit.shape[1])


def _similarities(blocks: NDArray[np.float32], question: NDArray[np.float32]) -> NDArray[np.float32]:
    """The squared cosine of each vector with each of the question, 0 if they are opposed; a line for each vector.

    The blocks are so small that the linear algebra library does not wake threads for them. Those threads spin: under load a
    recall took four times as long with them.
    """
    products = np.asarray(np.matmul(blocks, question.T), dtype=np.float32).reshape(-1, len(question))
    return np.square(np.maximum(products, 0))
