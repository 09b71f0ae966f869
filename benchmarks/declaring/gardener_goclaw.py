from goclaw.declare import RunPolicy, agent, tool


def place_of(plant: str) -> str:
    """Say where a plant grows best."""
    return f"{plant}: in the sun"


@tool(confirm="Water {{ plant }}?")
def water(plant: str, litres: float = 1) -> str:
    """Water a plant."""
    return f"{plant} has water"


GARDENER = agent(
    "gardener",
    "Knows plants and waters them.",
    uses=[place_of, water],
    policy=RunPolicy(max_tool_calls=8, time_budget="2m"),
)
