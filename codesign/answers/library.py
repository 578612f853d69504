"""Answers that list what there is to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from codesign.answers.answer import Answer, Design, Entry, Number
from codesign.base.columns import MACHINES, IntegerMap, IntegerSequence, Strings
from codesign.base.metrics import Metric
from codesign.base.records import drop_none
from codesign.models.hardware.device import Device
from codesign.models.memtech import MemoryTechnology, Technologies
from codesign.models.workload.reuse import ReuseSummary
from codesign.models.workload.traces import Trace
from codesign.search.execution.result_store import Holding
from codesign.space import DesignSpace
from codesign.space.pool_records import LINK_PARAMETERS


class TechnologiesAnswer(Answer):
    """The memory technologies.

    Attributes:
        technologies: Technologies by key.
    """

    technologies: Technologies


class TechnologyAnswer(Answer, MemoryTechnology):
    """One memory technology with its sources."""


class ParameterEntry(Entry):
    """A parameter of a design space.

    Attributes:
        values: Values in order.
        optional: True if it may be absent.
        when: Condition under which it is present.
        catalog: Catalog of its values, such as memtech.
    """

    name: str
    kind: Literal["categorical", "ordinal", "integer"]
    values: Sequence[Any]
    optional: bool
    when: Any
    unit: str | None
    catalog: str | None
    description: str


class ComponentEntry(Entry):
    """Parameters that depend on one another.

    Attributes:
        size: Choices of the group.
    """

    parameters: Strings
    size: int


class PoolEntry(Entry):
    """Machines of a system that do the same work.

    Attributes:
        role: Work of its machines.
        machine: Description of a machine.
        machines: Allowed numbers of machines.
        size: Designs of one machine.
        parameters: Parameters of one machine, with the pool's name in front.
    """

    name: str
    role: str
    machine: str
    machines: IntegerSequence
    size: int
    parameters: Strings


class LinkEntry(Entry):
    """A connection between two pools.

    Attributes:
        sender: Pool that sends.
        receiver: Pool that receives.
        parameters: Its parameters, with the link's name in front.
    """

    name: str
    sender: str = Field(alias="from")
    receiver: str = Field(alias="to")
    parameters: Strings


class SpaceAnswer(Answer):
    """One design space.

    Attributes:
        source: Path of its file.
        size: Designs that keep every constraint.
        components: Groups of parameters that depend on one another; the product of their sizes is
            the size of the space.
        pools: Pools of a system; empty for a space of machines.
        links: Connections between the pools.
        designs: Designs that the space names.
    """

    name: str
    source: str
    description: str
    size: int
    parameters: Sequence[ParameterEntry]
    components: Sequence[ComponentEntry]
    constraints: Strings
    pools: Sequence[PoolEntry]
    links: Sequence[LinkEntry]
    designs: Mapping[str, Design]

    @classmethod
    def describe(cls, space: DesignSpace) -> Self:
        """The answer about a space."""
        pools = []
        links = []
        for pool in space.pools.values():
            counts = space.parameters[space.names.index(pool.full_name(MACHINES))].values
            names = [pool.full_name(name) for name in pool.parameter_names]
            size = pool.space.size
            pools.append(PoolEntry.read(pool, machines=list(counts), size=size, parameters=names))
        for link in space.links:
            names = [f"{link.name}_{key}" for key in LINK_PARAMETERS.values()]
            present = [name for name in names if name in space.names]
            links.append(LinkEntry.read(link, parameters=present))
        return cls.read(
            space,
            parameters=list(map(ParameterEntry.read, space.parameters)),
            components=[ComponentEntry.read(x, parameters=x.names) for x in space.components],
            constraints=[constraint.text for constraint in space.constraints],
            pools=pools,
            links=links,
            designs={name: drop_none(design) for name, design in space.designs.items()},
        )


class SpacesAnswer(Answer):
    """The design spaces.

    Attributes:
        spaces: Spaces by name.
    """

    spaces: Mapping[str, SpaceAnswer]


class ModelAnswer(Answer):
    """One language model with its parameters counted.

    Attributes:
        active_parameters: Parameters that take part in one token.
        layers_by_attention: Layers by their attention.
        attention: Attention, such as GQA, or GQA+linear where layers differ.
        experts: Routed experts; 0 if none.
        kv_elements_per_token: Elements of the KV cache over all layers.
        kv_bytes_per_token_16_bit: Bytes of the KV cache in 16 bits.
        state_bytes_per_request: Bytes of the state of linear attention.
        index_bytes_per_token: Keys of the indexers of sparse attention over all layers.
        published_parameters: Count that the publisher states.
        counted: Parameters that the publisher's count includes.
    """

    name: str
    parameters: int
    active_parameters: int
    parameters_by_part: IntegerMap
    layers: int
    layers_by_attention: IntegerMap
    hidden_size: int
    attention: str
    query_heads: int
    kv_heads: int
    experts: int
    experts_per_token: int
    vocab_size: int
    kv_elements_per_token: Number
    kv_bytes_per_token_16_bit: Number
    state_bytes_per_request: Number
    index_bytes_per_token: int
    is_diffusion: bool
    published_parameters: int | None
    counted: str | None
    sources: Strings
    notes: Strings


class ModelsAnswer(Answer):
    """The language models."""

    models: Sequence[ModelAnswer]


class DevicesAnswer(Answer):
    """The devices.

    Attributes:
        devices: Devices by key.
    """

    devices: Mapping[str, Device]


class DeviceAnswer(Answer, Device):
    """One device with its sources.

    Attributes:
        expected_errors: Sentences on the errors of predictions for it, or for others if it was not
            measured.
        rent: Sentence on the rent that is listed, with its date.
    """

    expected_errors: Strings
    rent: Strings


class WorkloadsAnswer(Answer):
    """The named workloads.

    Attributes:
        workloads: Requests by name.
        sessions: Sessions by name.
    """

    workloads: Mapping[str, Trace]
    sessions: Mapping[str, ReuseSummary]


class MetricsAnswer(Answer):
    """The metrics of the built-in evaluators.

    Attributes:
        metrics: Metrics by name.
    """

    metrics: Mapping[str, Metric]


class OptionEntry(Entry):
    """A key of a record.

    Attributes:
        default: Default; null if the key is required or has none.
    """

    name: str
    required: bool
    default: Any


class PluginEntry(Entry):
    """A registered evaluator or optimizer.

    Attributes:
        implementation: Class as module:class.
        workload: Keys of its workload.
        options: Keys of its options.
    """

    implementation: str = Field(alias="class")
    description: str
    workload: Sequence[OptionEntry] | None = None
    options: Sequence[OptionEntry] | None = None

    @classmethod
    def describe(cls, plugin: Any) -> Self:
        """The entry of a plug-in's class."""
        records = {"workload": "Workload", "options": "Options"}
        classes = {key: getattr(plugin, name, None) for key, name in records.items()}
        return cls(
            implementation=f"{plugin.__module__}:{plugin.__qualname__}",
            description=" ".join((plugin.__doc__ or "").strip().split("\n\n")[0].split()),
            **{
                key: [
                    OptionEntry(
                        name=x.alias or name,
                        required=x.is_required(),
                        default=None
                        if x.is_required()
                        else x.get_default(call_default_factory=True),
                    )
                    for name, x in record.model_fields.items()
                ]
                for key, record in classes.items()
                if record is not None
            },
        )


class BrokenPluginEntry(Entry):
    """A registered plug-in that cannot be used.

    Attributes:
        error: Reason.
    """

    error: str


Plugins = Mapping[str, PluginEntry | BrokenPluginEntry]


class OptimizersAnswer(Answer):
    """The optimizers and their options.

    Attributes:
        optimizers: Optimizers by name.
    """

    optimizers: Plugins


class EvaluatorsAnswer(Answer):
    """The evaluators, their workloads and options.

    Attributes:
        evaluators: Evaluators by name.
    """

    evaluators: Plugins


class SchemaEntry(Entry):
    """A document."""

    name: str
    version: int
    title: str


class SchemasAnswer(Answer):
    """The documents that --json prints."""

    schemas: Sequence[SchemaEntry]


class SimulatorEntry(Entry):
    """A simulator that others published.

    Attributes:
        folder: Folder of its environment.
        campaign: Bundled campaign that runs it.
    """

    name: str
    title: str
    is_installed: bool
    folder: str
    campaign: str


class SimulatorsAnswer(Answer):
    """The simulators of others that bundled campaigns run."""

    simulators: Sequence[SimulatorEntry]


class CacheAnswer(Answer):
    """Contents of the cache of results.

    Attributes:
        file: Path of the cache's file, also before it exists.
        sources: Evaluators with all that their numbers depend on.
        damages: Differences from what was written; only ``verify`` looks for them.
        removed: Results that ``prune`` removed.
    """

    file: Path
    sources: Sequence[Holding]
    damages: Strings
    removed: int
