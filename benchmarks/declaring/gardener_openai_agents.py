import asyncio

from agents import Agent, Runner, function_tool


@function_tool
def place_of(plant: str) -> str:
    """Say where a plant grows best."""
    return f"{plant}: in the sun"


@function_tool(needs_approval=True)
def water(plant: str, litres: float = 1) -> str:
    """Water a plant."""
    return f"{plant} has water"


gardener = Agent(
    name="gardener",
    instructions="You know plants and water them.",
    tools=[place_of, water],
)


async def ask(text: str):
    async with asyncio.timeout(120):
        return await Runner.run(gardener, text, max_turns=8)
