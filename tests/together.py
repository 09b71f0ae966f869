"""Rows of a table that mostly wait: tried at the same time, with the error of every row that fails."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import pytest

RowT = TypeVar("RowT")

AT_ONCE = 8
"""Enough that rows wait beside each other; more would keep each other waiting."""


async def together(
    attempt: Callable[[RowT], Awaitable[object]], rows: Mapping[str, RowT], at_once: int = AT_ONCE
) -> None:
    """Try every row, some of them at the same time; the error names the rows that failed."""
    if not rows:
        raise ValueError("a table without rows proves nothing")
    free, errors = asyncio.Semaphore(at_once), list[BaseException]()

    async def one(name: str, row: RowT) -> None:
        async with free:
            try:
                await attempt(row)
            except (Exception, pytest.fail.Exception) as error:
                error.add_note(f"row {name}")
                errors.append(error)

    await asyncio.gather(*(one(name, row) for name, row in rows.items()))
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of {len(rows)} rows", errors)
