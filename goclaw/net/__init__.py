"""The network: our own client for services that the operator configured, and the guard for what a model causes."""

from goclaw.net.client import CONNECT_TIMEOUT, IDLE_TIMEOUT, LOOPBACK_ONLY, check_reachable, is_loopback, open_client
from goclaw.net.guard import UrlGuard, UrlRefused

__all__ = [
    "CONNECT_TIMEOUT",
    "IDLE_TIMEOUT",
    "LOOPBACK_ONLY",
    "UrlGuard",
    "UrlRefused",
    "check_reachable",
    "is_loopback",
    "open_client",
]
