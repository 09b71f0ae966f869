"""How any part reports a fault that only the operator can mend."""

from typing import Protocol


class Alerts(Protocol):
    """Told by whoever sees a fault; an administrator hears of each once (see `goclaw.alerts`). Neither call waits."""

    def tell(self, key: str, text: str) -> None:
        """A fault is there. Call it as often as you like while it lasts.

        `key` names the fault and stays the same over restarts (`telegram:token`, `telegram:blocked:5`); `text` says
        what happened and what helps, in one sentence or two. Secrets in it are masked.
        """
        ...

    def clear(self, key: str) -> None:
        """The fault is over, or never was; quick, so that every success may say it."""
        ...


class Unheard:
    """Alerts that nobody hears: for parts that run without a daemon around them."""

    def tell(self, key: str, text: str) -> None:
        pass

    def clear(self, key: str) -> None:
        pass
