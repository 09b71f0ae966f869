"""One-file plugins, as people write them."""

from pathlib import Path

TOOL = '''\
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool


@tool(side_effect=SideEffect.NONE)
async def {name}(ctx: ToolContext) -> str:
    """Come from a file."""
    return "{says}"
'''
DECLARED = """\
from goclaw.declare import SideEffect, agent, args, attribute, bind_to, required, returns, tool, toolset, use


async def place_of(plant: str) -> str:
    return "in the shade"


PLACE = tool(
    "place_of_plant",
    "Say where a plant grows.",
    args(attribute("plant", str, "Its name"), required("plant")),
    returns(str),
    bind_to(place_of, side_effect=SideEffect.READ_ONLY),
)
BEDS = toolset("garden.beds", PLACE)
GARDENER = agent("gardener", "Knows plants.", use(BEDS))
"""


def put(path: Path, text: str, mode: int = 0o644) -> Path:
    """Put a file in the place of what is there, as an editor does."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.replace(path)
    return path


def own(folder: Path) -> Path:
    """Make a folder that others may not write to."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)  # whatever the umask is
    return folder
