"""A check that the operator's hooks can be called: a guard that cannot run guards nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from goclaw.config.load import Loaded
from goclaw.doctor.base import Finding
from goclaw.errors import HookFailed
from goclaw.hooks.commands import program_of
from goclaw.hooks.open import of_packages
from goclaw.redact import mask


async def check_hooks(loaded: Loaded) -> list[Finding]:
    """Return a line for each hook that cannot be called, and one that counts the others; nothing without hooks."""
    return await asyncio.to_thread(lambda: list(_looked_at(loaded)))


def _looked_at(loaded: Loaded) -> Iterator[Finding]:
    config, works = loaded.config, []
    for index, hook in enumerate(config.hooks):
        try:
            program_of(hook, config.workspace_path)
        except HookFailed as error:
            remedy = f"mend `hooks[{index}].command` ({loaded.origin(('hooks', index, 'command'))})"
            yield Finding("hooks", "problem", mask(f"{hook.label}: {error}"), remedy)
        else:
            works.append(f"{mask(hook.label)} ({', '.join(hook.on)})")
            script = next(iter(hook.command[1:]), "")
            if script.startswith("/") and not Path(script).exists():
                place = f"`hooks[{index}].command` ({loaded.origin(('hooks', index, 'command'))})"
                words = mask(f"{hook.label}: there is no {script}")
                yield Finding("hooks", "warning", words, f"put it there, or mend {place}")
    for name, registered, trouble in of_packages():
        if trouble:
            yield Finding("hooks", "problem", trouble, "update or uninstall the package that brings it")
        else:
            works.append(f"{name} ({', '.join(sorted(registered.points))}, of a package)")
    if works:
        yield Finding("hooks", "ok", "; ".join(works))
