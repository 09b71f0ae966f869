"""Every tier that works on this machine, opened."""

from tests.execution.sandbox.conftest import sandbox

__all__ = ["sandbox"]
