"""A machine that serves one phase of a request, as systems of pools and fleets need it.

Pools (``evaluators/system/design_pool.py``) and requests that arrive (``design_machine.py``) are
built over any evaluator derived from :class:`PhaseMachine`, ours or a stranger's. It is named as it
is registered in the entry-point group ``codesign.evaluators``.
"""

from __future__ import annotations

from typing import Any

from codesign.base import plugins
from codesign.base.columns import Fields
from codesign.base.errors import InputError, UnknownNameError
from codesign.base.evaluator import Evaluator
from codesign.base.schema import Document, Record, parse_record
from codesign.models.workload import Request

BATCH_SIZE = "batch_size"
"""Parameter of designs that state how many requests they process together, and the metric."""


class PhaseMachine(Evaluator):
    """An evaluator whose designs are machines that serve one phase of a request.

    Its ``Workload`` is :class:`codesign.models.workload.Request` itself, and its metrics are of the
    phase that this says. It keeps the two records from which it is built. Model and tokens count;
    ``layers`` too, or it refuses a part of the layers when it is built. Requests processed together
    are those of the design's parameter ``batch_size`` if it has that parameter, and otherwise those
    of ``workload.batch`` if that is a number.

    Every pool needs the metrics ``throughput_tokens_per_s`` and that of the phase,
    ``time_to_first_token_s`` or ``time_per_output_token_s``. A system has such of its other metrics
    as all of its machines report what decides them: for energy ``dynamic_joules_per_token`` and
    ``idle_watts``, for example. ``handover_bytes`` and ``n_devices`` follow from the parameters
    ``kv_format`` and the degrees of parallelism, or from their absence, unless it reports them
    itself. Requests that arrive need ``memory_capacity_bytes`` and ``memory_used_bytes``; those of
    ``workload.batch`` need ``batch_size`` as well.

    Of its other methods, values of ``kv_format`` or ``activation_format`` that are
    ``interchangeable`` are of equal widths, and so are values that are ``superseded`` and those
    that beat them: requests take these bytes along. If it offers ``technologies``, its class takes
    them by the keyword ``library``.
    """

    Workload = Request
    workload: Request
    options: Record


def checked_machine(evaluator: object, name: str) -> PhaseMachine:
    """The evaluator, if pools and fleets may consist of its designs.

    Args:
        name: Under which it is registered.

    Raises:
        InputError: It is an evaluator of something else, or lacks what the contract asks for.
    """
    if not (isinstance(evaluator, PhaseMachine) and _serves_phases(evaluator)):
        raise InputError(
            "expected an evaluator with machines for one phase of a request, such as npu, "
            f"got {name}"
        )
    records = ("workload", "options")
    if missing := [record for record in records if getattr(evaluator, record, None) is None]:
        raise InputError(
            f"expected an evaluator that keeps what it is built from: {name} has no attribute "
            f"{missing[0]!r}"
        )
    return evaluator


def machine_class(name: str, *others: str) -> Any:
    """The class of a registered evaluator of machines that serve one phase of a request.

    Args:
        others: Names that the caller knows besides, for the message.

    Raises:
        UnknownNameError: Nothing of that name is registered.
        InputError: It is an evaluator of something else, or cannot be imported.
    """
    names = plugins.names("evaluators")
    factory = plugins.load("evaluators", name) if name in names else None
    if _serves_phases(factory):
        return factory
    choices = [*filter(_is_known, names), *others]
    if factory is None:
        raise UnknownNameError("machine", name, choices)
    raise InputError(
        f"evaluator {name!r} has no machines that serve one phase of a request; expected one of: "
        f"{', '.join(sorted(choices))}"
    )


def _serves_phases(factory: object) -> bool:
    return getattr(factory, "Workload", None) is Request


def _is_known(name: str) -> bool:
    try:
        return _serves_phases(plugins.load("evaluators", name))
    except InputError:  # a stranger's that cannot be imported is nobody's remedy
        return False


def machine_for(
    factory: Any, request: Fields, options: Record, like: PhaseMachine | None = None
) -> PhaseMachine:
    """The evaluator of machines that serve a request.

    Args:
        factory: Class of the evaluator.
        request: The keys of its workload.
        like: An evaluator of the class, whose technologies it takes.

    Raises:
        InputError: It cannot serve this request.
    """
    workload = parse_record(Document("workload", dict(request), {}), factory.Workload)
    has_library = like is not None and like.offers("technologies")
    library = {"library": like.technologies()} if like is not None and has_library else {}
    return checked_machine(factory(workload, options, **library), factory.__name__)
