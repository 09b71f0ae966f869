"""The greeting of a client: which model answers, what is missing, and the one command that adds it.

At most four lines; one where nothing is missing.
"""

from goclaw.config.schema import Config
from goclaw.sandbox.base import NONE, Sandbox
from goclaw.sessions.models import Models
from goclaw.users import Users

SETUP = "`goclaw setup`"
NO_MODEL = "Model: demo. No AI is connected."
NO_TELEGRAM = "Telegram: not connected."
NOBODY = "Telegram: nobody is listed in users.json, so nobody is answered."
NO_COMMANDS = "Commands: refused, because nothing here can contain them; `goclaw doctor` says what helps."


def greeting(models: Models, config: Config, users: Users, sandbox: Sandbox) -> str:
    """Return the lines as things are now; what is still being looked for counts as there."""
    model, lacks_model = _model(models, config)
    telegram = _telegram(config, users)
    lines = [model, *([telegram] if telegram else []), *([NO_COMMANDS] if sandbox.tier == NONE else [])]
    wanted = [*(["a model"] if lacks_model else []), *(["Telegram"] if telegram else [])]
    return "\n".join([*lines, *([f"{SETUP} connects {' and '.join(wanted)}."] if wanted else [])])


def _model(models: Models, config: Config) -> tuple[str, bool]:
    """Describe the model that answers, and whether it is missing, failed or an unwanted demo."""
    if models.is_demo and not (config.models.agent or config.agents.main.model):
        return NO_MODEL, True
    return models.sentence.partition("\n")[0], models.failed


def _telegram(config: Config, users: Users) -> str:
    """Describe what is missing for Telegram; empty where nothing is, or where Telegram is switched off."""
    if config.telegram.enabled is False:
        return ""
    if config.telegram.token is None:
        return NO_TELEGRAM
    return "" if any(user.key.startswith("telegram:") for user in users.all()) else NOBODY
