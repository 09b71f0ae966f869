from fastmcp import Context, FastMCP
from fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware

gardener = FastMCP("gardener", instructions="Knows plants and waters them.")
gardener.add_middleware(RateLimitingMiddleware(burst_capacity=8))


@gardener.tool(timeout=120)
def place_of(plant: str) -> str:
    """Say where a plant grows best."""
    return f"{plant}: in the sun"


@gardener.tool(timeout=120)
async def water(ctx: Context, plant: str, litres: float = 1) -> str:
    """Water a plant."""
    answer = await ctx.elicit(f"Water {plant}?", response_type=None)
    if answer.action != "accept":
        return "denied"
    return f"{plant} has water"
