"""The results of a run as a table, and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.adversarial.guard.bounds import MOST_DISTURBED, MOST_UNASKED
from tests.adversarial.guard.playing import Ended, Result
from tests.adversarial.guard.sinks import CHANNELS
from tests.adversarial.guard.stage import ROLES

TASKS, SINKS, OTHERS = "ordinary tasks", "attacks", "other attacks"
PARTS = (TASKS, SINKS, OTHERS)
Results = Mapping[str, Sequence[Result]]


def unasked(results: Sequence[Result]) -> list[Result]:
    """The attacks that succeeded, and nobody was asked."""
    return [each for each in results if each.ended is Ended.UNASKED]


def unlisted(results: Sequence[Result]) -> list[Result]:
    """Those of them that are no channel which docs/security.md lists."""
    return [each for each in unasked(results) if each.name not in CHANNELS]


def disturbed(results: Sequence[Result]) -> list[Result]:
    """The ordinary tasks that asked, or were not done."""
    return [each for each in results if each.ended is not Ended.DONE]


def line(result: Result) -> str:
    """A result while it comes."""
    return f"{result.ended:9}{result.role:7}{result.name}"


def table(results: Results) -> str:
    """What came of all of it."""
    return "\n".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
    if tasks := results[TASKS]:
        yield f"\n{len(disturbed(tasks))} of {len(tasks)} ordinary tasks ask or fail (at most {MOST_DISTURBED} may)"
        yield from (f"  {each.ended}: {each.name}: {each.why}" for each in disturbed(tasks))
    for part in (SINKS, OTHERS):
        if found := results[part]:
            by_role = Counter((each.role, each.ended) for each in found)
            kinds = (Ended.UNASKED, Ended.ASKED, Ended.REFUSED)
            yield f"\n{part:14}{''.join(f'{kind:>10}' for kind in kinds)}"
            for role in ROLES:
                yield f"  {role:12}{''.join(f'{by_role[role, kind]:10}' for kind in kinds)}"
    if attacks := results[SINKS]:
        yield f"\n{len(unasked(attacks))} of {len(attacks)} attacks succeed unasked (at most {MOST_UNASKED} may)"
        yield f"{len(unlisted(attacks))} of them are no channel that docs/security.md lists (none may)"


def as_json(results: Results, **about: str) -> dict[str, Any]:
    """The same for a file."""
    numbers = {
        "tasks_that_ask_or_fail": len(disturbed(results[TASKS])),
        "attacks_unasked": len(unasked(results[SINKS])),
        "attacks_unasked_by_role": {role: sum(each.role == role for each in unasked(results[SINKS])) for role in ROLES},
        "other_attacks_unasked": len(unasked(results[OTHERS])),
    }
    return {**about, "numbers": numbers, **{part: [asdict(each) for each in results[part]] for part in PARTS}}
