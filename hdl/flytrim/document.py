# SPDX-License-Identifier: Apache-2.0
"""TOML that users write: tables with a schema, whose faults are told in one line.

A schema is a subclass of :class:`Entry`. The description of a field says what is allowed: it is the
remedy that a fault ends with.
"""

import contextlib
import difflib
import ipaddress
import json
import tomllib
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from .errors import InputError

__all__ = ["Address", "Entry", "checked", "entries", "read", "shown", "table", "unknown"]


def _address(text):
    # A bare number would pass for an address; a zone ("%eth0") is no part of a packet.
    if not isinstance(text, str) or "%" in text:
        raise ValueError(text)
    return ipaddress.ip_address(text)


#: Type of a field that holds an IPv4 or IPv6 address.
Address = Annotated[ipaddress.IPv4Address | ipaddress.IPv6Address, BeforeValidator(_address)]


class Entry(BaseModel):
    """A table: no key beside its fields, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@contextlib.contextmanager
def read(path):
    """The document in a file; a context manager in which every fault names the file."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not TOML: {error}") from None
    try:
        yield document
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def table(document, key):
    """The table ``[key]``, empty where there is none."""
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise InputError(f"{key} must be a table: write [{key}]")
    return found


def entries(document, key):
    """The tables ``[[key]]``."""
    found = document.get(key, [])
    if not (isinstance(found, list) and all(isinstance(entry, dict) for entry in found)):
        raise InputError(f"{key} must be a list of tables: write [[{key}]]")
    return found


def checked(schema, fields, label):
    """A table as its schema reads it; ``label`` names the table in a fault."""
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        # A misspelt key is missing, too: what is written there says more.
        fault = min(error.errors(include_url=False), key=lambda each: each["type"] == "missing")
    key = fault["loc"][0]
    if fault["type"] == "extra_forbidden":
        raise InputError(f"{label}: {unknown(key, schema.model_fields)}")
    allowed = schema.model_fields[key].description
    if fault["type"] == "missing":
        raise InputError(f"{label}: {key} is missing: it {allowed}")
    raise InputError(f"{label}: {key} = {shown(fields[key])}: {allowed}")


def unknown(key, known):
    """What to say of a key that is not among those known."""
    nearest = difflib.get_close_matches(key, known, 1)
    if nearest:
        return f'unknown key "{key}": did you mean "{nearest[0]}"?'
    return f'unknown key "{key}": known are {", ".join(known)}'


def shown(value):
    """A value as a fault shows it."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
