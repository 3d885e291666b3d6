"""Who counts tokens: the estimate of the domain, or a model's own vocabulary with the extra `tokens`."""

from __future__ import annotations

from functools import lru_cache

from recordari.core.tokens import TokenCounter, prudent_tokens
from recordari.errors import ConfigurationError

ESTIMATE = "estimate"


@lru_cache(maxsize=8)
def make_token_counter(name: str = ESTIMATE) -> TokenCounter:
    """The counter of that name: `estimate`, or a vocabulary such as `o200k_base` or `llama3`.

    Vocabularies come with the package; nothing is fetched.
    """
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

    def count(text: str) -> int:
        # Ordinary: a text that spells a control token is not one.
        return len(vocabulary.encode_ordinary(text))

    return count
