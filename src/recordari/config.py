"""Settings: the only reader of the environment. Each is `RECORDARI_<NAME>`, from the environment or a `.env` file."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from recordari.errors import ConfigurationError


def _default_home() -> Path:
    # Root's home is closed to the unprivileged user that the embedded server runs under.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/recordari")
    return Path(platformdirs.user_data_dir("recordari", appauthor=False))


class JwtClaims(BaseModel):
    """The names of the claims of a JWT."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str = "tenant"
    user: str = "sub"
    role: str = "recordari_role"


class EmbeddingPrefixes(BaseModel):
    """What a model wants before the texts that it embeds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = ""
    passage: str = ""


class RecallWeights(BaseModel):
    """How much an item of each scope counts in recall."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    session: float = 1.3
    user: float = 1.1
    agent: float = 1.0
    tenant: float = 1.0
    history: float = 1.0

    @field_validator("*", mode="wrap")
    @classmethod
    def _bad_weight_is_default(cls, value: object, check: Any, info: ValidationInfo) -> float:
        """A weight that is negative or not a number falls back to its default."""
        try:
            weight = float(check(value))
        except ValidationError:
            weight = -1.0
        return weight if 0 <= weight < math.inf else float(cls.model_fields[str(info.field_name)].default)


class Settings(BaseSettings):
    """Every setting of Recordari, with its default. The comment above a group is its heading in the reference."""

    model_config = SettingsConfigDict(env_prefix="RECORDARI_", env_file=".env", extra="ignore", frozen=True)

    # Folders
    home: Path = Field(
        default_factory=_default_home,
        description="Folder of the embedded database and of payloads. Unset: your data folder; for root `/var/lib/recordari`.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("recordari", appauthor=False)),
        description="Folder of models and other files that can be downloaded again. Unset: your cache folder.",
    )

    # Database
    database_url: SecretStr | None = Field(
        default=None, description="Your own PostgreSQL, as the application role. Unset: the embedded server."
    )
    database_owner_url: SecretStr | None = Field(
        default=None,
        description="The same database as a role that may migrate it and index the vectors of large tenants.",
    )
    database_direct_url: SecretStr | None = Field(
        default=None,
        description="The application's address past a pooler in transaction mode, for workers: they listen there. "
        "Unset: behind such a pooler they look for work every five seconds.",
    )
    database_pooler: Literal["auto", "none", "transaction"] = Field(
        default="auto",
        description="Whether a pooler in transaction mode is before `database_url`; `auto`: found out at start.",
    )
    auto_migrate: bool = Field(default=True, description="Bring the schema up to date at start, where permitted.")
    postgres_bin_dir: Path | None = Field(
        default=None, description="Folder of PostgreSQL programs for the embedded server. Unset: those of the package."
    )
    pool_max_size: int = Field(default=8, ge=1, le=200, description="Most connections per process.")
    pool_timeout: float = Field(default=2.0, gt=0, description="Seconds to wait for a connection before 503.")
    statement_timeout: float = Field(default=15.0, gt=0, description="Seconds a statement of a request may run.")

    # Server
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8765, ge=0, le=65535, description="Port to listen on.")
    allowed_hosts: list[str] = Field(
        default=["127.0.0.1", "localhost", "[::1]"], description="Host names the server answers to; `*`: any."
    )
    worker: bool = Field(default=True, description="Run background jobs inside the server process.")
    rate_limit: str = Field(default="6000/minute", description="Requests per key, such as `100/second`; empty: none.")
    request_timeout: float = Field(default=30.0, gt=0, description="Seconds a request may take in all.")
    max_body_bytes: int = Field(default=10 * 2**20, ge=1024, description="Largest request body.")

    # Access and secrets
    development_key: bool = Field(
        default=True, description="Make a key at the first start while listening on loopback only."
    )
    jwt_jwks_url: str | None = Field(default=None, description="JWKS address; set it to accept JWTs.")
    jwt_issuer: str | None = Field(default=None, description="Required `iss` of a JWT.")
    jwt_audience: str | None = Field(default=None, description="Required `aud` of a JWT.")
    jwt_claims: JwtClaims = Field(
        default=JwtClaims(),
        description='Claims of a JWT that name the tenant, the user (empty: none) and the role: {"tenant": "org_id"}.',
    )
    allow_private_addresses: list[Literal["databases", "webhooks"]] = Field(
        default=[],
        description="What of your tenants may be on this machine or in a private network: connected databases, webhooks.",
    )
    secret_key: SecretStr | None = Field(
        default=None,
        description="Key that encrypts secrets in the database, Base64 of 32 bytes; unset: secret.key in the home folder.",
    )

    # Background jobs
    job_concurrency: dict[str, int] = Field(
        default={},
        description='Most open runs of a scheduled job over all workers: {"housekeeping": 2}; 0 starts none by the clock.',
    )

    # Embedding
    embedding_profile: Literal["best", "fast", "thorough"] = Field(
        default="best",
        description="best: a small transformer embeds; fast: static vectors, no transformer; thorough: as best, and a "
        "cross-encoder on this machine reorders the first 40.",
    )
    embedding_provider: Literal["local", "openai", "tei", "fastembed", "sentence-transformers", "none"] = Field(
        default="local", description="What embeds texts; `none`: keyword recall only."
    )
    embedding_model: str | None = Field(default=None, description="Name of the embedding model; unset: the profile's.")
    embedding_url: str | None = Field(default=None, description="Address of an OpenAI-compatible or TEI embedder.")
    embedding_api_key: SecretStr | None = Field(default=None, description="Key for that address.")
    embedding_dimensions: int | None = Field(
        default=None, ge=1, le=4000, description="Length of vectors to ask an OpenAI-compatible embedder for."
    )
    embedding_prefixes: EmbeddingPrefixes = Field(
        default=EmbeddingPrefixes(),
        description='Text before every question and before every other text, as some models want it: {"query": "query: ", '
        '"passage": "passage: "}. Not for `local`.',
    )
    model_mirror: str | None = Field(default=None, description="Folder or address to take models from first.")
    offline: bool = Field(default=False, description="Never download a model.")

    # Reranking
    rerank_provider: Literal["none", "local", "tei", "cohere", "jina"] = Field(
        default="none",
        description="Cross-encoder that reorders the best candidates; the profile thorough has a local one.",
    )
    rerank_url: str | None = Field(default=None, description="Address of the reranker.")
    rerank_model: str | None = Field(default=None, description="Model that the reranker uses.")
    rerank_api_key: SecretStr | None = Field(default=None, description="Key for that address.")
    rerank_timeout: float = Field(default=2.0, gt=0, description="Seconds a rerank may take before it is left out.")

    # Language model
    llm_provider: Literal["none", "openai", "anthropic"] = Field(
        default="none",
        description="The language model for `llm_tasks`; `openai`: any service that speaks as OpenAI does.",
    )
    llm_model: str | None = Field(default=None, description="Name of the language model.")
    llm_url: str | None = Field(default=None, description="Address of the language model; unset: the provider's own.")
    llm_api_key: SecretStr | None = Field(default=None, description="Key for that address.")
    llm_timeout: float = Field(default=20.0, gt=0, description="Seconds to wait for the language model.")
    llm_tasks: list[Literal["facts", "summaries", "steps", "sql", "answers"]] = Field(
        default=["facts", "summaries", "sql"],
        description="What the language model does: `facts` takes facts from messages and judges contradictions, "
        "`summaries` of sessions and profiles, `sql` for databases, `steps` of a context's question and "
        "`answers` to `ask` (which wait for it).",
    )
    judge_candidates: int = Field(
        default=5, ge=0, le=20, description="Facts that each new one is compared with; 0 switches the judge off."
    )
    judge_distance: float | None = Field(
        default=None, ge=0, le=1, description="Cosine distance below which facts are compared; unset: by the model."
    )

    # Recall
    recall_weights: Annotated[RecallWeights, NoDecode] = Field(
        default=RecallWeights(),
        description='Weights of the scopes in recall: {"session": 1.5, "history": 0}; 0 mutes a scope.',
    )
    vector_index_from: int = Field(
        default=5_000, ge=100, description="Live vectors that one asker may see, from which the tenant gets an index."
    )

    # Sessions and context
    redis_url: SecretStr | None = Field(
        default=None, description="Redis: a cache of session state, and rates over all servers; unset: none."
    )
    token_counter: str = Field(
        default="estimate",
        description="How the tokens of a context are counted: `estimate`, or a vocabulary such as `o200k_base` or "
        "`llama3` (needs the extra `tokens`).",
    )
    window_override: int | None = Field(
        default=None, ge=100, description="Tokens to take for every model's window. For development only."
    )

    # Documents
    document_folders: list[Path] = Field(
        default=[], description='Folders that documents may be taken from: ["/srv/handbook"]. None unless set.'
    )
    document_max_bytes: int = Field(default=50 * 2**20, ge=1024, description="Largest document.")

    # Databases of your own
    database_files: Path | None = Field(
        default=None, description="Folder of the SQLite and DuckDB files that may be asked; unset: none."
    )

    # Large bodies and files
    object_bucket: str | None = Field(
        default=None,
        description="S3 bucket for large bodies, or a folder in it: `memory/agents` (needs the extra `s3`). Unset: a folder "
        "in the home.",
    )
    object_endpoint: str | None = Field(default=None, description="Address of a service that speaks S3; unset: AWS.")
    object_region: str | None = Field(default=None, description="Region of the bucket.")
    object_access_key: SecretStr | None = Field(default=None, description="Access key id; unset: as AWS tools find it.")
    object_secret_key: SecretStr | None = Field(default=None, description="Secret access key.")
    object_keys: list[SecretStr] = Field(
        default=[],
        description="Keys to encrypt objects with, each 32 bytes in base64: the first encrypts, all decrypt.",
    )

    # Observability
    log_format: Literal["auto", "console", "json"] = Field(default="auto", description="auto: json unless a terminal.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")
    metrics_token: SecretStr | None = Field(
        default=None, description="Bearer token for /metrics from other machines; unset: refused."
    )
    tracing: bool = Field(default=False, description="Make OpenTelemetry spans (needs the extra `otel`).")

    @field_validator("recall_weights", mode="before")
    @classmethod
    def _bad_weights_are_default(cls, value: object) -> object:
        """What is no JSON object counts as unset: recall never stops for it (R1)."""
        try:
            weights = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            weights = None
        return weights if isinstance(weights, dict | RecallWeights) else {}

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object, info: ValidationInfo) -> object:
        may_be_unset = info.field_name is not None and cls.model_fields[info.field_name].default is None
        return None if value == "" and may_be_unset else value

    @property
    def reranker(self) -> str:
        """The provider of the cross-encoder in use: the one that is set, or the profile's."""
        is_the_profiles = self.embedding_profile == "thorough" and self.rerank_provider == "none"
        return "local" if is_the_profiles else self.rerank_provider


def load_settings(**changes: Any) -> Settings:
    """Read the settings of the environment, with changes; `ConfigurationError` names the wrong ones."""
    try:
        return Settings(**changes)
    except ValidationError as error:
        # Never the value: it may be a password.
        problems = "; ".join(f"RECORDARI_{str(each['loc'][0]).upper()}: {each['msg']}" for each in error.errors())
        raise ConfigurationError(f"a setting is not valid: {problems}") from None
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = f"RECORDARI_{field[1].upper()}" if field else str(error)
        raise ConfigurationError(f'a setting cannot be read: {name} must be JSON, such as ["one", "two"]') from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """A setting as an operator reads about it."""

    variable: str
    default: str
    """As you would write it; empty if there is none."""
    is_set: bool
    meaning: str


def list_settings(settings: Settings) -> list[SettingInfo]:
    """Every setting in the order of the source, and whether it is set here; never its value, which may be a password."""
    return [
        SettingInfo(
            variable=f"RECORDARI_{name.upper()}",
            default=_written(field.default),
            is_set=name in settings.model_fields_set,
            meaning=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _written(default: Any) -> str:
    """A default as its variable would have it."""
    if default is PydanticUndefined or default in (None, [], {}):
        return ""
    if isinstance(default, BaseModel):
        default = default.model_dump()
    return json.dumps(default) if isinstance(default, bool | list | dict) else str(default)
