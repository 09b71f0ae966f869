"""Faults of Postgres in the words of `DiskError`: why nothing can be stored or read now, and what helps.

By SQLSTATE (postgresql.org/docs/current/errcodes-appendix.html); an error without one comes from the network.
"""

from collections.abc import Mapping

import psycopg
from psycopg import errors

from goclaw.common.core.container import daemon_command
from goclaw.durable.store.database import ConstraintViolated
from goclaw.durable.store.postgres.ownership_schema import LOST
from goclaw.errors import DiskError, DiskFault, OwnershipLost

OWN_FAULT = (
    errors.IntegrityError,
    errors.DataError,
    errors.ProgrammingError,
    errors.NotSupportedError,
    ValueError,
    OverflowError,
)
"""Errors that a transaction's own values cause (text that is not Unicode is a ValueError): the group goes on."""
_OF_CODE: Mapping[str, DiskFault] = {
    "42501": DiskFault.REFUSED,  # insufficient_privilege
    "42P01": DiskFault.GONE,  # undefined_table
    "3F000": DiskFault.GONE,  # invalid_schema_name
    "3D000": DiskFault.GONE,  # invalid_catalog_name
    "25006": DiskFault.REFUSED,  # read_only_sql_transaction: a standby
    "53100": DiskFault.STORE_FULL,
    "55P03": DiskFault.REFUSED,  # lock_not_available
    "40001": DiskFault.REFUSED,  # serialization_failure
    "40P01": DiskFault.REFUSED,  # deadlock_detected
    "28000": DiskFault.REFUSED,  # invalid_authorization_specification
    "28P01": DiskFault.REFUSED,  # invalid_password
}
_REMEDIES: Mapping[DiskFault, str] = {
    DiskFault.UNREACHABLE: "is Postgres running, and can this machine reach it?",
    DiskFault.STORE_FULL: "make room on the disk of Postgres",
    DiskFault.REFUSED: "check the role's rights, locks, and whether the server is a standby",
    DiskFault.GONE: f"restore it, or {daemon_command('restart')} to start with empty tables",
}


_LOGIN_REMEDY = (
    "if the role's password has changed, put the new one in the file `secrets/store_password` on each machine"
)
OPENED = "opened"
"""The operation of a start: a failed start does not continue by itself."""


def is_own_fault(error: BaseException) -> bool:
    """Whether a statement failed by its own content, and not by the state of the database."""
    return isinstance(error, OWN_FAULT) and getattr(error, "sqlstate", None) not in _OF_CODE


def in_our_words(error: Exception) -> Exception:
    """Return the error that a transaction's caller gets for its own fault: without the values, which Postgres adds."""
    if not isinstance(error, psycopg.Error):
        return error
    words = error.diag.message_primary or str(error)
    if error.diag.constraint_name == LOST:
        return OwnershipLost(words)
    return ConstraintViolated(words) if isinstance(error, errors.IntegrityError) else type(error)(words)


def fault_of(error: psycopg.Error) -> DiskFault:
    """Return the fault underlying an error that is not a statement's own."""
    return _OF_CODE.get(error.sqlstate or "", DiskFault.UNREACHABLE)


def _failed_at_login(error: psycopg.Error | OSError) -> bool:
    """Whether Postgres ended a connection that was being made after it had asked for a password.

    libpq passes no SQLSTATE of that on, only its own action (postgresql.org, "PQconnectionUsedPassword").
    """
    attempt = error.pgconn if isinstance(error, psycopg.Error) else None
    return attempt is not None and bool(attempt.used_password or attempt.needs_password)


def store_error(error: psycopg.Error | OSError, shown: str, doing: str) -> DiskError:
    """Return the error as a `DiskError`: what could not be done to the database `shown`, why, and what helps.

    `doing`: `OPENED`, "read" or "written".
    """
    fault = fault_of(error) if isinstance(error, psycopg.Error) else DiskFault.UNREACHABLE
    why = (error.diag.message_primary if isinstance(error, psycopg.Error) else "") or " ".join(str(error).split())
    remedy = _LOGIN_REMEDY if _failed_at_login(error) else _REMEDIES[fault]
    if doing != OPENED and fault is not DiskFault.GONE:
        remedy += (
            " GoClaw continues by itself afterwards" if remedy.endswith("?") else ("; GoClaw then continues by itself")
        )
    return DiskError(f"{shown} cannot be {doing}: {why}; {remedy}", fault)
