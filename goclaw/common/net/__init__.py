"""The network: the client for services that the operator configured, and the guard for addresses chosen by a model."""

from goclaw.common.net.client import (
    CONNECT_TIMEOUT,
    IDLE_TIMEOUT,
    LOOPBACK_ONLY,
    check_reachable,
    is_loopback,
    open_client,
)
from goclaw.common.net.guard import UrlGuard, UrlRefused, UrlUnreachable

__all__ = [
    "CONNECT_TIMEOUT",
    "IDLE_TIMEOUT",
    "LOOPBACK_ONLY",
    "UrlGuard",
    "UrlRefused",
    "UrlUnreachable",
    "check_reachable",
    "is_loopback",
    "open_client",
]
