"""The agents as programs see them: as models."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from goclaw.common.auth.access import Access
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.gateway.servers.openai.errors import ApiError

DEFAULT = "goclaw"
"""The agent that answers the user, whichever that is."""


class Models:
    """The agents that a program may use."""

    def __init__(self, config: Config, access: Access, since: float) -> None:
        """`since`: epoch seconds, given as the time when they were made."""
        self._config = config
        self._access = access
        self._since = int(since)

    def list_entries(self, actor: Actor) -> list[dict[str, Any]]:
        """Return the entries of GET /v1/models."""
        return [self._entry(name) for name in self._names(actor)]

    def one(self, actor: Actor, name: str) -> dict[str, Any]:
        """Return the entry of one. Raises ApiError: 404, also for one that the actor may not use."""
        if name not in self._names(actor):
            raise ApiError(
                HTTPStatus.NOT_FOUND,
                f"you have no model {name[:100]!r}; GET /v1/models lists yours",
                param="model",
                code="model_not_found",
            )
        return self._entry(name)

    def agent(self, actor: Actor, name: str) -> str:
        """Return the agent's name for a model; empty: the one that answers the actor. Raises ApiError as `one`."""
        self.one(actor, name)
        return "" if name == DEFAULT else name

    def _names(self, actor: Actor) -> Iterator[str]:
        yield DEFAULT
        kinds = (name for name in self._config.agents.kinds if name != DEFAULT)
        yield from (name for name in kinds if self._access.authorize(actor, "agent.use", name).allowed)

    def _entry(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._since, "owned_by": "goclaw"}
