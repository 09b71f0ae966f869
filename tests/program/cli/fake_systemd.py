"""A `systemctl`, a `loginctl` and a `journalctl` for PATH: they note their calls, and say what a test wants."""

import os
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = """#!/bin/sh
here={folder}
echo "{name} $*" >> "$here/calls"
test -e "$here/no-bus" && {{ echo 'Failed to connect to bus: No medium found' >&2; exit 1; }}
test {name} = journalctl && {{ cat "$here/journal" 2>/dev/null; exit 0; }}
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
        changing = [line for line in lines if " show" not in line and not line.startswith("journalctl")]
        return [line.removeprefix("systemctl --user ") for line in changing]

    def has(self, **properties: object) -> None:
        """Let the unit have these properties."""
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        (self.folder / "properties").write_text(text)

    def gives(self, **environment: str) -> None:
        """Let services get these variables."""
        (self.folder / "environment").write_text("".join(f"{name}={value}\n" for name, value in environment.items()))

    def writes(self, lines: str) -> None:
        """Have these lines in the journal of the unit."""
        (self.folder / "journal").write_text(lines)

    def journal_calls(self) -> list[str]:
        """Each call of `journalctl`, oldest first."""
        return [line for line in (self.folder / "calls").read_text().splitlines() if line.startswith("journalctl")]

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
    """Make the programs in this folder."""
    folder.mkdir()
    for name in ("systemctl", "loginctl", "journalctl"):
        program = folder / name
        program.write_text(_PROGRAM.format(folder=folder, name=name))
        program.chmod(0o755)
    return FakeSystemd(folder)
