"""Python's `html`, without its table of 2,231 names of characters until a text has a reference to one: 0.5 MB."""

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

_TABLE = "html.entities"


class _Names(Mapping[str, str]):
    """The characters by name, as `html.entities.html5` has them."""

    def __contains__(self, name: object) -> bool:
        return name in self._loaded

    def __getitem__(self, name: str) -> str:
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    @property
    def _loaded(self) -> Mapping[str, str]:
        from html.entities import html5

        return html5


def import_html() -> ModuleType:
    """Import `html`; later imports find the same module.

    To be called before there are threads: another one that imports the table itself meanwhile would not find it.
    """
    if _TABLE in sys.modules:
        import html

        return html
    stand_in = ModuleType(_TABLE)
    stand_in.html5 = _Names()  # type: ignore[attr-defined]  # a module has what it is given
    sys.modules[_TABLE] = stand_in
    try:
        import html
    finally:
        del sys.modules[_TABLE]
    return html
