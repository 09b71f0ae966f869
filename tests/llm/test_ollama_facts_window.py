"""Which window fits into a machine's memory."""

import pytest

from goclaw.llm.ollama_facts import SPARE, Footprint, bucket, fitting_window

TOKEN = 100_000
WEIGHTS = 5_000_000_000


def window(for_cache: int, *, loaded: int = 0, largest: int = 32_768) -> int:
    """What is chosen where so many bytes are free beside the model and what is spared."""
    return fitting_window(Footprint(TOKEN, WEIGHTS, loaded), WEIGHTS + SPARE + for_cache, largest)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(-10_000, 4_096), (0, 4_096), (8_191, 4_096), (8_192, 8_192), (12_287, 8_192), (20_480, 20_480), (90_000, 32_768)],
)
def test_the_window_is_as_many_whole_steps_as_fit_beside_the_weights(tokens: int, expected: int) -> None:
    assert window(tokens * TOKEN) == expected


@pytest.mark.parametrize(("largest", "expected"), [(2_048, 2_048), (10_000, 10_000), (65_536, 49_152)])
def test_no_window_is_larger_than_allowed(largest: int, expected: int) -> None:
    assert window(50_000 * TOKEN, largest=largest) == expected


def test_a_model_in_memory_keeps_its_window_when_the_rest_is_used_up() -> None:
    """Its own weights and window are what the memory went for: another choice would load it anew at each start."""
    assert window(-WEIGHTS, loaded=16_384) == 16_384
    assert window(-WEIGHTS, loaded=65_536) == 32_768, "but no larger one than is allowed"


def test_a_model_in_memory_with_a_small_window_gets_a_larger_one_where_that_fits() -> None:
    assert window(20_480 * TOKEN, loaded=4_096) == 24_576


@pytest.mark.parametrize(("tokens", "expected"), [(1, 4_096), (4_096, 4_096), (4_097, 8_192), (33_000, 65_536)])
def test_buckets_double(tokens: int, expected: int) -> None:
    assert bucket(tokens) == expected
