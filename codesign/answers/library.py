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
    """The memory technologies."""

    technologies: Technologies
    """Technologies by key."""


class TechnologyAnswer(Answer, MemoryTechnology):
    """One memory technology with its sources."""


class ParameterEntry(Entry):
    """A parameter of a design space."""

    name: str
    kind: Literal["categorical", "ordinal", "integer"]
    values: Sequence[Any]
    """Values in order."""
    optional: bool
    """True if it may be absent."""
    when: Any
    """Condition under which it is present."""
    unit: str | None
    catalog: str | None
    """Catalog of its values, such as memtech."""
    description: str


class ComponentEntry(Entry):
    """Parameters that depend on one another."""

    parameters: Strings
    size: int
    """Choices of the group."""


class PoolEntry(Entry):
    """Machines of a system that do the same work."""

    name: str
    role: str
    """Work of its machines."""
    machine: str
    """Description of a machine."""
    machines: IntegerSequence
    """Allowed numbers of machines."""
    size: int
    """Designs of one machine."""
    parameters: Strings
    """Parameters of one machine, with the pool's name in front."""


class LinkEntry(Entry):
    """A connection between two pools."""

    name: str
    sender: str = Field(alias="from")
    """Pool that sends."""
    receiver: str = Field(alias="to")
    """Pool that receives."""
    parameters: Strings
    """Its parameters, with the link's name in front."""


class SpaceAnswer(Answer):
    """One design space."""

    name: str
    source: str
    """Path of its file."""
    description: str
    size: int
    """Designs that keep every constraint."""
    parameters: Sequence[ParameterEntry]
    components: Sequence[ComponentEntry]
    """Groups of parameters that depend on one another; the product of their sizes is the size
    of the space."""
    constraints: Strings
    pools: Sequence[PoolEntry]
    """Pools of a system; empty for a space of machines."""
    links: Sequence[LinkEntry]
    """Connections between the pools."""
    designs: Mapping[str, Design]
    """Designs that the space names."""

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
    """The design spaces."""

    spaces: Mapping[str, SpaceAnswer]
    """Spaces by name."""


class ModelAnswer(Answer):
    """One language model with its parameters counted."""

    name: str
    parameters: int
    active_parameters: int
    """Parameters that take part in one token."""
    parameters_by_part: IntegerMap
    layers: int
    layers_by_attention: IntegerMap
    """Layers by their attention."""
    hidden_size: int
    attention: str
    """Attention, such as GQA, or GQA+linear where layers differ."""
    query_heads: int
    kv_heads: int
    experts: int
    """Routed experts; 0 if none."""
    experts_per_token: int
    vocab_size: int
    kv_elements_per_token: Number
    """Elements of the KV cache over all layers."""
    kv_bytes_per_token_16_bit: Number
    """Bytes of the KV cache in 16 bits."""
    state_bytes_per_request: Number
    """Bytes of the state of linear attention."""
    index_bytes_per_token: int
    """Keys of the indexers of sparse attention over all layers."""
    is_diffusion: bool
    published_parameters: int | None
    """Count that the publisher states."""
    counted: str | None
    """Parameters that the publisher's count includes."""
    sources: Strings
    notes: Strings


class ModelsAnswer(Answer):
    """The language models."""

    models: Sequence[ModelAnswer]


class DevicesAnswer(Answer):
    """The devices."""

    devices: Mapping[str, Device]
    """Devices by key."""


class DeviceAnswer(Answer, Device):
    """One device with its sources."""

    expected_errors: Strings
    """Sentences on the errors of predictions for it, or for others if it was not measured."""
    rent: Strings
    """Sentence on the rent that is listed, with its date."""


class WorkloadsAnswer(Answer):
    """The named workloads."""

    workloads: Mapping[str, Trace]
    """Requests by name."""
    sessions: Mapping[str, ReuseSummary]
    """Sessions by name."""


class MetricsAnswer(Answer):
    """The metrics of the built-in evaluators."""

    metrics: Mapping[str, Metric]
    """Metrics by name."""


class OptionEntry(Entry):
    """A key of a record."""

    name: str
    required: bool
    default: Any
    """Default; null if the key is required or has none."""


class PluginEntry(Entry):
    """A registered evaluator or optimizer."""

    implementation: str = Field(alias="class")
    """Class as module:class."""
    description: str
    workload: Sequence[OptionEntry] | None = None
    """Keys of its workload."""
    options: Sequence[OptionEntry] | None = None
    """Keys of its options."""

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
    """A registered plug-in that cannot be used."""

    error: str
    """Reason."""


Plugins = Mapping[str, PluginEntry | BrokenPluginEntry]


class OptimizersAnswer(Answer):
    """The optimizers and their options."""

    optimizers: Plugins
    """Optimizers by name."""


class EvaluatorsAnswer(Answer):
    """The evaluators, their workloads and options."""

    evaluators: Plugins
    """Evaluators by name."""


class SchemaEntry(Entry):
    """A document."""

    name: str
    version: int
    title: str


class SchemasAnswer(Answer):
    """The documents that --json prints."""

    schemas: Sequence[SchemaEntry]


class SimulatorEntry(Entry):
    """A simulator that others published."""

    name: str
    title: str
    is_installed: bool
    folder: str
    """Folder of its environment."""
    campaign: str
    """Bundled campaign that runs it."""


class SimulatorsAnswer(Answer):
    """The simulators of others that bundled campaigns run."""

    simulators: Sequence[SimulatorEntry]


class CacheAnswer(Answer):
    """Contents of the cache of results."""

    file: Path
    """Path of the cache's file, also before it exists."""
    sources: Sequence[Holding]
    """Evaluators with all that their numbers depend on."""
    damages: Strings
    """Differences from what was written; only ``verify`` looks for them."""
    removed: int
    """Results that ``prune`` removed."""
