"""The manifest of an archive: the hash of every file, and the allowed names of its members."""

import os
from dataclasses import dataclass, field

from goclaw import __version__
from goclaw.codec import Codec
from goclaw.records import record

FORMAT = 1
MANIFEST = "manifest.json"
"""The last member: it is written when all hashes are known."""
DATABASE, REGISTRIES, MEDIA, CONFIG, USERS, SECRETS, WORKSPACE, WORKSPACES = (
    "goclaw.db",
    "registry.db",
    "media",
    "config.yaml",
    "users.json",
    "secrets",
    "workspace",
    "workspaces",
)
"""Members and folders at the top of an archive. The last holds a folder for each workspace that only a user has."""
MAX_NAME = 4_096
"""PATH_MAX of Linux."""


@record
class ArchiveMember:
    """One file of the archive."""

    size: int
    sha256: str


@dataclass(slots=True)
class Manifest:
    """The content of an archive and the time when it was made."""

    made_at: float
    schema: int
    """The version of the database."""
    format: int = FORMAT
    goclaw: str = __version__
    members: dict[str, ArchiveMember] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Symbolic links by name, with what they point to: made last, so that nothing is ever written through one."""
    own_workspaces: dict[str, str] = field(default_factory=dict)
    """Folders below `workspaces`, each with the key of the user whose own workspace it is."""
    config_without: list[str] = field(default_factory=list)
    """Keys of the configuration whose secrets were left out."""

    def within(self, folder: str) -> list[ArchiveMember]:
        """Return the files below a folder of the archive."""
        return [member for name, member in self.members.items() if name.startswith(f"{folder}/")]


CODEC: Codec[Manifest] = Codec(Manifest)


def is_plain(name: str) -> bool:
    """Whether a name leads downwards, step by step, and nowhere else."""
    return 0 < len(name) <= MAX_NAME and "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def as_text(name: str) -> str:
    """Return a file's name for the manifest: bytes that are no UTF-8 are written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
