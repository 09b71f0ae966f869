"""Files in the database: a change replaces the version that it was made from, or none."""

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.database import ConstraintViolated
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.stored_files import StoredFiles, stored_file


@pytest.mark.promise("P-store-files")
async def test_a_version_that_is_not_there_any_more_is_not_replaced(place: PostgresPlace) -> None:
    first, second, third = (stored_file(data, 0o600, 1.0) for data in (b"1", b"2", b"3"))
    async with open_database(place) as database:
        files = StoredFiles(database)
        await files.put("users.json", None, first, b"1")
        await files.put("users.json", first.sha256, second, b"2")
        for known in (None, first.sha256):
            with pytest.raises(ConstraintViolated):
                await files.put("users.json", known, third, b"3")
        with pytest.raises(ConstraintViolated):
            await files.append("users.json", first.sha256, third, 1, b"3")
        await files.remove("users.json", first.sha256)
        assert await files.data("users.json", second) == b"2"
        with pytest.raises(ConstraintViolated, match="was replaced or removed meanwhile"):
            await files.data("users.json", first)
