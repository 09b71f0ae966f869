"""Imports of libraries without their extras: modules that they import where installed, and that the daemon never uses.

A library that can do without another one catches the ImportError; it gets one although the other is installed. Where it
cannot, a stand-in takes the place of its module that needs the other one. Docstrings are extras, too.
"""

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from opcode import hasconst
from operator import is_
from ssl import CERT_NONE, SSLContext
from types import CodeType, FunctionType, ModuleType

_FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
_HAS_DOCSTRING: int = getattr(inspect, "CO_HAS_DOCSTRING", _FUNCTION)
"""The flag of a function with a docstring, from Python 3.14 on; before, every function has one or None."""
_READS_IT = tuple(bytes((operation, 0)) for operation in hasconst)
"""Instructions that read a function's first constant."""


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Let imports of `modules` fail inside the block, unless they are imported already; afterwards they work again."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None means "not to be found" (import system)
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name, sys) is None:
                del sys.modules[name]


@contextmanager
def standing_in(*modules: str, **names: object) -> Iterator[None]:
    """Let imports of `modules` find only these names, inside the block, unless they are imported already.

    Modules imported inside go on with them; a later import finds the modules themselves.
    """
    made = {name: ModuleType(name, "Stands in for a module that is not needed.") for name in modules}
    made = {name: stand_in for name, stand_in in made.items() if name not in sys.modules}
    for stand_in in made.values():
        vars(stand_in).update(names)
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, stand_in in made.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


@contextmanager
def import_apart(package: str) -> Iterator[None]:
    """Make the modules of `package` that are imported inside the block private to the module that imports them there.

    A later import, such as a plugin's, loads the package again, without stand-ins for any part of it.
    """
    shared = set(sys.modules)
    try:
        yield
    finally:
        for name in sys.modules.keys() - shared:
            if name.partition(".")[0] == package:
                del sys.modules[name]


@contextmanager
def undocumented(*packages: str, but: Sequence[str] = (), untyped: bool = False) -> Iterator[None]:
    """Let the modules of `packages` that are imported inside the block lose their docstrings (PEP 257).

    Modules of another finder before Python's own stay as that one makes them.

    Args:
        packages: names of packages.
        but: names of packages inside them that keep everything in their modules.
        untyped: functions and methods lose their annotations, too: for code that never reads its own.
    """
    finder = _Finder(packages, but, untyped=untyped)
    sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def certificates_for_checks() -> Iterator[None]:
    """Let TLS contexts that check no certificate load none of the system's inside the block.

    aiohttp makes such a context when it is imported, for `ssl=False`: 0.8 MB and 20 ms for nothing.
    """
    load = SSLContext.set_default_verify_paths

    def load_to_check(context: SSLContext) -> None:
        if context.verify_mode != CERT_NONE:
            load(context)

    SSLContext.set_default_verify_paths = load_to_check  # type: ignore[assignment, method-assign]  # for this block
    try:
        yield
    finally:
        del SSLContext.set_default_verify_paths  # the inherited one is found again


class _Finder:
    def __init__(self, packages: Sequence[str], but: Sequence[str], *, untyped: bool) -> None:
        self._packages, self._but = packages, tuple(f"{each}." for each in but)
        self._loader = _Untyped if untyped else _Loader

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self._packages or f"{name}.".startswith(self._but):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec and type(spec.loader) is SourceFileLoader:
            spec.loader = self._loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return code and _bare(code)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.__doc__ = None
        for each in vars(module).values():
            if isinstance(each, type) and each.__module__ == module.__name__:
                each.__doc__ = None


class _Untyped(_Loader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        found = vars(module).values()
        classes = [each for each in found if isinstance(each, type) and each.__module__ == module.__name__]
        for each in (*found, *(each for kind in classes for each in vars(kind).values())):
            function = each.__func__ if isinstance(each, classmethod | staticmethod) else each
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                del function.__annotations__


def _bare(code: CodeType) -> CodeType:
    """Return the code without the docstrings of its functions: their first constant, unless they also read it."""
    consts = tuple(_bare(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    is_function = code.co_flags & _FUNCTION == _FUNCTION and not code.co_name.startswith("<")
    if is_function and code.co_flags & _HAS_DOCSTRING and consts and isinstance(consts[0], str):
        reads_it = any(each in code.co_code for each in _READS_IT)
        consts = consts if reads_it else (None, *consts[1:])
    return code if all(map(is_, consts, code.co_consts)) else code.replace(co_consts=consts)
