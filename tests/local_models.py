"""The real models for tests, from the cache or pulled; in CI one that cannot be had is a failure."""

from __future__ import annotations

import os

import pytest

from recordari.errors import ProviderError
from recordari.models.pull import pull
from recordari.models.registry import ModelFiles


def require_model(name: str) -> ModelFiles:
    """Give the files of a model, or skip the test when there is no network to pull it."""
    try:
        return pull(name)
    except ProviderError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the model cannot be had here: {error}")
