"""Every tier that works on this machine, opened."""

from tests.tools.execution.sandbox.conftest import sandbox

__all__ = ["sandbox"]
