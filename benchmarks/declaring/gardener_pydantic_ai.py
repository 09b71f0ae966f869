import asyncio

from pydantic_ai import Agent, DeferredToolRequests, UsageLimits

LIMITS = UsageLimits(tool_calls_limit=8)
gardener = Agent(
    name="gardener",
    instructions="You know plants and water them.",
    output_type=[str, DeferredToolRequests],
)


@gardener.tool_plain
def place_of(plant: str) -> str:
    """Say where a plant grows best."""
    return f"{plant}: in the sun"


@gardener.tool_plain(requires_approval=True)
def water(plant: str, litres: float = 1) -> str:
    """Water a plant."""
    return f"{plant} has water"


async def ask(text: str, model: str):
    async with asyncio.timeout(120):
        return await gardener.run(text, model=model, usage_limits=LIMITS)
