"""The keys of `tools.tasks` and `tools.ssh`."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from goclaw.config.section import Section
from goclaw.config.values import Folder, Host

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_HOST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_EXPANDED = re.compile(r"""[%$"'\\~#\s]""")
"""Characters that `ssh` expands in file names."""


def _plain(path: Path) -> Path:
    if found := _EXPANDED.search(str(path)):
        raise ValueError(f"holds {found.group()!r}, which ssh reads as something else: choose another place")
    return path


SshFile = Annotated[Folder, AfterValidator(_plain)]


class TasksSettings(Section):
    """Commands in the background."""

    per_session: int = Field(8, ge=0, le=100, description="How many may run at once in one conversation; 0: none.")
    total: int = Field(32, ge=0, le=1_000, description="How many may run at once in all.")
    minutes: float = Field(60, gt=0, le=10_080, description="How long one may run; a call may ask for less.")
    output_mb: int = Field(16, ge=1, le=1_024, description="How much of what one says is kept.")


class SshHost(Section):
    """One host."""

    host: Host = Field(description="Name or address.", examples=["web1.example.org"])
    port: int = Field(22, ge=1, le=65_535, description="Port of its sshd.")
    user: str = Field(description="As whom commands run there.", examples=["deploy"])
    identity_file: SshFile = Field(
        description="Private key without a passphrase, outside of every workspace.", examples=["/etc/goclaw/ssh/web1"]
    )
    known_hosts: SshFile = Field(
        description="File with the host's key (`ssh-keyscan`, compared by a person).",
        examples=["/etc/goclaw/ssh/known_hosts"],
    )

    @field_validator("user")
    @classmethod
    def _is_a_name(cls, user: str) -> str:
        if not _USER.fullmatch(user):
            raise ValueError("should be the name of a user: letters, digits, `_`, `.` and `-`")
        return user


class SshSettings(Section):
    """The `ssh_exec` tool."""

    hosts: dict[str, SshHost] = Field(
        default_factory=dict, description="Where commands may be run over ssh, by the name that the model uses."
    )

    @field_validator("hosts")
    @classmethod
    def _have_names(cls, hosts: dict[str, SshHost]) -> dict[str, SshHost]:
        for name in hosts:
            if not _HOST_ID.fullmatch(name):
                raise ValueError(f"`{name}` should be a name of letters, digits, `_`, `.` and `-`")
        return hosts
