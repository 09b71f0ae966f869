"""`pytest`: what failed, and the summary."""

import pytest

from goclaw.tools.execution.compression.unit_tests import PYTEST
from tests.tools.execution.compression.texts import compressed

HEAD = """============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.0.1, pluggy-1.6.0
rootdir: /home/user/p
plugins: timeout-2.4.0
collected 5 items

"""
RUN = (
    HEAD
    + """tests/test_a.py ..s                                                      [ 60%]
tests/test_b.py F.                                                       [100%]

=================================== FAILURES ===================================
__________________________________ test_sums ___________________________________

numbers = [1, 2]

    def test_sums():
        total = sum(numbers)
        # ERRORS are shown
>       assert total == 4, (
            "no"
        )
E       AssertionError: no
E       assert 3 == 4

tests/test_b.py:4: AssertionError
----------------------------- Captured stdout call -----------------------------
    said by the test
.....
=========================== short test summary info ============================
FAILED tests/test_b.py::test_sums - AssertionError: no
==================== 1 failed, 3 passed, 1 skipped in 0.02s ====================
"""
)


def test_what_failed_and_the_summary_stay() -> None:
    assert (
        compressed(PYTEST, RUN, "pytest")
        == """= test session starts =
collected 5 items
tests/test_b.py F.                                                       [100%]
= FAILURES =
_ test_sums _
numbers = [1, 2]
        # ERRORS are shown
>       assert total == 4, (
            "no"
        )
E       AssertionError: no
E       assert 3 == 4
tests/test_b.py:4: AssertionError
----------------------------- Captured stdout call -----------------------------
    said by the test
.....
= short test summary info =
FAILED tests/test_b.py::test_sums - AssertionError: no
= 1 failed, 3 passed, 1 skipped in 0.02s =
"""
    )


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_a.py::test_one PASSED                                      [ 10%]",
        "tests/test_a.py::test_one[a b] PASSED",
        "[gw1] [ 20%] PASSED tests/test_a.py::test_one",
        "........................................................................ [ 41%]",
        "....",
    ],
)
def test_passes_go(line: str) -> None:
    assert compressed(PYTEST, f"{line}\n1 passed in 0.1s\n", "pytest -v") == "1 passed in 0.1s\n"


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_a.py::test_one FAILED [ 10%]",
        "tests/test_a.py::test_one XPASS [ 10%]",
        "tests/test_a.py::test_error_is_told PASSED [ 10%]",
        "tests/test_a.py ..E [ 10%]",
        "goclaw/a.py      100     20    80%",
        "INTERNALERROR> Traceback",
    ],
)
def test_everything_else_stays(line: str) -> None:
    assert compressed(PYTEST, f"{line}\n", "pytest -v --cov") == f"{line}\n"


def test_what_tests_print_is_no_progress() -> None:
    assert compressed(PYTEST, "...\n", "pytest -s") == "...\n"


def test_what_is_printed_between_results_stays() -> None:
    text = HEAD.replace("platform linux", "timeout after 3 s\nplatform linux")

    assert "timeout after 3 s\n" in compressed(PYTEST, text, "pytest -s")


def test_frames_of_libraries_go_unless_they_are_the_last() -> None:
    frame = "/usr/lib/python3.11/asyncio/threads.py:25: in to_thread\n    return await run()\n           ^^^^^^^^^^^\n"
    own = "a.py:3: in own\n    call()\n"
    head = "=== FAILURES ===\n___ test_x ___\n"

    assert compressed(PYTEST, head + frame + own + frame + "E   ValueError\n", "pytest --tb=short") == (
        "= FAILURES =\n_ test_x _\na.py:3: in own\n    call()\n"
        "/usr/lib/python3.11/asyncio/threads.py:25: in to_thread\n    return await run()\nE   ValueError\n"
    )


def test_a_failed_doctest_keeps_its_lines() -> None:
    text = "= FAILURES =\n_ [doctest] a.b _\n001 >>> b()\nExpected:\n    5\nGot:\n    4\n"

    assert compressed(PYTEST, text, "pytest") == text
