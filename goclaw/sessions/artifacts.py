"""Selection of a turn's artifacts to send to its chat as files after the answer. Terminals show all of them."""

from collections.abc import Sequence

from goclaw.access import Access
from goclaw.channels.base import Channel
from goclaw.engine.base import Turn
from goclaw.events import Delivery, Outcome
from goclaw.messages import Artifact

MAX_FILES = 3
"""The latest artifacts of one turn to send: more would flood the chat, and the transcript has all."""
DIFF = "text/x-diff"
"""The media type of a file's diff."""
MAX_BYTES = 10 << 20
"""Maximum bytes of one artifact: a size that telephones open."""


def files_of(
    turn: Turn, artifacts: Sequence[Artifact], outcome: Outcome, channel: Channel | None, access: Access
) -> list[Delivery]:
    """Return the deliveries, to be promised with the answer; none where the channel takes none, or no answer came.

    Args:
        artifacts: what the turn's tools kept, oldest first.
        channel: where the turn's answer goes.
    """
    inbound = turn.inbound
    if channel is None or not channel.capabilities.artifacts or not outcome.went_well:
        return []
    if access.is_group(f"{inbound.address.channel}:{inbound.address.chat}"):
        return []  # other people read there, and what a tool kept is for the person who asked
    wanted = [each for each in artifacts if channel.capabilities.diffs or each.mime != DIFF]
    fitting = {artifact.blob: artifact for artifact in wanted if artifact.size <= MAX_BYTES}
    return [
        Delivery(
            f"{turn.id}:artifact:{number}",
            inbound.address,
            media=artifact.blob,
            media_name=artifact.name,
            session=inbound.session,
        )
        for number, artifact in enumerate(list(fitting.values())[-MAX_FILES:], 1)
    ]
