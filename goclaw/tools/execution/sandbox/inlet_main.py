"""A program of one task: open a listening socket in the network of a sandbox and hand it back to the daemon.

Started as a process of its own because a namespace is entered by a whole process, or by one that has a single thread.
It ends immediately; nothing of ours stays inside. It imports nothing but the standard library.
"""

import ctypes
import fcntl
import os
import socket

_NS_GET_USERNS = 0xB701  # linux/nsfs.h
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000  # linux/sched.h


def main(network: int, channel: int, port: int) -> None:
    """Enter the network namespace of the descriptor `network` and send a socket that listens on `port` there."""
    with socket.socket(fileno=channel) as back:
        try:
            # Its owner first: there a plain user who made it has the power to enter it.
            _enter(fcntl.ioctl(network, _NS_GET_USERNS), _CLONE_NEWUSER)
            _enter(network, _CLONE_NEWNET)
            with socket.socket() as listener:
                # Every address: the namespace has no interface but its own loopback, which may not be up yet.
                listener.bind(("", port))
                listener.listen(socket.SOMAXCONN)
                socket.send_fds(back, [b"listening"], [listener.fileno()])
        except OSError as error:
            back.send((error.strerror or str(error)).encode())


def _enter(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) != 0:
        raise OSError(ctypes.get_errno(), f"a namespace cannot be entered: {os.strerror(ctypes.get_errno())}")
