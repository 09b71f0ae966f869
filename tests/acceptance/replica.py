"""`python -m tests.acceptance.replica … gateway`: the very same daemon, which shares its schema with others.

No setting says so yet: what is left of the work on several processes stands in `docs/architecture.md`.
"""

from collections.abc import Callable
from dataclasses import replace

from pydantic import SecretStr

from goclaw.cli.program import main
from goclaw.config.values import PostgresPlace


def sharing(of: Callable[..., PostgresPlace]) -> Callable[..., PostgresPlace]:
    """Have every place that is taken from a configuration shared."""

    def place_of(address: str, password: SecretStr | None = None) -> PostgresPlace:
        return replace(of(address, password), shared=True)

    return place_of


if __name__ == "__main__":
    PostgresPlace.of = staticmethod(sharing(PostgresPlace.of))  # type: ignore[method-assign]  # the test's own
    main()
