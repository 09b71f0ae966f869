"""How good an order of messages is, and what of it is shown, for one question and on average."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """The part of the evidence that is shown within so many tokens."""
    recall_2000: float

    def as_percent(self) -> dict[str, float]:
        """As the JSON has them."""
        return {field.name: round(100 * getattr(self, field.name), 2) for field in fields(self)}


def score(rows: Sequence[int], shown: Mapping[int, Collection[int]], question: Question) -> Scores:
    """Judge one order, and what is shown for each of the `BUDGETS`."""
    evidence = question.evidence
    hits = [row in evidence for row in rows]
    gain = sum(1 / math.log2(rank + 2) for rank, hit in enumerate(hits[:10]) if hit)
    best = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(evidence))))
    first = next((1 / (rank + 1) for rank, hit in enumerate(hits[:10]) if hit), 0.0)
    at_5, at_10 = (sum(hits[:count]) / len(evidence) for count in (5, 10))
    within = [len(evidence.intersection(shown[budget])) / len(evidence) for budget in BUDGETS]
    return Scores(at_5, at_10, gain / best, first, *within)


def mean(scores: Iterable[Scores]) -> Scores:
    """The average over questions; there must be one."""
    columns = zip(*(astuple(each) for each in scores), strict=True)
    return Scores(*(math.fsum(column) / len(column) for column in columns))
