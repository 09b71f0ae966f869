"""The Bot API as aiogram wrote it down: what a request may hold, and what an answer must look like.

GoClaw speaks through python-telegram-bot; aiogram's models come from somebody else's reading of the documentation,
so that a mistake of ours and one of the library's cannot cancel out.
"""

import json
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Union, get_args, get_origin

import aiogram.methods
from aiogram.methods import TelegramMethod
from pydantic import TypeAdapter, ValidationError

from tests.fake_telegram.rules import ApiError, bad_request

Method = type[TelegramMethod[Any]]

METHODS: dict[str, Method] = {
    method.__api_method__.lower(): method
    for method in (getattr(aiogram.methods, name) for name in aiogram.methods.__all__)
    if method is not TelegramMethod and hasattr(method, "__api_method__")
}
"""All methods by their lower-case names: Telegram does not look at the case."""

UPLOAD = "attach://upload"
"""Stands for an uploaded file while a request is checked."""


def find_method(name: str) -> Method:
    """The model of a method; `ApiError` 404 for one that does not exist."""
    try:
        return METHODS[name.lower()]
    except KeyError:
        raise ApiError(404, "Not Found: method not found") from None


def checked(method: Method, form: Mapping[str, Any], uploads: Mapping[str, bytes]) -> dict[str, Any]:
    """The parameters of a request as JSON values; `ApiError` 400 where one is unknown, missing or malformed.

    `form` is a JSON body, or a form whose values are JSON for everything that is not a string.
    """
    unknown = (form.keys() | uploads.keys()) - method.model_fields.keys()
    # A file that a value refers to as attach://<name> has a field name of its own.
    unknown -= {value.removeprefix("attach://") for value in form.values() if isinstance(value, str)}
    if unknown:
        raise bad_request(f"{method.__api_method__} has no parameter {', '.join(sorted(unknown))}")
    values = {name: decoded(method, name, value) for name, value in form.items()}
    try:
        method.model_validate(values | dict.fromkeys(uploads.keys() & method.model_fields.keys(), UPLOAD))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise bad_request(f"{method.__api_method__}: {where}: {first['msg']}") from error
    return values


def decoded(method: Method, name: str, value: Any) -> Any:
    """One value of a form as JSON; strings stay what they are where the API wants a string."""
    if not isinstance(value, str) or name not in method.model_fields:
        return value
    if name == "chat_id":
        return int(value) if value.lstrip("-").isdigit() else value
    if str in alternatives(method.model_fields[name].annotation):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise bad_request(f"can't parse {name} JSON object") from None


def alternatives(annotation: Any) -> set[Any]:
    """The members of a union, or the one type."""
    if get_origin(annotation) in (Union, types.UnionType):
        return {inner for part in get_args(annotation) for inner in alternatives(part)}
    return {annotation}


@cache
def answer_type(method: Method) -> TypeAdapter[Any]:
    """What a method answers."""
    return TypeAdapter(method.__returning__)


def check_answer(method: Method, result: Any) -> None:
    """Fail when the fake's own answer is not what an independent client expects: then the fake is wrong."""
    answer_type(method).validate_python(result)
