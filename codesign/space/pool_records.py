"""Pools of a space's file and the links between them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from codesign.base.columns import IntegerList, JsonObject, StringList
from codesign.base.errors import reraised_as_value_error
from codesign.base.schema import Record
from codesign.base.units import parse_quantity

Role = Literal[
    "prefill",
    "decode",
    "early",
    "late",
    "prefill_attention",
    "prefill_ffn",
    "decode_attention",
    "decode_ffn",
    "draft",
]
"""Work of the machines of a pool. It is all of a phase, or the first or the last part of a decode
(``early``, ``late``); or the attention or the rest of every layer in a phase."""
ROLES: tuple[Role, ...] = get_args(Role)


def _machines(value: object) -> object:
    """A number, several numbers, or ``low`` and ``high``: as the parameter that it becomes."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    numbers = value if isinstance(value, list) else []
    if isinstance(value, dict):
        numbers = [value.get("low"), value.get("high")]
    _check_counts(numbers, "machines", value)
    return {"values": value} if isinstance(value, list) else value


def _check_counts(numbers: list[Any], subject: str, value: object) -> None:
    if not numbers or not all(type(number) is int and number >= 1 for number in numbers):
        raise ValueError(f"expected numbers of {subject} from 1, got {value!r}")


class PoolRecord(Record):
    """A pool of a system: machines of one role.

    Next to these keys stand those of a space, over ``space`` if that is given.
    """

    role: Role | None = None
    """Work of its machines; the pool's name if left out."""
    space: str = ""
    """The space in which a machine is a design; the keys of a space that stand here change it."""
    device: Annotated[
        StringList | None,
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ] = None
    """Devices of datasheets among which to choose, instead of ``space``."""
    machines: Annotated[JsonObject, BeforeValidator(_machines)] = Field(
        default_factory=lambda: {"values": [1]}
    )
    """Number of machines: a number, a list of numbers, or ``low`` and ``high``."""

    @property
    def machine_words(self) -> str:
        """Description of a machine."""
        if self.device is not None:
            return "group of devices"
        return f"design of {self.space}" if self.space else "parameters of its own"


def _quantities(unit: str, is_zero_allowed: bool) -> BeforeValidator:
    """One quantity or a list of them, as text: the space keeps it to show it as it was written."""

    def read(value: object) -> object:
        listed = value if isinstance(value, list) else [value]
        for port in listed:
            with reraised_as_value_error():
                number = parse_quantity(port, unit)
            if number < 0 or (number == 0 and not is_zero_allowed):
                least = "0 or more" if is_zero_allowed else "more than 0"
                raise ValueError(f"expected {least}, got {port!r}")
        return listed

    return BeforeValidator(read)


def _ports(value: object) -> object:
    listed = value if isinstance(value, list) else [value]
    _check_counts(listed, "ports", value)
    return listed


class LinkRecord(Record, populate_by_name=True):
    """Link of two pools; a list of values makes a choice of it.

    Attributes:
        bandwidth: Bytes per second that one machine sends, one way.
        latency: Time of a message that carries nothing.
        energy: Energy of what is sent.
        ports: Ports of one machine, which send side by side; one if left out.
        port_price: Price of one port with its part of what it leads to; nothing if left out.
    """

    sender: str = Field(alias="from")
    receiver: str = Field(alias="to")
    bandwidth: Annotated[list[Any], _quantities("GB/s", is_zero_allowed=False)]
    latency: Annotated[list[Any], _quantities("s", is_zero_allowed=True)]
    energy: Annotated[list[Any], _quantities("pJ/bit", is_zero_allowed=True)]
    ports: Annotated[IntegerList | None, BeforeValidator(_ports)] = None
    port_price: Annotated[list[Any] | None, _quantities("USD", is_zero_allowed=True)] = None


LINK_PARAMETERS = {
    "bandwidth": "bandwidth_bytes_per_s",
    "latency": "latency_s",
    "energy": "energy_joules_per_byte",
    "ports": "ports",
    "port_price": "port_price_usd",
}
"""Key of a link, and the parameter that it becomes after the name of the link."""
