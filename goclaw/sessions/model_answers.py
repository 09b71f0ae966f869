"""Processing of a model's answer for people: pieces without secrets, a line where it was cut."""

import logging

from goclaw.context.sanitize import sound_text
from goclaw.llm.base import Finished, ModelEvent, Restarted, Stop, TextDelta, ThinkingDelta
from goclaw.redact import Masking

log = logging.getLogger(__name__)


def masked(event: ModelEvent, said: Masking, thought: Masking) -> ModelEvent:
    """Return the event without a secret, whichever pieces it comes in.

    Args:
        event: a piece of a stream.
        said, thought: what was held back of the text and of the thinking so far.
    """
    match event:
        case TextDelta(text):
            return TextDelta(said.next(sound_text(text)))
        case ThinkingDelta(text):
            return ThinkingDelta(thought.next(sound_text(text)))
        case Restarted():
            said.rest()
            thought.rest()
            return event
        case _:
            return event


def log_answer(done: Finished, seconds: float) -> None:
    """Log which model answered, how long it took and what it counted; nothing of what it said."""
    tokens = {"tokens_in": done.usage.input, "tokens_out": done.usage.output}
    log.info("model %s answered in %.1f s", done.spec, seconds, extra=tokens)


def is_cut(done: Finished) -> bool:
    """Return whether the output limit cut the text; complete calls beside it are run, and the model goes on itself."""
    return done.stop is Stop.LENGTH and not done.message.calls


def cut_line(done: Finished) -> str:
    """Return what stands at the end of an answer that the output limit cut, for the person and the model."""
    return (
        f"[The answer stops here: it reached the model's output limit (models.options.{done.spec}.max_output) or what "
        'its window has room for. Say "go on" for the rest.]'
    )
