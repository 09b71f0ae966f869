"""Check of the gateways that share a store on Postgres: whether all of them see the same folders."""

from goclaw.common.auth.users import Users
from goclaw.common.auth.workplaces import folders_of
from goclaw.common.config.load import Loaded
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.durable.store.open import postgres
from goclaw.errors import StateError
from goclaw.program.ops.doctor.base import Finding

REMEDY = "mount the same folder on both, or set `replica.workspaces: own` on all gateways"


async def check_gateways(loaded: Loaded) -> list[Finding]:
    """Put a file into each workspace and ask the running gateways for it; nothing where each has its own."""
    config = loaded.config
    if not isinstance(place := config.store_place, PostgresPlace) or config.replica.workspaces == "own":
        return []
    users = Users.read(config.users_path).all()
    try:
        unseen = await postgres().unseen_folders(place, lambda: folders_of(config, users), RealClock())
    except StateError:
        return []  # the check of the database says it
    if unseen:
        return [Finding("gateways", "warning", words, REMEDY) for words in unseen]
    return [Finding("gateways", "ok", "all running gateways see the same workspaces")]
