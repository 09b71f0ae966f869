"""A `systemctl` and a `loginctl` for PATH: they write down how they were called, and say what a test wants."""

import os
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = """#!/bin/sh
here={folder}
echo "{name} $*" >> "$here/calls"
test -e "$here/no-bus" && {{ echo 'Failed to connect to bus: No medium found' >&2; exit 1; }}
case "$*" in
    *show-environment*) cat "$here/environment" 2>/dev/null ;;
    *show-user*) cat "$here/linger" 2>/dev/null || echo no ;;
    *"show goclaw.service"*) cat "$here/properties" 2>/dev/null ;;
    *"show --property=Version"*) echo Version=252 ;;
    *) test ! -e "$here/failing" || {{ cat "$here/failing" >&2; exit 1; }} ;;
esac
exit 0
"""


@dataclass(frozen=True)
class FakeSystemd:
    """What the two programs do and did."""

    folder: Path

    @property
    def path(self) -> str:
        """For the variable PATH."""
        return f"{self.folder}{os.pathsep}/usr/bin{os.pathsep}/bin"

    @property
    def calls(self) -> list[str]:
        """Each call that changes something, oldest first, without the words that are always the same."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.removeprefix("systemctl --user ") for line in lines if " show" not in line]

    def has(self, **properties: object) -> None:
        """Let the unit have these properties."""
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        (self.folder / "properties").write_text(text)

    def gives(self, **environment: str) -> None:
        """Let services get these variables."""
        (self.folder / "environment").write_text("".join(f"{name}={value}\n" for name, value in environment.items()))

    def lingers(self) -> None:
        """Let the user's manager run without a login."""
        (self.folder / "linger").write_text("yes\n")

    def fails(self, words: str) -> None:
        """Refuse whatever would change something."""
        (self.folder / "failing").write_text(words)

    def works_again(self) -> None:
        """After `fails`."""
        (self.folder / "failing").unlink()

    def vanishes(self) -> None:
        """Be out of reach, as without a login session."""
        (self.folder / "no-bus").touch()


def fake_systemd(folder: Path) -> FakeSystemd:
    """Make both programs in this folder."""
    folder.mkdir()
    for name in ("systemctl", "loginctl"):
        program = folder / name
        program.write_text(_PROGRAM.format(folder=folder, name=name))
        program.chmod(0o755)
    return FakeSystemd(folder)
