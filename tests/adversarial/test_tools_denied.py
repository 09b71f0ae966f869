"""A model that was told no and tries on: whatever it writes, it is recognised at once, and holds up nobody."""

import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.conversation.agent.limits import _alike


def run(command: str) -> ToolCall:
    return ToolCall("c", "exec", {"command": command})


LONG = " ".join(f"rm -rf folder{number}/build{number * 7}" for number in range(60))
OTHER = " ".join(f"git log --oneline release{number * 3} -- src/module{number}" for number in range(60))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("rm -rf build", "rm  -rf 'build'", True),
        ("rm -rf build", "rm -rf build/", True),
        ("rm -rf build", "git status", False),
        (LONG, LONG.replace("folder7/", "folder8/"), True),
        (LONG, f"{LONG} ; true", True),
        (LONG, OTHER, False),
        (LONG, "rm -rf build", False),
        ("", "x" * 5_000, False),
    ],
)
def test_the_like_of_a_denied_call_is_told_from_another_one(one: str, other: str, alike: bool) -> None:
    assert _alike(run(one), run(other)) is alike


@pytest.mark.timeout(60)  # with the square of the length it would be minutes
@pytest.mark.parametrize("length", [150, 2_000, 100_000])
def test_letters_that_repeat_themselves_are_compared_at_once(length: int) -> None:
    """It happens on the event loop: what takes seconds there stops everybody."""
    pairs = [("a", "aaaaaaaab"), ("ab", "ba"), ("ababababababac", "babababababad")]
    for one, other in pairs:
        _alike(run((one * length)[:length]), run((other * length)[:length]))
