"""The causes why this machine refuses namespaces, read from its settings, and their remedies."""

from pathlib import Path

_APPARMOR = (
    "AppArmor refuses user namespaces to programs without a profile "
    "(kernel.apparmor_restrict_unprivileged_userns is 1): write `abi <abi/4.0>, include <tunables/global> profile "
    "bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` into /etc/apparmor.d/bwrap and run "
    "`apparmor_parser -r /etc/apparmor.d/bwrap`"
)
_FOR_EVERYBODY = {
    "proc/sys/user/max_user_namespaces": (
        "0",
        "user namespaces are switched off (user.max_user_namespaces is 0): `sysctl user.max_user_namespaces=10000`",
    ),
}
_FOR_PLAIN_USERS = {
    "proc/sys/kernel/unprivileged_userns_clone": (
        "0",
        "only root may make user namespaces (kernel.unprivileged_userns_clone is 0): "
        "`sysctl kernel.unprivileged_userns_clone=1`",
    ),
    "proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("1", _APPARMOR),
}
_OF_CONTAINERS = (".dockerenv", "run/.containerenv")
_CONTAINER = (
    "this is a container, whose profile usually forbids namespaces: leave it so, the broker is the tier for containers"
)


def cause(*, privileged: bool, root: Path = Path("/")) -> str:
    """Return a sentence with cause and remedy; empty when the machine gives no hint.

    Args:
        privileged: whether this is root, for whom some of the switches do not count.
        root: where `/proc` and the marks of a container are looked for.
    """
    for name, (value, sentence) in (_FOR_EVERYBODY if privileged else _FOR_EVERYBODY | _FOR_PLAIN_USERS).items():
        try:
            found = (root / name).read_text().strip()
        except OSError:
            continue  # this kernel has no such switch
        if found == value:
            return sentence
    return _CONTAINER if any((root / name).exists() for name in _OF_CONTAINERS) else ""
