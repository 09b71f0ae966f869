"""Which way GoClaw was installed in, or why none that can be upgraded."""

import os
import sys
from pathlib import Path

from goclaw.common.core.container import daemon_command, is_gateway_container
from goclaw.errors import StateError
from goclaw.program.ops.upgrade.checkout import ENVIRONMENT, Checkout
from goclaw.program.ops.upgrade.installation import Installation, direct_url, find_metadata, is_environment, tree
from goclaw.program.ops.upgrade.package import Package


def recognise() -> Installation:
    """Return the installation that this process runs from.

    Raises:
        StateError: it cannot be upgraded by a command; the message says what helps.
    """
    if is_gateway_container():
        raise StateError("GoClaw is part of this container's image: pull the new image outside of it (docs/docker.md)")
    prefix, place = environment(), tree()
    if root := checkout_root():
        return Checkout(root)
    if direct_url().get("dir_info", {}).get("editable"):
        raise StateError(
            f"GoClaw is an editable install of {place} in {prefix}, for development: run `git pull` there, or start it "
            f"with {place / 'scripts' / 'run'}, whose `{ENVIRONMENT}` can be upgraded"
        )
    if find_metadata() is None:
        raise StateError(f"GoClaw is not installed; it runs from {place}: put another version there by hand")
    if not is_environment():
        raise StateError(
            f"GoClaw is installed in the shared Python of {prefix}, so a new version cannot be tested next to it. "
            f"Upgrade by hand: `goclaw backup FILE`, {daemon_command('stop')}, `pip install --upgrade goclaw`, "
            f"{daemon_command('start')}; or reinstall it with `uv tool install goclaw`, `pipx install goclaw` or in a "
            "virtual environment"
        )
    return Package(prefix)


def environment() -> Path:
    """Return the folder of the environment that this process runs from, no link in its path."""
    return Path(os.path.realpath(sys.prefix))


def checkout_root() -> Path | None:
    """Return the checkout that has the `.venv` this process runs from; None: it runs from another environment."""
    prefix = environment()
    root = prefix.parent
    is_ours = prefix.name == ENVIRONMENT and (root / "scripts" / "_bootstrap.py").exists() and (root / ".git").exists()
    return root if is_ours else None
