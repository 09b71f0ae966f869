"""Sends lines of the audit log to syslog, as datagrams (RFC 3164); what syslog does not take is lost there alone."""

import logging
import socket
from collections.abc import Sequence
from logging.handlers import SysLogHandler

from goclaw.common.config.policies import datagram_address

log = logging.getLogger(__name__)

_PRIORITY = SysLogHandler.LOG_AUTHPRIV << 3 | SysLogHandler.LOG_INFO
SEND_SECONDS = 0.2
"""A service that takes nothing (its queue is full) is waited for so long, once in a batch."""


class Syslog:
    """The way to a syslog service; for one thread at a time."""

    def __init__(self, address: str) -> None:
        """`address`: the path of its socket, or an IP address with a port, which is UDP."""
        self._address = address
        self._failed = False

    def send(self, lines: Sequence[bytes]) -> None:
        """Send lines. Never fails: what cannot be sent is logged, once until it can again."""
        try:
            with self._socket() as sender:
                for line in lines:
                    sender.send(b"<%d>goclaw-audit: %s" % (_PRIORITY, line.rstrip(b"\n")))
        except OSError as error:
            if not self._failed:
                log.error("the audit log cannot be sent to syslog at %s: %s", self._address, error.strerror or error)
            self._failed = True
        else:
            if self._failed:
                log.warning("the audit log can be sent to syslog again")
            self._failed = False

    def _socket(self) -> socket.socket:
        target = datagram_address(self._address)
        inet = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        sender = socket.socket(socket.AF_UNIX if isinstance(target, str) else inet, socket.SOCK_DGRAM)
        try:
            sender.settimeout(SEND_SECONDS)
            sender.connect(target)
        except OSError:
            sender.close()
            raise
        return sender
