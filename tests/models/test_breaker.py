from __future__ import annotations

import pytest

from recordari.errors import ProviderError
from recordari.models.http import BreakerState, CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("the service", failures=3, cool_down=10, clock=clock)


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.check()
        breaker.failed()


def test_stays_closed_until_the_limit_is_reached(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    breaker.check()
    assert breaker.state is BreakerState.CLOSED


def test_refuses_calls_at_once_after_the_limit_and_says_when_to_try_again(breaker: CircuitBreaker) -> None:
    fail(breaker, 3)
    with pytest.raises(ProviderError, match="the service failed 3 times") as refused:
        breaker.check()
    assert refused.value.details["retry_after"] == 10


def test_a_success_in_between_starts_the_count_again(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    breaker.succeeded()
    fail(breaker, 2)
    assert breaker.state is BreakerState.CLOSED


def test_one_call_that_hung_opens_it_until_a_probe_is_answered(breaker: CircuitBreaker, clock: Clock) -> None:
    breaker.check()
    breaker.failed(hung=True)
    with pytest.raises(ProviderError, match="the service did not answer in time"):
        breaker.check()
    clock.now += 10
    breaker.check()
    breaker.succeeded()
    fail(breaker, 2)
    assert breaker.state is BreakerState.CLOSED


def test_lets_exactly_one_probe_through_after_the_cool_down(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 10
    breaker.check()
    assert breaker.state is BreakerState.HALF_OPEN
    with pytest.raises(ProviderError):
        breaker.check()


def test_a_good_probe_closes_it(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 10
    breaker.check()
    breaker.succeeded()
    breaker.check()
    assert breaker.state is BreakerState.CLOSED


def test_a_bad_probe_opens_it_for_another_cool_down(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 10
    fail(breaker, 1)
    clock.now += 9
    with pytest.raises(ProviderError):
        breaker.check()
    clock.now += 1
    breaker.check()


def test_a_probe_that_never_reports_back_does_not_shut_the_provider_for_ever(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    fail(breaker, 3)
    clock.now += 10
    breaker.check()
    clock.now += 10
    breaker.check()
