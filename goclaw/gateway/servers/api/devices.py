"""Devices: the browsers that a person is logged in with at the web page. Anyone sees and ends only their own."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from pydantic import Field

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import revoke_token
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError
from goclaw.gateway.servers.api.operations import Call, Key, NoFields, Operations, Reply, Request, Response
from goclaw.gateway.servers.api.problems import Problem, unavailable


class Device(Response):
    """A browser that is logged in."""

    name: str = Field(description="The name of its token: `web-1a2b3c4d`.")
    device: str = Field(description="The browser, in words.")
    made: float = Field(description="When it signed in, in epoch seconds.")
    until: float | None = Field(description="When its sign-in expires, in epoch seconds.")
    current: bool = Field(description="Whether the caller is this device.")


class DeviceList(Response):
    """The caller's devices, the oldest first."""

    devices: Sequence[Device]


class DeviceAsked(Request):
    """The field of an operation on one device."""

    name: Key


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/devices", "devices")
async def list_devices(call: Call, _: NoFields) -> DeviceList:
    """The browsers in which the caller is signed in to the web page."""
    found = call.ports.admission.tokens.devices(call.actor.key)
    devices = [
        Device(name=name, device=token.device, made=token.made, until=token.until, current=name == call.program.name)
        for name, token in found.items()
    ]
    return DeviceList(devices=devices)


@OPERATIONS.add(
    "DELETE",
    "/devices/{name}",
    "devices",
    Reply({HTTPStatus.NO_CONTENT: "The browser is signed out."}),
    refusals=(HTTPStatus.NOT_FOUND,),
)
async def revoke_device(call: Call, asked: DeviceAsked) -> None:
    """Sign out one of the caller's browsers; its pages lose access within two seconds."""
    tokens, config = call.ports.admission.tokens, call.ports.config
    if asked.name not in tokens.devices(call.actor.key):
        raise Problem(HTTPStatus.NOT_FOUND, "you have no such device")
    try:
        await asyncio.to_thread(revoke_token, config.tokens_path, asked.name, file_writer(config))
    except ConfigError as error:
        await tokens.refresh()
        if tokens.get(asked.name):
            raise unavailable("; ".join(error.problems)) from error
    await tokens.refresh()
    call.ports.audit(AuditEntry("web.revoke", asked.name, call.actor, call.request.remote or "", rule="own device"))
