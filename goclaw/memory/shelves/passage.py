"""A passage as it is written to a shelf."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """A row of `<shelf>_passages`; see `schema` for the columns."""

    place: int
    text: str
    told: float
    words: int
    extra: str
    parts: str
    row: int = 0
    turn: str = ""
    first: int = 0
    last: int = 0
    speaker: str = ""
    asks: bool = False
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """A row of `<shelf>_units`: what gets one vector."""

    first: int
    last: int
    text: str
