"""Reports of faults that only the operator can mend."""

from typing import Protocol


class Alerts(Protocol):
    """Reports of faults; an administrator is notified of each once (see `goclaw.alerts`). Neither call waits."""

    def tell(self, key: str, text: str) -> None:
        """Report a fault, as often as you like while it lasts.

        `key` names the fault and stays the same over restarts (`telegram:token`, `telegram:blocked:5`); `text` has the
        cause and the remedy, in one sentence or two. Secrets in it are masked.
        """
        ...

    def clear(self, key: str) -> None:
        """Report that there is no such fault (any more); cheap enough to call on every success."""
        ...


class Unheard:
    """Alerts that are dropped: for parts that run without a daemon around them."""

    def tell(self, key: str, text: str) -> None:
        pass

    def clear(self, key: str) -> None:
        pass
