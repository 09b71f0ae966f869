"""The filter as data: numbers against the kernel's own headers, and its answers in a small interpreter."""

import errno
import re
import struct
from pathlib import Path

import pytest

from goclaw.tools.execution.sandbox import seccomp

HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0),
    "aarch64": ("/usr/include/asm-generic/unistd.h", 1),
}
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
NOTIFY = 0x7FC00000


def answer(program: bytes, machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the kernel would answer: an interpreter of the five instructions that the filter uses."""
    data = struct.pack("=IIQ6Q", number, arch or ARCH[machine], 0, *arguments, *([0] * (6 - len(arguments))))
    instructions: list[tuple[int, int, int, int]] = list(struct.iter_unpack("=HBBI", program))
    accumulator = at = 0
    while True:
        code, when_true, when_false, value = instructions[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
        at += when_true if holds else when_false


def numbers() -> dict[str, tuple[int | None, int | None]]:
    tables = (seccomp._ONLY_ON_ITSELF, seccomp._MODES, seccomp._SIGNALS)
    with_argument = {name: found for table in tables for name, (found, _) in table.items()}
    plain = seccomp._ALWAYS_REFUSED | seccomp._REFUSED_AMONG_STRANGERS | seccomp._NOT_IMPLEMENTED
    single = {"clone": seccomp._CLONE, "socket": seccomp._SOCKET, "ioctl": seccomp.IOCTL, "fcntl": seccomp._FCNTL}
    return plain | with_argument | seccomp.METADATA | single


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_the_kernel_s(machine: str) -> None:
    path, column = HEADERS[machine]
    if not Path(path).exists():
        pytest.skip(f"no kernel headers at {path}")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(path).read_text()))

    checked = {name: found[column] for name, found in numbers().items() if name in defined}

    assert len(checked) > 60
    assert checked == {name: int(defined[name]) for name in checked}


@pytest.mark.parametrize("machine", ARCH)
def test_each_call_gets_its_answer(machine: str) -> None:
    column = 0 if machine == "x86_64" else 1
    known = {name: found[column] or 0 for name, found in numbers().items()}
    program = seccomp.build((2, 10), among_strangers=True, protected=[77], machine=machine)

    def ask(name: str, *arguments: int) -> int:
        return answer(program, machine, known[name], *arguments)

    assert ask("mount") == ask("ptrace") == ask("io_uring_setup") == ask("shmget") == EPERM
    assert ask("clone3") == ask("openat2") == ENOSYS
    assert (ask("clone", 17), ask("clone", 0x10000000 | 17)) == (ALLOW, EPERM)
    assert (ask("socket", 2), ask("socket", 1), ask("socket", 40)) == (ALLOW, EPERM, EPERM)
    assert (ask("ioctl", 0, 0x5401), ask("ioctl", 0, 0x5412)) == (ALLOW, EPERM)
    assert (ask("mknodat", 3, 0, 0o755), ask("mknodat", 3, 0, 0o4755)) == (ALLOW, EPERM)
    assert (ask("prlimit64", 0), ask("prlimit64", 77)) == (ALLOW, EPERM)
    assert (ask("kill", 78), ask("kill", 77), ask("kill", 0xFFFFFFFF), ask("kill", -77 & 0xFFFFFFFF)) == (
        ALLOW,
        EPERM,
        EPERM,
        EPERM,
    )
    owners = (78, 77, -77 & 0xFFFFFFFF)
    assert [ask("fcntl", 3, 8, owner) for owner in owners] == [ALLOW, EPERM, EPERM]
    assert (ask("fcntl", 3, 15), ask("fcntl", 3, 4, 77), ask("ioctl", 3, 0x8901)) == (EPERM, ALLOW, EPERM)
    assert answer(program, machine, 0, arch=1) == KILL
    if machine == "x86_64":
        assert answer(program, machine, 0x40000000 | 41, 1) == ENOSYS


@pytest.mark.promise("P-exec-contained")
@pytest.mark.parametrize("machine", ARCH)
@pytest.mark.parametrize(
    ("among_strangers", "listened", "expected"), [(True, True, NOTIFY), (True, False, EPERM), (False, False, ALLOW)]
)
def test_calls_that_change_metadata_wait_for_the_listener_or_are_refused(
    machine: str, among_strangers: bool, listened: bool, expected: int
) -> None:
    """In bubblewrap mounts hold them; and nothing hides in the upper half of an argument."""
    column = 0 if machine == "x86_64" else 1
    program = seccomp.build((), among_strangers=among_strangers, listened=listened, machine=machine)
    calls = {name: found[column] for name, found in seccomp.METADATA.items() if found[column] is not None}
    assert {name: answer(program, machine, number or 0) for name, number in calls.items()} == dict.fromkeys(
        calls, expected
    )
    ioctl = seccomp.IOCTL[column] or 0
    changes = [0x40086602, 0x401C5820, (1 << 32) | 0x40086602]
    assert [answer(program, machine, ioctl, 3, command) for command in changes] == [expected] * 3
    refused = [] if expected == ALLOW else [EPERM]
    assert {answer(program, machine, ioctl, 3, command) for command in seccomp._REFUSED_ATTRIBUTES} == {
        *(refused or [ALLOW])
    }
    assert answer(program, machine, ioctl, 3, 0x5401) == ALLOW
    assert answer(program, machine, calls["fchmod"] or 0, 3, 0o4755) == EPERM


@pytest.mark.parametrize("machine", ARCH)
def test_calls_that_are_newer_than_the_filter_do_not_exist(machine: str) -> None:
    """One of them may change what none of those known here can."""
    program = seccomp.build((), among_strangers=True, machine=machine)
    assert {answer(program, machine, number) for number in (470, 471, 600, 0xFFFF)} == {ENOSYS}
    newest = max(numbers()[name][0] or 0 for name in seccomp.METADATA)
    assert newest == 469, "judge the calls since then, too"


def test_the_upper_half_of_an_argument_hides_nothing() -> None:
    program = seccomp.build((2,), among_strangers=False, machine="x86_64")

    assert answer(program, "x86_64", 41, (1 << 32) | 40) == EPERM
    assert answer(program, "x86_64", 16, 0, (1 << 32) | 0x5412) == EPERM


def test_another_processor_is_refused_in_words() -> None:
    with pytest.raises(seccomp.UnsupportedArchitecture, match="riscv64: only x86-64 and aarch64"):
        seccomp.build((), among_strangers=True, machine="riscv64")
