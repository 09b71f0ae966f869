"""The keys of `agents`: what agents are told and given."""

from pydantic import Field

from goclaw.config.section import Section


class AgentsSettings(Section):
    """Agents."""

    quickstart: bool = Field(
        True,
        description="Whether `AGENTS_QUICKSTART.md` in a workspace tells who comes there which tools there are; a file "
        "of your own is never replaced.",
    )
