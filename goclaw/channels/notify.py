"""Results and alerts for URLs of the operator's: a channel that only sends.

One delivery is one POST of JSON, through the URL guard. The outbox repeats it until the other side takes it, for a day;
`Idempotency-Key` is the same each time, so that a repetition can be distinguished from a second message.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus

import aiohttp
from yarl import URL

from goclaw.channels.base import Capabilities, Channel, ChannelPart, ChannelPorts, Handover
from goclaw.common.config.schema import Config
from goclaw.common.config.webhooks import NOTIFY, NotifyTarget
from goclaw.common.core.events import Attachment, Delivery, GatewayPort, Receipt
from goclaw.common.net import UrlGuard, UrlRefused, UrlUnreachable
from goclaw.common.net.client import PASSING
from goclaw.errors import DeliveryError

log = logging.getLogger(__name__)

SECONDS = 30.0
"""Time for one request."""
MAX_TITLE = 100
"""Characters of a title: the beginning of the first line."""
_SOURCES = frozenset({"alert", "schedule", "webhook"})


class NotifyChannel:
    """Posts to the configured targets; a delivery's chat is the name of one."""

    name = NOTIFY
    capabilities = Capabilities()

    def __init__(
        self, targets: Mapping[str, NotifyTarget], clients: Mapping[str, aiohttp.ClientSession], ports: ChannelPorts
    ) -> None:
        """`clients`: one for each target, which reaches only permitted addresses."""
        self._targets = targets
        self._clients = clients
        self._ports = ports
        self._problems: dict[str, str] = {}

    async def run(self, gateway: GatewayPort) -> None:
        """Return immediately: nothing comes in here."""

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        """Post one message; a repetition does no harm, so nothing is marked as being sent."""
        name = delivery.address.chat
        target = self._targets.get(name)
        if target is None:
            raise DeliveryError(f"`notify` has no target {name}", closed=True)
        try:
            await self._post(target, self._clients[name], delivery)
        except DeliveryError as error:
            self._problems[name] = str(error)
            if error.permanent:
                log.warning("notify.%s: %s", name, error)
                self._ports.alerts.tell(_fault(name), f"notify.{name} accepts no messages: {error}")
            raise
        self._problems.pop(name, None)
        self._ports.alerts.clear(_fault(name))
        return Receipt("")

    async def fetch(self, attachment: Attachment) -> bytes:
        raise DeliveryError("this channel only sends", permanent=True)

    def health(self) -> str:
        problems = [f"{name}: {problem}" for name, problem in sorted(self._problems.items())]
        return "; ".join(problems) or f"{len(self._targets)} target(s)"

    async def _post(self, target: NotifyTarget, client: aiohttp.ClientSession, delivery: Delivery) -> None:
        """Post a delivery.

        Raises:
            DeliveryError: it is not taken; `permanent` where that is for good.
        """
        headers = {"Idempotency-Key": delivery.id.encode("ascii", "replace").decode()[:200]}
        if target.secret:
            headers[target.secret_header] = target.secret.get_secret_value()
        url = URL(target.url.get_secret_value(), encoded=True)
        document = _document(delivery, self._ports.clock.now())
        try:
            async with client.post(url, json=document, headers=headers, allow_redirects=False) as response:
                status = response.status
        except UrlUnreachable as error:
            raise DeliveryError(str(error)) from None
        except UrlRefused as error:
            remedy = "" if target.private else "; `private: true` allows that very host"
            raise DeliveryError(f"{str(error).partition(';')[0]}{remedy}", closed=True) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise DeliveryError(f"no answer ({type(error).__name__})") from None
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise DeliveryError(f"answers {status}", closed=status not in PASSING)


def _document(delivery: Delivery, now: float) -> Mapping[str, str]:
    """Return the document to post: `source` is `alert`, `schedule`, `webhook` or `chat`."""
    first = next(iter(delivery.text.strip().splitlines()), "")
    source = delivery.id.partition(":")[0]
    return {
        "title": first if len(first) <= MAX_TITLE else f"{first[: MAX_TITLE - 1]}…",
        "text": delivery.text,
        "source": source if source in _SOURCES else "chat",
        "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
    }


def _fault(name: str) -> str:
    return f"notify:{name}"


def _guard(target: NotifyTarget) -> UrlGuard:
    url = URL(target.url.get_secret_value(), encoded=True)
    return UrlGuard(allow=(f"{url.raw_host}:{url.port}",) if target.private else ())


@asynccontextmanager
async def _open(config: Config, ports: ChannelPorts) -> AsyncIterator[Channel]:
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(_guard(target).client(SECONDS))
            for name, target in config.notify.items()
        }
        yield NotifyChannel(config.notify, clients, ports)


CHANNEL = ChannelPart(NOTIFY, lambda config: bool(config.notify), _open)
