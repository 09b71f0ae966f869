"""By how much estimates of tokens are off for a model, learnt from the counts of its provider."""

from collections.abc import Mapping
from dataclasses import replace

from goclaw.conversation.agent.context.window import Window
from goclaw.llm.base import Finished
from goclaw.llm.token_counts import estimate_message

MIN_FACTOR, MAX_FACTOR = 0.4, 3.0
"""Limits of the factor: no real tokenizer is further off; a count beyond that is wrong and must teach nothing."""
NEWS = 0.02
"""A change below this is not worth a write."""
LEAST_TOKENS = 500
"""Minimum tokens to learn from: in a shorter request the fixed parts (role marks, the provider's prompt) dominate."""
WEIGHT = 0.25
"""Weight of the newest count: a change of language or of tools shows within a few answers."""


class Calibration:
    """Factors by model. `scales` are the factors that an earlier run learnt."""

    def __init__(self, scales: Mapping[str, float] | None = None) -> None:
        self.restore(scales)

    def restore(self, scales: Mapping[str, float] | None) -> None:
        """Restore the factors that an earlier run learnt, in place of the present ones."""
        self._scales = {spec: scale for spec, scale in (scales or {}).items() if MIN_FACTOR <= scale <= MAX_FACTOR}
        self._kept = dict(self._scales)

    def of(self, spec: str) -> float:
        """Return the factor for estimates for the model `spec`."""
        return self._scales.get(spec, 1.0)

    def calibrate(self, done: Finished, window: Window, overhead: int) -> None:
        """Give the provider's count to the window, with the answer as its last entry, and learn from it."""
        before = window.estimate(overhead) - estimate_message(done.message)
        if not window.documents:  # tokens of pages differ by more than those of texts, and would distort the factor
            self.learn(done.spec, before, done.usage.input)
        window.scale = self.of(done.spec)
        is_part = before >= LEAST_TOKENS and done.usage.input < MIN_FACTOR * before
        usage = replace(done.usage, input=0) if is_part else done.usage  # what a server had cached is left out by some
        window.count(usage, thought=done.message.native is not None)

    def learn(self, spec: str, estimated: float, counted: int) -> None:
        """Take in that a request of `estimated` tokens had `counted`, as the provider says."""
        if estimated < LEAST_TOKENS or not MIN_FACTOR <= counted / estimated <= MAX_FACTOR:
            return
        seen = counted / estimated
        before = self._scales.get(spec)
        self._scales[spec] = seen if before is None else before + WEIGHT * (seen - before)

    def news(self) -> dict[str, float] | None:
        """Return the factors that have changed enough since they were last asked for: to be kept."""
        if all(abs(scale - self._kept.get(spec, 0.0)) <= NEWS * scale for spec, scale in self._scales.items()):
            return None
        scales = {spec: round(scale, 3) for spec, scale in self._scales.items()}
        news = {spec: scale for spec, scale in scales.items() if scale != self._kept.get(spec)}
        self._kept = scales
        return news
