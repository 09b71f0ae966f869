"""Programs that try to get out of a sandbox, and the world that they try to reach.

Each probe is Python that runs inside. It calls `escaped()` when it got somewhere it must not get; being refused is an
OSError. `tests/adversarial/test_attacks.py` runs them as commands of a daemon in every tier, and
`test_sandbox_containment.py` without containment: a probe that escapes nowhere proves nothing.
"""

import ctypes
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

INSIDE_PATH = "/usr/local/bin:/usr/bin:/bin"
SECRET = "canary-secret-5d1f"

PRELUDE = """
import ctypes, fcntl, os, resource, signal, socket, stat, struct, subprocess, sys
OUTSIDE, STATE, ABSTRACT, SOCK = (os.environ[name] for name in ("OUTSIDE", "STATE", "ABSTRACT", "SOCK"))
PORT, DAEMON, UDP = (int(os.environ[name]) for name in ("PORT", "DAEMON", "UDP"))
libc = ctypes.CDLL(None, use_errno=True)
def escaped(): print("ESCAPED")
def number(x86, arm): return x86 if os.uname().machine == "x86_64" else arm
def call(number, *arguments): return libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in arguments))
def attempt():
"""
CODA = """
try:
    attempt()
except OSError as error:
    print("refused:", error)
print("finished")
"""


@dataclass(frozen=True)
class Probe:
    """One attempt; `control` tells that it succeeds without containment (as root, on this kind of machine)."""

    body: str
    control: bool = True

    @property
    def program(self) -> str:
        lines = "\n".join(f"    {line}" for line in self.body.strip().splitlines())
        return PRELUDE + lines + CODA


PROBES = {
    "write a file outside": Probe("open(OUTSIDE + '/new', 'w').write('x'); escaped()"),
    "append to a file outside": Probe("open(OUTSIDE + '/file', 'a').write('x'); escaped()"),
    "truncate a file outside": Probe("os.truncate(OUTSIDE + '/victim', 0); escaped()"),
    "remove a file outside": Probe("os.unlink(OUTSIDE + '/removable'); escaped()"),
    "read a file outside": Probe("open(OUTSIDE + '/file').read(); escaped()"),
    "read the state folder": Probe("open(STATE + '/users.json').read(); escaped()"),
    "list the state folder": Probe("os.listdir(STATE) and escaped()"),
    "write the state folder": Probe("open(STATE + '/new', 'w').write('x'); escaped()"),
    "read through a symbolic link": Probe("os.symlink(OUTSIDE + '/file', 'link'); open('link').read(); escaped()"),
    "hard-link a file from outside": Probe("os.link(OUTSIDE + '/file', 'hard'); open('hard').read(); escaped()"),
    "move a file from outside": Probe("os.rename(OUTSIDE + '/movable', 'moved'); escaped()"),
    "read /etc/shadow": Probe("open('/etc/shadow').read(); escaped()"),
    "write /usr": Probe("open('/usr/goclaw-probe', 'w'); os.unlink('/usr/goclaw-probe'); escaped()"),
    "write /etc": Probe("open('/etc/goclaw-probe', 'w'); os.unlink('/etc/goclaw-probe'); escaped()"),
    "read the daemon's environment": Probe("'TOKEN' in open(f'/proc/{DAEMON}/environ').read() and escaped()"),
    "read through the daemon's root": Probe(
        "open(os.path.join('/proc', str(DAEMON), 'root', 'etc', 'shadow')).read(); escaped()"
    ),
    "read the daemon's memory": Probe("open(f'/proc/{DAEMON}/mem', 'rb'); escaped()"),
    "connect to loopback": Probe("socket.create_connection(('127.0.0.1', PORT), 2); escaped()"),
    "send a datagram to loopback": Probe(
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP))", control=False
    ),
    "connect to an abstract socket": Probe("s = socket.socket(socket.AF_UNIX); s.connect('\\0' + ABSTRACT); escaped()"),
    "connect to a path socket": Probe("s = socket.socket(socket.AF_UNIX); s.connect(SOCK); escaped()"),
    "open a packet socket": Probe("socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); escaped()"),
    "open a virtual machine socket": Probe("socket.socket(40, socket.SOCK_STREAM); escaped()", control=False),
    "mount": Probe("os.mkdir('m'); libc.mount(b'x', b'm', b'tmpfs', 0, None) == 0 and escaped()", control=False),
    "chroot": Probe("os.chroot('.'); escaped()"),
    "new user namespace by unshare": Probe("libc.unshare(0x10000000) == 0 and escaped()", control=False),
    "new user namespace by a program": Probe(
        "subprocess.run(['unshare', '-Ur', 'true'], stderr=-3).returncode == 0 and escaped()"
    ),
    "new user namespace by clone": Probe(
        "pid = call(number(56, 220), 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\npid > 0 and escaped()"
    ),
    "enter the daemon's namespaces": Probe("libc.setns(os.open(f'/proc/{DAEMON}/ns/mnt', 0), 0) == 0 and escaped()"),
    "trace the daemon": Probe(
        "libc.ptrace.restype = ctypes.c_long\nlibc.ptrace(0x4206, DAEMON, 0, 0) == 0 and escaped()"  # PTRACE_SEIZE
    ),
    "signal the daemon": Probe("os.kill(DAEMON, 0); escaped()"),
    "kill the daemon": Probe("os.kill(DAEMON, signal.SIGUSR1); escaped()", control=False),
    "change the daemon's limits": Probe("resource.prlimit(DAEMON, resource.RLIMIT_CORE, (0, 0)); escaped()"),
    "change the daemon's priority": Probe("os.setpriority(os.PRIO_PROCESS, DAEMON, 5); escaped()"),
    "steal the daemon's descriptor": Probe("fd = os.pidfd_open(DAEMON); call(438, fd, 0, 0) >= 0 and escaped()"),
    "find a secret in the environment": Probe("'canary-secret' in str(os.environ) and escaped()", control=False),
    "find an open descriptor": Probe(
        "leaks = []\n"
        "for fd in range(3, 4096):\n"
        "    try: leaks.append(os.fstat(fd))\n"
        "    except OSError: pass\n"
        "leaks and escaped()",
        control=False,
    ),
    "type into the terminal": Probe(
        "for fd in (0, 1, 2):\n"
        "    try: fcntl.ioctl(fd, 0x5412, b'x'); escaped()\n"
        "    except OSError as error: error.errno == 1 or escaped()"
    ),
    "keep capabilities": Probe(
        "header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()\n"
        "libc.capget(header, data)\n"
        "any(data) and escaped()"
    ),
    "gain privileges by exec": Probe("libc.prctl(39, 0, 0, 0, 0) == 0 and escaped()"),
    "set the set-user-id bit": Probe("open('s', 'w'); os.chmod('s', 0o4755); escaped()"),
    "make a set-user-id file": Probe("os.umask(0); os.open('t', os.O_CREAT | os.O_WRONLY, 0o4755); escaped()"),
    "make a device": Probe("os.mknod('d', 0o600 | stat.S_IFBLK, os.makedev(7, 0)); escaped()"),
    "read the kernel's log": Probe("libc.klogctl(10, None, 0) >= 0 and escaped()"),
    "open a kernel device": Probe("os.open('/dev/kmsg', os.O_WRONLY); escaped()"),
    "ask the kernel's key store": Probe("call(number(250, 219), 0, -3, 1) >= 0 and escaped()", control=False),
    "set up an io_uring": Probe(
        "b = ctypes.create_string_buffer(256)\ncall(425, 4, ctypes.addressof(b)) >= 0 and escaped()", control=False
    ),
    "open by handle": Probe("call(number(304, 265), 3, 0, 0); ctypes.get_errno() != 1 and escaped()"),
    "write a kernel setting": Probe("os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY); escaped()"),
    "press a magic key": Probe("os.open('/proc/sysrq-trigger', os.O_WRONLY); escaped()", control=False),
    "raise its own chance to survive": Probe(
        "os.open('/proc/self/oom_score_adj', os.O_WRONLY) and os.open('/sys/kernel/uevent_seqnum', 0); escaped()"
    ),
    "reach System V shared memory": Probe("call(number(29, 194), int(os.environ['SHM']), 0, 0) >= 0 and escaped()"),
    "leave something in /tmp": Probe("open('/tmp/goclaw-probe-left', 'w')", control=False),
    "see the daemon's process": Probe("os.path.exists(f'/proc/{DAEMON}') and escaped()"),
    "make the system writable again": Probe(
        "libc.mount(None, b'/usr', None, 32 | 4096, None) == 0 and escaped()",
        control=False,  # MS_REMOUNT | MS_BIND
    ),
    "take a mount away": Probe("libc.umount2(b'/proc', 2) == 0 and escaped()", control=False),  # MNT_DETACH
    "read the kernel's memory": Probe("open('/proc/kcore', 'rb').read(64) and escaped()", control=False),
    "open the machine's memory": Probe("os.open('/dev/mem', os.O_RDONLY); escaped()", control=False),
    "set the clock": Probe(
        "import time; time.clock_settime(time.CLOCK_REALTIME, time.time()); escaped()", control=False
    ),
    "rename the machine": Probe("socket.sethostname(socket.gethostname()); escaped()", control=False),
    "load a kernel program": Probe(
        "b = ctypes.create_string_buffer(128)\ncall(number(321, 280), 5, ctypes.addressof(b), 128)\n"
        "ctypes.get_errno() != 1 and escaped()",
        control=False,
    ),
    "change a file's mode outside": Probe("os.chmod(OUTSIDE + '/moded', 0o666); escaped()"),
    "change a file's mode through a link": Probe(
        "os.symlink(OUTSIDE + '/moded', 'l'); os.symlink('l', 'll'); os.chmod('ll', 0o666); escaped()"
    ),
    "change a file's mode by a folder's descriptor": Probe(
        "fd = os.open(OUTSIDE, os.O_PATH); os.chmod('moded', 0o666, dir_fd=fd); escaped()"
    ),
    "change a file's mode by its descriptor": Probe(
        "fd = os.open('/usr/bin/env', 0); os.fchmod(fd, os.fstat(fd).st_mode & 0o777); escaped()"
    ),
    "change a file's mode by a path of /proc": Probe(
        "fd = os.open(OUTSIDE + '/moded', os.O_PATH); os.chmod(f'/proc/self/fd/{fd}', 0o666); escaped()"
    ),
    "change a mode while its path changes": Probe(
        "import threading, time\n"
        "open('inside', 'w'); inside, outside = b'inside', (OUTSIDE + '/moded').encode()\n"
        "path = ctypes.create_string_buffer(inside, len(outside) + 1)\n"
        "def swap():\n"
        "    for path.value in (outside, inside) * 200: time.sleep(0.0002)\n"
        "swapping = threading.Thread(target=swap); swapping.start()\n"
        "while swapping.is_alive(): libc.chmod(path, 0o666)\n"
        "os.stat(outside).st_mode & 0o22 and escaped()"
    ),
    "change a mode while a link changes": Probe(
        "import threading, time\n"
        "open('inside', 'w'); os.symlink('inside', 'i'); os.symlink(OUTSIDE + '/moded', 'o')\n"
        "def swap():\n"
        "    for one in 'io' * 200:\n"
        "        os.symlink(os.readlink(one), 'new'); os.replace('new', 'swapped'); time.sleep(0.0002)\n"
        "swapping = threading.Thread(target=swap); swapping.start()\n"
        "while swapping.is_alive(): libc.chmod(b'swapped', 0o666)\n"
        "os.stat(OUTSIDE + '/moded').st_mode & 0o22 and escaped()"
    ),
    "change a file's times outside": Probe("os.utime(OUTSIDE + '/moded', (1, 1)); escaped()"),
    "change a file's owner outside": Probe("os.chown(OUTSIDE + '/moded', os.getuid(), os.getgid()); escaped()"),
    "set an attribute of a file outside": Probe(
        "os.setxattr(OUTSIDE + '/moded', 'user.goclaw', b'x'); escaped()", control=False
    ),
    "set the flags of a file outside": Probe(
        "fd, flags = os.open('/usr/bin/env', 0), bytearray(8)\n"
        "fcntl.ioctl(fd, 0x80086601, flags); fcntl.ioctl(fd, 0x40086602, flags); escaped()",  # FS_IOC_GET-, SETFLAGS
        control=False,
    ),
    "connect to the daemon's socket": Probe(
        "s = socket.socket(socket.AF_UNIX); s.connect(STATE + '/goclaw.sock'); escaped()", control=False
    ),
    "connect to Docker's socket": Probe(
        "s = socket.socket(socket.AF_UNIX); s.connect('/var/run/docker.sock'); escaped()", control=False
    ),
    "connect to the cloud's metadata": Probe(
        "socket.create_connection(('169.254.169.254', 80), 2); escaped()", control=False
    ),
    "ask a name server": Probe(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('192.0.2.1', 53)); escaped()",
        control=False,
    ),
    "start processes without end": Probe(
        "import time\nfor _ in range(1000):\n    if os.fork() == 0: time.sleep(5); os._exit(0)\nescaped()",
        control=False,
    ),
    "fill the memory": Probe("import mmap; mmap.mmap(-1, 1 << 44); escaped()", control=False),
    "write a file without end": Probe(
        "os.truncate(os.open('f', os.O_CREAT | os.O_RDWR), 1 << 42); escaped()", control=False
    ),
}

WEAKER = {"broker": {"see the daemon's process"}}
"""What a tier is known not to hold; docs and doctor say so, and the tests notice when it does hold."""


@dataclass
class World:
    """What lies around a sandbox."""

    workspace: Path
    outside: Path
    state: Path
    env: dict[str, str]
    daemon: subprocess.Popen[bytes]
    datagrams: socket.socket
    moded: tuple[float, ...]
    """Mode, times and owner of the file of this name at the beginning."""

    def harm(self) -> list[str]:
        """What happened to the world, whatever the probe said of itself."""
        found = []
        if self.daemon.poll() is not None:
            found.append("the daemon is dead")
        if (self.outside / "file").read_text() != SECRET or (self.outside / "victim").read_text() != SECRET:
            found.append("a file outside was changed")
        if sorted(path.name for path in self.outside.iterdir()) != [
            "file",
            "moded",
            "movable",
            "removable",
            "sock",
            "victim",
        ]:
            found.append("files outside appeared or disappeared")
        if metadata(self.outside / "moded") != self.moded:
            found.append("mode, times, owner or attributes of a file outside were changed")
        if Path("/tmp/goclaw-probe-left").exists():
            found.append("a file was left in /tmp")
        try:
            self.datagrams.recv(10)
            found.append("a datagram arrived")
        except BlockingIOError:
            pass  # nothing came, as it should be
        return found


def metadata(path: Path) -> tuple[float, ...]:
    """Everything of a file that a command could change without opening it."""
    found = path.stat()
    return (found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, found.st_ctime_ns)


def program() -> str:
    """A Python that is visible inside, or an empty string."""
    return shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""


@contextmanager
def shared_memory() -> Iterator[int]:
    """The key of a System V shared memory segment of ours."""
    libc = ctypes.CDLL(None)
    key = 0x40000000 | secrets.randbits(30)
    segment = libc.shmget(key, 4096, 0o1600)  # IPC_CREAT, owner only
    try:
        yield key
    finally:
        libc.shmctl(segment, 0, None)  # IPC_RMID


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """A workspace in `folder` with secrets, sockets and a process outside of it."""
    workspace, outside, state = folder / "workspace", folder / "outside", folder / "state"
    for path in (workspace, outside, state):
        path.mkdir(parents=True)
    for name in ("file", "victim", "removable", "movable", "moded"):
        (outside / name).write_text(SECRET)
    (state / "users.json").write_text(SECRET)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        abstract = f"goclaw-probe-{os.getpid()}-{folder.name}"
        for address in (f"\0{abstract}", str(outside / "sock")):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        daemon = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env={"TOKEN": SECRET})
        stack.enter_context(daemon)
        stack.callback(daemon.kill)
        key = stack.enter_context(shared_memory())
        env = {
            "SHM": str(key),
            "PATH": INSIDE_PATH,
            "OUTSIDE": str(outside),
            "STATE": str(state),
            "ABSTRACT": abstract,
            "SOCK": str(outside / "sock"),
            "PORT": str(listener.getsockname()[1]),
            "UDP": str(datagrams.getsockname()[1]),
            "DAEMON": str(daemon.pid),
        }
        yield World(workspace, outside, state, env, daemon, datagrams, metadata(outside / "moded"))
