"""A language model that answers in a given form: any OpenAI-compatible service, or Anthropic's.

Its client package is imported at the first use. An answer is a proposal that the caller must check: the prompt may
contain instructions of others to the model.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from recordari.core.tokens import TokenCounter, prudent_tokens
from recordari.errors import ConfigurationError, ProviderError
from recordari.models.http import CircuitBreaker

MAX_TOKENS = 2_000

Output = TypeVar("Output", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelSpec:
    provider: Literal["openai", "anthropic"]
    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 20.0


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The tokens of calls of a model, as its service reports them."""

    input: int = 0
    output: int = 0

    def __add__(self, other: TokenCount) -> TokenCount:
        return TokenCount(self.input + other.input, self.output + other.output)


class LanguageModel:
    """One model for all tasks, with one breaker: no task waits for a model that is down."""

    def __init__(self, spec: LanguageModelSpec) -> None:
        self._spec = spec
        self.name = spec.model
        self._agents: dict[type[BaseModel], Any] = {}
        self.breaker = CircuitBreaker("the language model")

    async def answer(self, form: type[Output], prompt: str, *, instructions: str) -> Output:
        """Ask within the time limit; `ProviderError` carries nothing of prompt or answer."""
        output, _ = await self.counted_answer(form, prompt, instructions=instructions)
        return output

    async def counted_answer(self, form: type[Output], prompt: str, *, instructions: str) -> tuple[Output, TokenCount]:
        """The same, with the tokens that it took."""
        agent = self._agents.get(form) or self._make_agent(form)
        from pydantic_ai.exceptions import AgentRunError

        self.breaker.check()
        try:
            async with asyncio.timeout(self._spec.timeout):
                result = await agent.run(prompt, instructions=instructions)
        except (AgentRunError, TimeoutError) as error:
            self.breaker.failed()
            raise ProviderError(
                f"the language model failed ({type(error).__name__})", service="the language model"
            ) from None
        except asyncio.CancelledError:
            self.breaker.failed()
            raise
        self.breaker.succeeded()
        output: Output = result.output
        return output, TokenCount(result.usage.input_tokens, result.usage.output_tokens)

    def _make_agent(self, form: type[BaseModel]) -> Any:
        try:
            from pydantic_ai import Agent, PromptedOutput
        except ModuleNotFoundError:
            raise ConfigurationError("a language model needs the extra `llm`; install `recordari[llm]`") from None
        self._agents[form] = Agent(
            self._model(),
            # In the prompt, because small and local models often cannot call tools.
            output_type=PromptedOutput(form),
            model_settings={"temperature": 0.0, "max_tokens": MAX_TOKENS, "timeout": self._spec.timeout},
            retries=1,
        )
        return self._agents[form]

    def _model(self) -> Any:
        spec = self._spec
        if spec.provider == "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(spec.model, provider=AnthropicProvider(api_key=spec.api_key, base_url=spec.base_url))
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        # A local server needs no key, but the client library does.
        provider = OpenAIProvider(base_url=spec.base_url, api_key=spec.api_key or "none")
        return OpenAIChatModel(spec.model, provider=provider)


def fenced(tag: str, text: str) -> str:
    """A foreign text between tags that it cannot close."""
    return f"<{tag}>\n{text.replace('</', '< /')}\n</{tag}>"


ESTIMATE = "estimate"


@lru_cache(maxsize=8)
def make_token_counter(name: str = ESTIMATE) -> TokenCounter:
    """The counter of that name: `estimate`, or a vocabulary such as `o200k_base`, which comes with the package."""
    if name == ESTIMATE:
        return prudent_tokens
    try:
        import splintr
    except ImportError:
        raise ConfigurationError(
            "counting tokens exactly needs the extra `tokens`: pip install 'recordari[tokens]'"
        ) from None
    try:
        # The package's only error for a name it does not know.
        vocabulary = splintr.Tokenizer.from_pretrained(name)
    except ValueError:
        raise ConfigurationError(
            "there is no vocabulary of that name; use `estimate`, `o200k_base`, `cl100k_base`, `llama3`, "
            "`mistral_v3` or `deepseek_v3`"
        ) from None

    # Ordinary: a text that spells a control token is not one.
    return lambda text: len(vocabulary.encode_ordinary(text))
