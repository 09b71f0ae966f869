"""The doctor's check of publications in registries: whether they are possible, and their address."""

from goclaw.config.load import Loaded
from goclaw.config.publishing import hindrances, public_address
from goclaw.doctor.base import Finding


async def check_publishing(loaded: Loaded) -> list[Finding]:
    """Return a finding for each hindrance, else one with the address; no findings without publications."""
    config = loaded.config
    if not config.publications:
        return []
    if found := list(hindrances(config)):
        return [Finding("publishing", "warning", f"{place}: {why}", "docs/registries.md") for place, why in found]
    sets = ", ".join(f"{each.name} to {' and '.join(each.settings.publish_to)}" for each in config.publications)
    return [Finding("publishing", "ok", f"{sets}; others are told {public_address(config)}")]
