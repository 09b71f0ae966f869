"""Which way GoClaw was installed in, or why none that can be upgraded."""

import os
import sys
from pathlib import Path

from goclaw.common.core.container import daemon_command, is_gateway_container
from goclaw.errors import StateError
from goclaw.program.ops.upgrade.checkout import ENVIRONMENT, Checkout
from goclaw.program.ops.upgrade.installation import Installation, direct_url, installed, is_environment, tree
from goclaw.program.ops.upgrade.package import Package


def recognise() -> Installation:
    """Return the installation that this process runs from.

    Raises:
        StateError: it cannot be upgraded by a command; the message says what helps.
    """
    if is_gateway_container():
        raise StateError("GoClaw is part of this container's image: take the new image, outside (docs/docker.md)")
    prefix, place = environment(), tree()
    if root := checkout_root():
        return Checkout(root)
    if direct_url().get("dir_info", {}).get("editable"):
        raise StateError(
            f"GoClaw is an editable install of {place} in {prefix}, for developing it: `git pull` there, or run it by "
            f"{place / 'scripts' / 'run'}, whose `{ENVIRONMENT}` can be upgraded"
        )
    if installed() is None:
        raise StateError(f"GoClaw was not installed, it runs from {place}: put another version there by hand")
    if not is_environment():
        raise StateError(
            f"GoClaw is installed into the Python of {prefix}, which others use, too, so no new version can be tried "
            f"out beside it. Upgrade by hand: `goclaw backup FILE`, {daemon_command('stop')}, "
            f"`pip install --upgrade goclaw`, {daemon_command('start')}; or install it anew with "
            "`uv tool install goclaw`, `pipx install goclaw` or into a virtual environment"
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
