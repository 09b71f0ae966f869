"""Every attack of the table, on the real daemon: in both tiers, as root and as a plain user."""

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests import house, plain_user
from tests.adversarial.attacks import ATTACKS, TIERS, USERS, Attack, Outcome, table
from tests.adversarial.stage import open_stage
from tests.together import together

TOGETHER = 8
"""Attacks in one message; those that a person is asked about come alone."""
AT_ONCE = 3


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.promise("P-exec-contained")
@pytest.mark.parametrize(
    ("tier", "user"),
    # Each tier and each user in every commit, the other two pairs in the long lane.
    [
        pytest.param(tier, user, id=f"{tier}-{user}", marks=[pytest.mark.long] * (place == other))
        for place, tier in enumerate(TIERS)
        for other, user in enumerate(USERS)
    ],
)
async def test_every_attack_ends_as_the_table_says(tier: str, user: str) -> None:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("only root starts a daemon that is root")
    if user != "root" and os.geteuid() == 0 and (why := plain_user.refusal()):
        pytest.skip(f"root cannot start a daemon as a plain user here: {why}")
    async with open_stage(tier, user) as stage:
        ended: dict[str, tuple[Outcome, str]] = {}

        async def attempt(attacks: list[Attack]) -> None:
            for attack, outcome in zip(attacks, await stage.outcomes(attacks), strict=True):
                ended[attack.name] = outcome

        await together(attempt, {attacks[0].name: attacks for attacks in batches()}, AT_ONCE)
        expected = {attack.name: attack.expected(tier, user) for attack in ATTACKS}
        assert [f"{name}: {end}: {text}" for name, (end, text) in ended.items() if end != expected[name]] == []
        assert ended.keys() == expected.keys()
        await stage.begin_another_turn()
        assert stage.harm() == []
        assert await stage.is_still_asked()


def test_the_table_stands_on_the_page_as_it_is_run() -> None:
    """`python -m tests.adversarial.attacks` prints it."""
    assert len(ATTACKS) == len({attack.name for attack in ATTACKS}) >= 100
    assert table() in (house.ROOT / "docs" / "security.md").read_text("utf-8")


def batches() -> Iterator[list[Attack]]:
    """The attacks that are made by one person each."""
    waiting = defaultdict[tuple[str, bool], list[Attack]](list)
    for attack in ATTACKS:
        if Outcome.ASKED in (attack.ends, *attack.unlike.values()):
            yield [attack]
            continue
        batch = waiting[attack.who, bool(attack.tool)]
        batch.append(attack)
        if len(batch) == TOGETHER:
            yield batch.copy()
            batch.clear()
    yield from filter(None, waiting.values())
