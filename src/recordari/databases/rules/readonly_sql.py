"""Checks that a text is one read-only SELECT of allowed tables, and writes the statement to run.

The text is parsed, every node of the tree must be on a list of what only reads (`readonly_names`), every table must be
allowed, and the statement to run is generated from the tree: comments, hints and tricks of spelling do not survive that.
It is the first of two checks; the second (`child.py`) holds if this one is wrong.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from recordari.databases.rules.databases import AllowedTable, Engine
from recordari.databases.rules.readonly_names import (
    DROPPED_PARTS,
    FORMATS,
    FUNCTION_NAMES,
    FUNCTION_NODES,
    GLUE,
    MAX_SIZE,
    NODES,
    OPENING_WORDS,
    OPERATOR_CHARACTERS,
    OPERATORS,
    PARTS,
    SESSION_WORDS,
    SIGNS,
    SIZED_NAMES,
    SIZED_NODES,
    SYSTEM_COLUMNS,
    TYPES,
)
from recordari.errors import InvalidInput

if TYPE_CHECKING:
    from sqlglot import exp


MAX_ROWS = 1000  # seed 002 §8.2: a contract, not a setting
MAX_CHARACTERS = 10_000
MAX_TOKENS = 2_500
MAX_DEPTH = 60
MAX_BRACKETS = 400
MAX_NAME = 200
_OPENERS = frozenset(["SELECT", "WITH", "VALUES", "L_PAREN"])
_BEFORE_TABLE = frozenset(["L_PAREN", "R_PAREN", "UNION", "EXCEPT", "INTERSECT", "ALL", "DISTINCT"])
_MODIFIED_WIDTH = re.compile(r"\*|\d{4}")
_RUNNING_COMMENT = re.compile(r"/\*M?!")
_GLUED_DASHES = re.compile(r"--(?![ \t\n\r]|$)")
_PLAIN_NAME = re.compile(r"[^\W\d][\w$#]*")
_LONE_RETURN = re.compile(r"\r(?!\n)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuery:
    """A statement that may run, generated from its tree, and the tables that it reads."""

    sql: str
    tables: tuple[str, ...]


def refuse(why: str) -> InvalidInput:
    """The error for a statement that must not run; `why` never quotes it at length."""
    return InvalidInput(f"this SQL is not accepted: {why}", field="sql")


def check(sql: str, engine: Engine, allowed: Sequence[AllowedTable], *, max_rows: int = MAX_ROWS) -> CheckedQuery:
    """The SELECT in `sql`, checked and with a limit; `InvalidInput` says what is wrong."""
    try:
        tree = _parsed(sql, engine)
        for name, parts in DROPPED_PARTS.items():
            _drop(tree, name, parts)
        for node in list(tree.walk()):
            _check_node(node, engine)
        tables = _bound_tables(tree, engine, allowed)
        _limit(tree, max_rows)
        text = _written(tree, engine)
        if _written(_parsed(text, engine), engine) != text:
            raise refuse("it cannot be written back unambiguously; write it more plainly")
    except RecursionError:
        raise refuse("it is nested too deeply") from None
    return CheckedQuery(sql=text, tables=tables)


@cache
def make_ready() -> None:
    """Load the parser and its dialects, which takes longer than any check; a server does it at its start."""
    for engine in Engine:
        check("SELECT a FROM t", engine, [AllowedTable(name="t")])


def _parsed(sql: str, engine: Engine) -> exp.Expr:
    from sqlglot import Dialect, errors, exp

    if not sql.strip():
        raise refuse("it is empty")
    if len(sql) > MAX_CHARACTERS:
        raise refuse(f"it is longer than {MAX_CHARACTERS} characters")
    if sql.count("(") > MAX_BRACKETS:
        raise refuse("it is nested too deeply")
    dialect = Dialect.get_or_raise(engine.value)
    try:
        tokens = dialect.tokenize(sql)
        if engine is not Engine.SQLITE and (plain := _with_tables_selected(sql, tokens)) != sql:
            sql, tokens = plain, dialect.tokenize(plain)
        _check_tokens(sql, tokens, engine)
        _check_operators(sql, tokens, engine)
        trees = dialect.parser().parse(tokens, sql)
    except (errors.SqlglotError, ValueError) as error:
        # The parser's message quotes the statement and colours it for a terminal; only its position is used.
        position = error.errors[0] if isinstance(error, errors.ParseError) and error.errors else {}
        where = f" (line {position['line']}, column {position['col']})" if position.get("line") else ""
        raise refuse(f"it is not valid {engine.label} that we can read{where}") from None
    statements = [tree for tree in trees if tree is not None]
    kinds = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
    if len(statements) != 1 or not isinstance(statements[0], kinds):
        raise refuse("write exactly one SELECT")
    return statements[0]


def _check_tokens(sql: str, tokens: Sequence[Any], engine: Engine) -> None:
    """Refuse texts that a parser and a database may read differently, and obviously other statements."""
    if not tokens or tokens[0].token_type.name not in _OPENERS:
        raise refuse("write exactly one SELECT")
    if len(tokens) > MAX_TOKENS:
        raise refuse("it is too long")
    depth = 0
    for number, token in enumerate(tokens):
        kind = token.token_type.name
        depth += kind in {"L_PAREN", "L_BRACKET"}
        depth -= kind in {"R_PAREN", "R_BRACKET"}
        if depth > MAX_DEPTH:
            raise refuse("it is nested too deeply")
        if kind == "SEMICOLON" and any(other.token_type.name != "SEMICOLON" for other in tokens[number:]):
            raise refuse("write exactly one SELECT, without a second statement")
    bare = list(sql)
    for token in tokens:
        if token.token_type.name.endswith("STRING"):
            bare[token.start : token.end + 1] = " " * (token.end + 1 - token.start)
    text = "".join(bare)
    if "\0" in sql or any(
        character not in " \t\n\r" and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
        for character in text
    ):
        raise refuse("it has invisible characters; write it with plain blanks")
    if _LONE_RETURN.search(text) or (engine is Engine.MYSQL and _GLUED_DASHES.search(text)):
        raise refuse("its comments are ambiguous; leave them out")
    if engine is Engine.MYSQL and _RUNNING_COMMENT.search(text):
        raise refuse("it has a comment that MySQL would execute; leave it out")


def _with_tables_selected(sql: str, tokens: Sequence[Any]) -> str:
    """Write `TABLE name` as `SELECT * FROM name`, which it means wherever a SELECT may begin; the parser does not know it."""
    parts, done = [], 0
    for number, token in enumerate(tokens[:-1]):
        begins = number == 0 or tokens[number - 1].token_type.name in _BEFORE_TABLE
        if token.token_type.name == "TABLE" and begins and tokens[number + 1].token_type.name != "L_PAREN":
            parts += [sql[done : token.start], "SELECT * FROM"]
            done = token.end + 1
    return "".join([*parts, sql[done:]])


def _check_operators(sql: str, tokens: Sequence[Any], engine: Engine) -> None:
    """Refuse operators that the parser and the database would read differently: something else would run."""
    run: list[str] = []
    before = ""  # the kind of the token on the left of the run
    for number, token in enumerate(tokens):
        text = sql[token.start : token.end + 1]
        if not OPERATOR_CHARACTERS.issuperset(text):
            continue
        if not run:
            before = tokens[number - 1].token_type.name
        run.append(text)
        following = tokens[number + 1] if number + 1 < len(tokens) else token
        if following.start == token.end + 1 and sql[following.start] in OPERATOR_CHARACTERS:
            continue
        joined = "".join(run)
        is_negated = joined.startswith("!") and len(joined) > 1
        if not _is_read_alike(run, engine) or (is_negated and before in OPENING_WORDS):
            raise refuse(f"the operator {joined[:20]} is not known; write blanks between operators")
        run = []


def _is_read_alike(run: Sequence[str], engine: Engine) -> bool:
    known, joined = OPERATORS[engine.value], "".join(run)
    if joined in known:
        return True
    if engine in {Engine.POSTGRES, Engine.DUCKDB}:
        rest = joined.rstrip("+-")
        return not GLUE.intersection(joined) and (not rest or rest in known)
    return run[0] in known and all(text in SIGNS for text in run[1:])


def _drop(tree: exp.Expr, name: str, parts: Sequence[str]) -> None:
    for node in list(tree.walk()):
        if type(node).__name__ == name:
            for part in parts:
                node.args.pop(part, None)


def _check_node(node: exp.Expr, engine: Engine) -> None:
    from sqlglot import exp

    name = type(node).__name__
    if isinstance(node, exp.Func):
        _check_function(node, engine)
    elif name not in NODES:
        raise refuse(f"{_readable(name)} is not allowed in a question")
    if name in PARTS:
        extra = [part for part, value in node.args.items() if value and part not in PARTS[name]]
        if extra:
            raise refuse(f"{_readable(extra[0])} is not allowed in a question")
    match node:
        case exp.DataType():
            _check_type(node)
        case exp.Dot() if node.find(exp.Func, exp.Star) is not None and not isinstance(node.this, exp.Paren):
            raise refuse("call functions by their plain names")
        case exp.PropertyEQ() if not isinstance(node.parent, exp.Struct):
            raise refuse("assignments are not allowed in a question")
        case exp.Column():
            if engine is Engine.POSTGRES and node.name.lower() in SYSTEM_COLUMNS:
                raise refuse(f"the system column {node.name.lower()} is not allowed")
            if not (node.table or node.this.args.get("quoted")) and node.name.lower() in SESSION_WORDS:
                raise refuse(f"{node.name.lower()} is not allowed; put a column of that name in quotes")
            for part in ("db", "catalog"):  # the name of the table alone identifies it
                node.set(part, None)
        case exp.Identifier():
            if len(node.this) > MAX_NAME or not (node.args.get("quoted") or _PLAIN_NAME.fullmatch(node.this)):
                raise refuse("a name in it is not one; put odd names in quotes")


def _check_type(node: exp.DataType) -> None:
    from sqlglot import exp

    kind = node.this
    if not isinstance(kind, exp.DataType.Type) or kind.name not in TYPES:
        raise refuse("it casts to a type that is not allowed")


def _check_function(node: exp.Func, engine: Engine) -> None:
    from sqlglot import exp

    name = type(node).__name__
    if isinstance(node, exp.Anonymous):
        called = node.this if isinstance(node.this, str) else node.name
        if called.lower() not in FUNCTION_NAMES[engine.value]:
            raise refuse(f"the function {called.lower()[:60]} is not on the list of allowed functions")
        if (place := SIZED_NAMES.get(called.lower())) is not None:
            _check_size(node.expressions[place] if len(node.expressions) > place else None)
        if called.lower() in FORMATS:
            _check_format(node.expressions[0] if node.expressions else None)
        return
    if name not in FUNCTION_NODES and not _is_written_as_allowed(node, engine):
        raise refuse(f"the function {_readable(name)} is not on the list of allowed functions")
    if (part := SIZED_NODES.get(name)) is not None:
        _check_size(node.args.get(part))
    if name == "Format":
        _check_format(node.this)


def _is_written_as_allowed(node: exp.Func, engine: Engine) -> bool:
    """Whether a function that the parser has a node of its own for is on the list by the name that will run."""
    written = node.sql(dialect=engine.value).partition("(")[0].lower()
    return written in FUNCTION_NAMES[engine.value] and written not in SIZED_NAMES and written not in FORMATS


def _check_size(size: object) -> None:
    from sqlglot import exp

    if isinstance(size, exp.Literal) and not size.is_string and size.this.isdigit() and int(size.this) <= MAX_SIZE:
        return
    raise refuse(f"the length of a padded or repeated text must be a number up to {MAX_SIZE}")


def _check_format(form: object) -> None:
    from sqlglot import exp

    if not (isinstance(form, exp.Literal) and form.is_string) or _MODIFIED_WIDTH.search(form.this):
        raise refuse("a format must be a text written out, without wide fields")


def _readable(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip().lower()


def _bound_tables(tree: exp.Expr, engine: Engine, allowed: Sequence[AllowedTable]) -> tuple[str, ...]:
    """Replace every table by its full name, or by its allowed columns; returns the tables that are read."""
    from sqlglot import exp

    read: dict[str, None] = {}
    for node in list(tree.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier):
            continue  # a function, which has been checked as one
        if not node.args.get("db") and _is_cte(node, engine):
            continue
        table = _allowed(node, engine, allowed)
        read[table.label] = None
        _bind(node, table)
    return tuple(read)


def _is_cte(table: exp.Table, engine: Engine) -> bool:
    """Whether the name is a WITH query of this statement or of one around it, defined before this position."""
    from sqlglot import exp

    name = _folded(table.this, engine)
    inside: exp.Expr = table
    node = table.parent
    while node is not None:
        clause = node if isinstance(node, exp.With) else node.args.get("with_")
        if clause is not None:
            names = [_folded(cte.args["alias"].this, engine) for cte in clause.expressions]
            if isinstance(node, exp.With):
                own = next(number for number, cte in enumerate(clause.expressions) if cte is inside)
                names = names[: own + 1 if clause.args.get("recursive") else own]
            elif inside is clause:
                names = []  # its own WITH was checked one step before, by position
            if name in names:
                return True
        inside, node = node, node.parent
    return False


def _folded(identifier: exp.Identifier, engine: Engine) -> str:
    """The name by which the database knows an identifier."""
    text: str = identifier.this
    return text if engine is Engine.POSTGRES and identifier.args.get("quoted") else text.lower()


def _allowed(node: exp.Table, engine: Engine, allowed: Sequence[AllowedTable]) -> AllowedTable:
    from sqlglot import exp

    schema = node.args.get("db")
    name = _folded(node.this, engine)
    schema_name = _folded(schema, engine) if isinstance(schema, exp.Identifier) else None
    exact = engine is Engine.POSTGRES

    def same(one: str, other: str) -> bool:
        return one == other if exact else one.lower() == other.lower()

    matches = [table for table in allowed if same(table.name, name)]
    if schema_name is not None:
        matches = [table for table in matches if same(table.schema or engine.default_schema, schema_name)]
    elif len(matches) > 1:
        matches = [table for table in matches if table.schema in {None, engine.default_schema}] or matches
    if not matches:
        raise refuse(f"the table {name[:60]} is not one of the allowed tables")
    if len(matches) > 1:
        raise refuse(f"the table {name[:60]} is in several schemas; write its schema too")
    return matches[0]


def _bind(node: exp.Table, table: AllowedTable) -> None:
    from sqlglot import exp

    alias = node.args.get("alias")
    if alias is None and (table.columns is not None or table.name != node.name):
        alias = exp.TableAlias(this=node.this.copy())
    real = exp.Table(
        this=exp.to_identifier(table.name, quoted=True),
        db=exp.to_identifier(table.schema, quoted=True) if table.schema else None,
    )
    if table.columns is None:
        for part in ("this", "db"):
            node.set(part, real.args.get(part))
        node.set("alias", alias)
        return
    # The database itself then knows no other column: stars, whole rows and natural joins included.
    shown = exp.Select(
        expressions=[exp.Column(this=exp.to_identifier(column, quoted=True)) for column in table.columns],
        from_=exp.From(this=real),
    )
    node.replace(
        exp.Subquery(this=shown, alias=alias, joins=node.args.get("joins"), laterals=node.args.get("laterals"))
    )


def _limit(tree: exp.Expr, max_rows: int) -> None:
    """Ask for one row more than the limit, which shows whether there are more."""
    from sqlglot import exp

    limit = tree.args.get("limit")
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression if limit else None
    most = max_rows + 1
    if isinstance(count, exp.Literal) and not count.is_string and count.this.isdigit() and int(count.this) <= most:
        return
    if isinstance(limit, exp.Fetch) and count is None:
        return  # FETCH FIRST ROW ONLY
    if limit is not None and (not isinstance(count, exp.Literal) or limit.args.get("limit_options")):
        return  # computed by the database; the reader stops at the limit anyway
    offset = limit.args.get("offset") if isinstance(limit, exp.Limit) else None
    tree.set("limit", exp.Limit(expression=exp.Literal.number(most), offset=offset))


def _written(tree: exp.Expr, engine: Engine) -> str:
    from sqlglot import ErrorLevel, errors

    try:
        return tree.sql(dialect=engine.value, comments=False, copy=False, unsupported_level=ErrorLevel.RAISE)
    except errors.UnsupportedError:
        raise refuse(f"{engine.label} does not have something that it uses") from None
