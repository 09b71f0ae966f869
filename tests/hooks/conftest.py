"""Every tier that works on this machine, opened."""

from tests.sandbox.conftest import sandbox

__all__ = ["sandbox"]
