"""A library is imported as if an extra of it were not installed."""

import ssl
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from goclaw.common.core.extras import certificates_for_checks, import_apart, standing_in, undocumented, without


def test_a_hidden_module_cannot_be_imported_inside_the_block_and_can_be_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    with without("colorsys"):
        assert sys.modules["colorsys"] is colorsys, "what is imported already stays"


def test_a_stand_in_is_found_inside_the_block_and_the_module_itself_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with standing_in("colorsys", hue="none"):
        from colorsys import hue  # type: ignore[attr-defined]  # the stand-in's
    assert hue == "none"
    import colorsys

    assert colorsys.rgb_to_hsv(1, 1, 1) == (0, 0, 1)
    with standing_in("colorsys", hue="none"):
        assert sys.modules["colorsys"] is colorsys, "what is imported already stays"


def test_a_library_that_was_imported_apart_is_whole_for_whoever_imports_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "odd_library"
    package.mkdir()
    (package / "__init__.py").write_text("from odd_library.heavy import WEIGHT\n")
    (package / "heavy.py").write_text("WEIGHT = 100\n")
    monkeypatch.syspath_prepend(tmp_path)
    with import_apart("odd_library"), standing_in("odd_library.heavy", WEIGHT=0):
        ours = import_module("odd_library")
    assert ours.WEIGHT == 0 and not [name for name in sys.modules if name.startswith("odd_library")]
    with import_apart("odd_library_2"):
        whole = import_module("odd_library")
    assert whole.WEIGHT == 100 and sys.modules["odd_library"] is whole
    with import_apart("odd_library"), standing_in("odd_library.heavy", WEIGHT=0):
        assert import_module("odd_library") is whole, "what is imported already stays"
    assert sys.modules["odd_library"] is whole
    for name in ("odd_library", "odd_library.heavy"):
        monkeypatch.delitem(sys.modules, name)


DOCUMENTED = '''
"""Module."""
class Outer:
    """Class."""
    class Inner:
        def method(self):
            """Method."""
            return "Method"
    name = "Class."
def plain():
    """Function."""
    def nested():
        """Nested."""
        return [text + "!" for text in ("a", "b")], (lambda: "lambda")(), list("gen" for _ in range(2))
    return nested
def same():
    """Said twice."""
    return "Said twice."
def bare():
    return "no docstring"
async def coroutine():
    """Coroutine."""
    yield "value"
'''


@pytest.fixture
def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with docstrings in all places."""
    name = "module_with_docstrings"
    (tmp_path / f"{name}.py").write_text(DOCUMENTED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_what_is_imported_inside_loses_its_docstrings_and_nothing_else(documented: str) -> None:
    with undocumented(documented):
        module = import_module(documented)
    nested = module.plain()
    method = module.Outer.Inner.method
    for each in (module, module.Outer, method, module.plain, nested, module.bare, module.coroutine):
        assert each.__doc__ is None
    assert nested() == (["a!", "b!"], "lambda", ["gen", "gen"])
    assert (method(None), module.bare(), module.Outer.name) == ("Method", "no docstring", "Class.")
    assert module.same() == "Said twice.", "a text that the function also uses stays"
    assert [line for *_, line in nested.__code__.co_lines()][-1] == 14, "tracebacks name the same lines"


TYPED = """
class Outer:
    field: int = 1
    def method(self, given: int) -> int:
        return given
    @classmethod
    def of_class(cls, given: int) -> int:
        return given
    @staticmethod
    def of_none(given: int = 2) -> int:
        return given
def plain(given: int) -> int:
    return given
"""


def test_functions_and_methods_lose_their_annotations_where_asked_and_classes_keep_theirs(
    documented: str, tmp_path: Path
) -> None:
    (tmp_path / f"{documented}.py").write_text(TYPED)
    with undocumented(documented):
        assert import_module(documented).plain.__annotations__ == {"given": int, "return": int}
    del sys.modules[documented]
    with undocumented(documented, untyped=True):
        module = import_module(documented)
    outer = module.Outer
    for function in (module.plain, outer.method, outer.of_class, outer.of_none):
        assert function.__annotations__ == {}
    assert (module.plain(1), outer().method(1), outer.of_class(1), outer.of_none()) == (1, 1, 1, 2)
    assert outer.__annotations__ == {"field": int}, "what dataclasses and their like are made from"


def test_other_modules_and_later_imports_keep_their_docstrings(documented: str) -> None:
    with undocumented(documented, but=[documented]):
        assert import_module(documented).plain.__doc__ == "Function."
    del sys.modules[documented]
    with undocumented("another"):
        assert import_module(documented).plain.__doc__ == "Function."
    del sys.modules[documented]
    with undocumented(documented):
        pass
    assert import_module(documented).Outer.__doc__ == "Class."


def test_a_finder_of_another_keeps_its_turn(documented: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Another:
        find_spec = staticmethod(PathFinder.find_spec)

    monkeypatch.setattr(sys, "meta_path", [Another, *sys.meta_path])
    with undocumented(documented):
        assert import_module(documented).plain.__doc__ == "Function."


CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUKgSfxIDFw5O1dbLE9R6RkpNjkgwwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjMyMzI2NDNaGA8yMTI2MTAzMDIzMjY0
M1owDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABN6B
oR85B/t3pK3hs5tw6KXl+yxVOxYzPPSDm09F5/F8WXQyAz0DzRbXXJvR5gDdE0MM
tN2vFW301Hd/CsVDaRWjUzBRMB0GA1UdDgQWBBQ3Hd6MjG1zUmIF6qsLwe2bgHjc
vzAfBgNVHSMEGDAWgBQ3Hd6MjG1zUmIF6qsLwe2bgHjcvzAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIHRpmEr6H9epb9ZUSxo7q9atTPCGO5oaV3gq
eiTCjBKrAiEAiUHmNcOWakEkHXidrE3mAN69mtWs5iHHQk96vrr08/A=
-----END CERTIFICATE-----
"""


def test_a_context_that_checks_no_certificate_loads_none_inside_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "system.pem").write_text(CERTIFICATE)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))

    def loaded(*, checks: bool) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = checks
        context.verify_mode = ssl.CERT_REQUIRED if checks else ssl.CERT_NONE
        context.set_default_verify_paths()
        return context.cert_store_stats()["x509"]

    with certificates_for_checks():
        assert (loaded(checks=True), loaded(checks=False)) == (1, 0)
        assert ssl.create_default_context().cert_store_stats()["x509"] == 1
    assert loaded(checks=False) == 1
