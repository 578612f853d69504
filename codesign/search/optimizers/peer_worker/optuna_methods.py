"""Optuna's samplers, with the defaults of their reference and Optuna's constraints.

"Multi-objective optimization with Optuna" and the reference of each sampler (Optuna 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .task import POPULATION, Proposal, Result, Task, settings_of

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial


def optuna_tpe(task: Task) -> Proposal:
    """``TPESampler``."""
    from optuna.samplers import TPESampler

    sampler = TPESampler(seed=task.seed)
    return _model_proposal(task, sampler, sampler._random_sampler)


def optuna_gp(task: Task) -> Proposal:
    """``GPSampler``; it learns the noise."""
    from optuna.samplers import GPSampler

    sampler = GPSampler(seed=task.seed)
    return _model_proposal(task, sampler, sampler._independent_sampler)


def optuna_nsga2(task: Task) -> Proposal:
    """``NSGAIISampler``."""
    from optuna.samplers import NSGAIISampler

    return _population_proposal(task, NSGAIISampler(population_size=POPULATION, seed=task.seed))


def optuna_nsga3(task: Task) -> Proposal:
    """``NSGAIIISampler``."""
    from optuna.samplers import NSGAIIISampler

    return _population_proposal(task, NSGAIIISampler(population_size=POPULATION, seed=task.seed))


def _model_proposal(task: Task, sampler: BaseSampler, fallback: BaseSampler) -> Proposal:
    """A trial of a study that holds all results; counts what the fallback drew instead."""
    from optuna.distributions import CategoricalDistribution, IntDistribution
    from optuna.trial import create_trial

    study = _study(task, sampler)
    distributions: dict[str, Any] = {
        task.names[i]: IntDistribution(0, task.levels[i] - 1)
        if task.is_ordered[i]
        else CategoricalDistribution(list(range(task.levels[i])))
        for i in task.varying
    }
    for result in task.known:
        values = task.values_of(result)
        study.add_trial(
            create_trial(
                params=values,
                distributions={name: distributions[name] for name in values},
                values=result.objectives,
                constraints=_constraints(result),
            )
        )
    at_random: list[str] = []
    draw = fallback.sample_independent

    def counted(study: Any, trial: Any, name: str, distribution: Any) -> Any:
        at_random.append(name)
        return draw(study, trial, name, distribution)

    # Optuna says in no other way what was drawn without its model.
    fallback.sample_independent = counted  # type: ignore[method-assign, assignment] # wraps a method
    trial = _suggested(task, study.ask())
    n_by_model = len(trial.params) - len(at_random)
    origin = f"{n_by_model} of {len(trial.params)} parameters by the model"
    return _proposal(task, sampler, trial, origin)


def _population_proposal(task: Task, sampler: BaseSampler) -> Proposal:
    """A trial of a study whose trials were asked for in the same order.

    Only a trial that was asked for bears the number of its generation.
    """
    from optuna.trial import TrialState

    study = _study(task, sampler)
    for result in task.results:
        study.enqueue_trial(task.values_of(result))
        trial = _suggested(task, study.ask())
        # A sampler notes the generation when it is asked for parameters, which are all given here.
        _ = trial.relative_params
        if result.objectives is None:
            study.tell(trial, state=TrialState.FAIL)
            continue
        for name, value in _constraints(result).items():
            trial.set_constraint(name, value)
        study.tell(trial, result.objectives)
    trial = _suggested(task, study.ask())
    attributes = study._storage.get_trial_system_attrs(trial._trial_id)
    generation = next(value for key, value in attributes.items() if key.endswith("generation"))
    return _proposal(task, sampler, trial, f"generation {generation}")


def _study(task: Task, sampler: BaseSampler) -> Study:
    import warnings

    import optuna

    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(directions=["minimize"] * task.n_objectives, sampler=sampler)


def _suggested(task: Task, trial: Trial) -> Trial:
    """Suggest a value for each parameter that exists, given the values before it."""
    for i in task.varying:
        if not task.exists(i, trial.params):
            continue
        if task.is_ordered[i]:
            trial.suggest_int(task.names[i], 0, task.levels[i] - 1)
        else:
            trial.suggest_categorical(task.names[i], list(range(task.levels[i])))
    return trial


def _constraints(result: Result) -> dict[str, float]:
    return {f"limit {j}": value for j, value in enumerate(result.violations)}


def _proposal(task: Task, sampler: BaseSampler, trial: Trial, origin: str) -> Proposal:
    settings = settings_of(
        "optuna", sampler, limits="constraints of the trials", reference_point="takes none"
    )
    return Proposal([task.design(trial.params)], origin, settings)
