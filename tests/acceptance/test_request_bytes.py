"""How heavy the first request of a new installation is: counted, so that it does not grow unnoticed."""

import pytest

from benchmarks.request_bytes import TOTALS, figures_of, first_request


@pytest.mark.slow
@pytest.mark.promise("P-light-request")
@pytest.mark.parametrize("window", TOTALS)
async def test_the_first_request_keeps_to_its_targets_as_a_whole_and_in_each_part(window: int) -> None:
    figures = figures_of(await first_request(window, forks=True), window, *TOTALS[window])
    missed = {figure.name: (figure.measured, figure.target) for figure in figures if not figure.reached}
    assert not missed, f"heavier than benchmarks/request_bytes.py has it: {missed}"
