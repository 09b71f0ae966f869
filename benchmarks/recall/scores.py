"""How good an order of places is, for one question and on average."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

from benchmarks.recall.dataset import Question

BUDGETS = (500, 1_000, 2_000)


@dataclass(frozen=True, slots=True)
class Scores:
    """Each 0 to 1."""

    recall_5: float
    recall_10: float
    """The part of the evidence that is among the first ten."""
    ndcg_10: float
    """The same with a better place counting for more; binary relevance."""
    mrr_10: float
    """One by the place of the first evidence."""
    recall_500: float
    recall_1000: float
    """The part of the evidence among as many hits as fit into that many tokens."""
    recall_2000: float

    def as_percent(self) -> dict[str, float]:
        """As the JSON has them."""
        return {field.name: round(100 * getattr(self, field.name), 2) for field in fields(self)}


def score(places: Sequence[int], question: Question, tokens: Mapping[int, float]) -> Scores:
    """Judge one order; `tokens` says what showing a place costs."""
    evidence = question.evidence
    hits = [place in evidence for place in places]
    gain = sum(1 / math.log2(rank + 2) for rank, hit in enumerate(hits[:10]) if hit)
    best = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(evidence))))
    first = next((1 / (rank + 1) for rank, hit in enumerate(hits[:10]) if hit), 0.0)
    within = [_within(places, tokens, budget) for budget in BUDGETS]
    at_5, at_10, at_500, at_1000, at_2000 = (sum(hits[:count]) / len(evidence) for count in (5, 10, *within))
    return Scores(at_5, at_10, gain / best, first, at_500, at_1000, at_2000)


def mean(scores: Iterable[Scores]) -> Scores:
    """The average over questions; there must be one."""
    columns = zip(*(astuple(each) for each in scores), strict=True)
    return Scores(*(math.fsum(column) / len(column) for column in columns))


def _within(places: Sequence[int], tokens: Mapping[int, float], budget: float) -> int:
    """How many of the first places can be shown for `budget` tokens."""
    spent = 0.0
    for count, place in enumerate(places):
        spent += tokens[place]
        if spent > budget:
            return count
    return len(places)
