"""Tables of cases: one test that tries every row and reports all rows that fail."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., Any]
PER_CASE = ("tmp_path", "monkeypatch")
"""Fixtures of which every row gets one of its own; all others are shared by the rows."""


def table(
    names: str, rows: Iterable[Any], ids: Iterable[str] | Callable[[Any], object] | None = None
) -> Callable[[Test], Test]:
    """Run a test once per row, like `pytest.mark.parametrize`, but as one test.

    For tables of thirty rows and more, where collecting and reporting each row would take longer than running it.
    Every row is tried; the error names the rows that failed. `tmp_path` and `monkeypatch` are a row's own.

    Args:
        names: the arguments that a row fills, separated by commas.
        rows: one value per row, or a sequence of values where there are several names; `pytest.param` for its id.
        ids: a name for each row, or a function from a row's first value to its name.
    """
    wanted = [name.strip() for name in names.split(",")]
    cases = dict(_cases(wanted, list(rows), ids))
    if not cases:
        raise ValueError("a table without rows proves nothing")

    def decorate(test: Test) -> Test:
        return _over_coroutine(test, cases) if inspect.iscoroutinefunction(test) else _over_function(test, cases)

    return decorate


def _cases(names: Sequence[str], rows: Sequence[Any], ids: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each row and the arguments that it fills."""
    given = None if ids is None or callable(ids) else list(ids)
    if given is not None and len(given) != len(rows):
        raise ValueError(f"{len(rows)} rows have {len(given)} ids")
    for number, row in enumerate(rows):
        named = given[number] if given else None
        if isinstance(row, type(pytest.param())):
            if row.marks:
                raise ValueError("a row of a table has no marks of its own")
            named, row = named or row.id, row.values if len(names) > 1 else row.values[0]
        values = dict(zip(names, row if len(names) > 1 else (row,), strict=True))
        label = named or (ids(next(iter(values.values()))) if callable(ids) else None) or _short(values)
        yield f"{number}: {label}", values


def _short(values: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return text if len(text) < 200 else f"{text[:200]}…"


def _over_function(test: Test, cases: Mapping[str, Mapping[str, Any]]) -> Test:
    @wraps(test)
    def run(**fixtures: Any) -> None:
        failures = Failures(len(cases))
        for number, (name, values) in enumerate(cases.items()):
            with failures.of(name), _own(fixtures, number) as given:
                test(**given, **values)
        failures.raised()

    return _signed(run, test, cases)


def _over_coroutine(test: Test, cases: Mapping[str, Mapping[str, Any]]) -> Test:
    @wraps(test)
    async def run(**fixtures: Any) -> None:
        failures = Failures(len(cases))
        for number, (name, values) in enumerate(cases.items()):
            with failures.of(name), _own(fixtures, number) as given:
                await test(**given, **values)
        failures.raised()

    return _signed(run, test, cases)


@contextmanager
def _own(fixtures: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Yield the fixtures with what belongs to this row alone."""
    given = dict(fixtures)
    if folder := fixtures.get("tmp_path"):
        given["tmp_path"] = Path(folder) / f"row{number}"
        given["tmp_path"].mkdir()
    if "monkeypatch" not in fixtures:
        yield given
        return
    with pytest.MonkeyPatch.context() as patch:
        yield given | {"monkeypatch": patch}


class Failures:
    """The errors of the rows so far; also for a loop whose rows share what is dear to make."""

    def __init__(self, total: int) -> None:
        self._total, self._errors, self._skipped = total, list[BaseException](), list[str]()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Keep the error of this row; a time limit of the whole test is not one of them."""
        try:
            yield
        except pytest.skip.Exception as skipped:
            self._skipped.append(str(skipped))
        except (Exception, pytest.fail.Exception) as error:
            if "Timeout" in str(error) and isinstance(error, pytest.fail.Exception):
                raise
            error.add_note(f"row {name}")
            self._errors.append(error)

    def raised(self) -> None:
        """Raise what was kept."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise BaseExceptionGroup(f"{len(self._errors)} of {self._total} rows", self._errors)
        if len(self._skipped) == self._total:
            pytest.skip(self._skipped[0])


def _signed(run: Test, test: Test, cases: Mapping[str, Mapping[str, Any]]) -> Test:
    """Show pytest only the fixtures, not what a row fills."""
    filled = next(iter(cases.values()))
    signature = inspect.signature(test)
    left = [each for name, each in signature.parameters.items() if name not in filled]
    run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # read by inspect
    return run
