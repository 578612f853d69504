"""Proposals by other libraries, as their documentation shows them; run as a script.

It needs no part of codesign, so a peer may live in an environment of its own. One JSON document
per line on standard input asks for one proposal and says all that is known; the answer is one
line: ``{"bins": [...]}``, ``{"missing": "library"}`` or ``{"error": "..."}``. See ``peer.py``.

Sources of the set-ups, each with its defaults where it has them:

- Optuna: "Multi-objective optimization with Optuna" and the reference of each sampler.
- BoTorch: tutorial "Constrained, parallel, multi-objective BO in BoTorch with qNEHVI, and
  qParEGO", with ``qLogNoisyExpectedHypervolumeImprovement``, which it recommends by now.
- Ax: "Multi-objective optimization" with ``Client``.
- SMAC3: example "ParEGO" with ask and tell.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

Request = dict[str, Any]
Record = dict[str, Any]


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            bins = METHODS[request["method"]](request)
            answer: dict[str, Any] = {"bins": [int(value) for value in bins]}
        except ModuleNotFoundError as error:
            answer = {"missing": (error.name or "").split(".")[0]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        print(json.dumps(answer), file=answers, flush=True)


def _names(request: Request) -> list[str]:
    return [f"x{i}" for i in range(len(request["bins"]))]


def _results(request: Request) -> list[Record]:
    """What has objectives, told and repeated, in the order it came."""
    return [item for item in _all(request) if item["objectives"] is not None]


def _all(request: Request) -> list[Record]:
    return [*request["told"], *request["rejected"]]


# Optuna


def optuna_tpe(request: Request) -> list[int]:
    """TPESampler with its defaults and constraints."""
    from optuna.samplers import TPESampler

    return _optuna(request, lambda seed, limits: TPESampler(seed=seed, constraints_func=limits))


def optuna_gp(request: Request) -> list[int]:
    """GPSampler with its defaults and constraints."""
    from optuna.samplers import GPSampler

    return _optuna(
        request,
        lambda seed, limits: GPSampler(
            seed=seed, constraints_func=limits, deterministic_objective=True
        ),
    )


def optuna_nsga2(request: Request) -> list[int]:
    """NSGAIISampler with its constraints; 20 individuals, for 50 would be half of a budget."""
    from optuna.samplers import NSGAIISampler

    return _optuna(
        request,
        lambda seed, limits: NSGAIISampler(population_size=20, seed=seed, constraints_func=limits),
        is_enqueued=True,
    )


def _optuna(
    request: Request, make: Callable[[int, Any], Any], is_enqueued: bool = False
) -> list[int]:
    import warnings

    import optuna

    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = make(request["seed"], lambda trial: trial.user_attrs["violations"])
    study = optuna.create_study(directions=["minimize"] * request["n_objectives"], sampler=sampler)
    names = _names(request)
    space: dict[str, Any] = {
        name: optuna.distributions.IntDistribution(0, bins - 1)
        if ordered
        else optuna.distributions.CategoricalDistribution(list(range(bins)))
        for name, bins, ordered in zip(names, request["bins"], request["is_ordered"], strict=True)
    }
    width = max((len(item["violations"]) for item in _results(request)), default=0)
    for item in _all(request):
        params = dict(zip(names, item["bins"], strict=True))
        violations = (item["violations"] + [0.0] * width)[: max(width, 1)] or [0.0]
        if is_enqueued:
            # So that the sampler notes the generation of a trial, which it keeps to itself.
            study.enqueue_trial(params, user_attrs={"violations": violations})
            trial = study.ask(space)
            _finish(study, trial, item)
        elif item["objectives"] is not None:
            study.add_trial(
                optuna.trial.create_trial(
                    params=params,
                    distributions=space,
                    values=item["objectives"],
                    user_attrs={"violations": violations},
                    system_attrs={"constraints": violations},
                )
            )
    trial = study.ask(space)
    return [trial.params[name] for name in names]


def _finish(study: Any, trial: Any, item: Record) -> None:
    from optuna.trial import TrialState

    if item["objectives"] is None:
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, item["objectives"])


# BoTorch


def botorch_qlognehvi(request: Request) -> list[int]:
    """A GP per outcome and noisy EHVI over the unit cube; levels are its equal shares.

    Fewer restarts, raw samples and steps than the tutorial's 10, 512 and 200, which took 16 s a
    suggestion with 16 parameters.
    """
    import torch
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
    from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.gp_regression import SingleTaskGP
    from botorch.models.model_list_gp_regression import ModelListGP
    from botorch.models.transforms.outcome import Standardize
    from botorch.optim.optimize import optimize_acqf
    from botorch.sampling.normal import SobolQMCNormalSampler
    from gpytorch.mlls import SumMarginalLogLikelihood

    torch.set_default_dtype(torch.double)
    torch.set_num_threads(1)
    torch.manual_seed(request["seed"])
    known, m = _results(request), request["n_objectives"]
    bins = torch.tensor(request["bins"], dtype=torch.double)
    x = (torch.tensor([item["bins"] for item in known]) + 0.5) / bins
    # BoTorch maximizes; a violation above 0 breaks a limit.
    y = -torch.tensor([item["objectives"] for item in known])
    excess = torch.tensor([item["violations"] for item in known]).reshape(len(known), -1)
    # A limit that no design broke needs no model.
    excess = excess[:, [bool(column.max() > 0) for column in excess.T]]
    outcomes = torch.cat([y, excess], dim=1)
    models = [
        SingleTaskGP(x, outcomes[:, j : j + 1], outcome_transform=Standardize(m=1))
        for j in range(outcomes.shape[1])
    ]
    model = ModelListGP(*models)
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
    bound = request["reference_point"]
    acquisition = qLogNoisyExpectedHypervolumeImprovement(
        model=model,
        ref_point=[-value for value in bound] if bound else y.min(dim=0).values.tolist(),
        X_baseline=x,
        prune_baseline=True,
        sampler=SobolQMCNormalSampler(torch.Size([128]), seed=request["seed"]),
        objective=IdentityMCMultiOutputObjective(outcomes=list(range(m))),
        constraints=[_outcome(j) for j in range(m, outcomes.shape[1])] or None,
    )
    box = torch.stack([torch.zeros(len(bins)), torch.ones(len(bins))])
    candidate, _ = optimize_acqf(
        acquisition, bounds=box, q=1, num_restarts=4, raw_samples=128,
        options={"batch_limit": 5, "maxiter": 60},
    )  # fmt: skip
    chosen: list[int] = torch.minimum((candidate[0] * bins).floor(), bins - 1).int().tolist()
    return chosen


def _outcome(j: int) -> Callable[[Any], Any]:
    return lambda samples: samples[..., j]


# Ax


def ax(request: Request) -> list[int]:
    """Client with its default strategy; limits are outcome constraints."""
    import logging

    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    logging.disable(logging.WARNING)
    known, m = _results(request), request["n_objectives"]
    client = Client(random_seed=request["seed"])
    names = _names(request)
    varying = [i for i, bins in enumerate(request["bins"]) if bins > 1]
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(
                name=names[i], bounds=(0, request["bins"][i] - 1), parameter_type="int"
            )
            if request["is_ordered"][i]
            else ChoiceParameterConfig(
                name=names[i],
                values=list(range(request["bins"][i])),
                parameter_type="int",
                is_ordered=False,
            )
            for i in varying
        ]
    )
    n_limits = max(len(item["violations"]) for item in known)
    bound = request["reference_point"]
    client.configure_optimization(
        objective=", ".join(f"-f{j}" for j in range(m)),
        outcome_constraints=[
            *([f"f{j} <= {value!r}" for j, value in enumerate(bound)] if bound else []),
            *(f"c{j} <= 0" for j in range(n_limits)),
        ],
    )
    for item in known:
        index = client.attach_trial({names[i]: item["bins"][i] for i in varying})
        values = {f"f{j}": value for j, value in enumerate(item["objectives"])}
        values |= {f"c{j}": value for j, value in enumerate(item["violations"])}
        client.complete_trial(index, raw_data=values)
    (chosen,) = client.get_next_trials(max_trials=1).values()
    return [int(chosen.get(name, 0)) for name in names]


# SMAC3


def smac_parego(request: Request) -> list[int]:
    """Random forests with ParEGO; SMAC3 knows no limits, so what breaks one gets a high cost."""
    import logging
    from pathlib import Path

    from ConfigSpace import (
        CategoricalHyperparameter,
        Configuration,
        ConfigurationSpace,
        UniformIntegerHyperparameter,
    )
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.multi_objective.parego import ParEGO
    from smac.runhistory.dataclasses import TrialInfo, TrialValue

    logging.disable(logging.WARNING)
    known, names = _results(request), _names(request)
    space = ConfigurationSpace(seed=request["seed"])
    varying = [i for i, bins in enumerate(request["bins"]) if bins > 1]
    for i in varying:
        last = request["bins"][i] - 1
        space.add(
            UniformIntegerHyperparameter(names[i], 0, last)
            if request["is_ordered"][i]
            else CategoricalHyperparameter(names[i], list(range(last + 1)))
        )
    worst = [max(column) for column in zip(*(r["objectives"] for r in known), strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            space,
            name="peer",
            objectives=[f"f{j}" for j in range(request["n_objectives"])],
            output_directory=Path(folder),
            deterministic=True,
            n_trials=10_000,
            seed=request["seed"] % 2**31,
        )
        smac = HyperparameterOptimizationFacade(
            scenario,
            _never_called,
            multi_objective_algorithm=ParEGO(scenario),
            initial_design=HyperparameterOptimizationFacade.get_initial_design(
                scenario, n_configs=0
            ),
            overwrite=True,
        )
        seen = set()
        for item in known:
            if tuple(item["bins"]) in seen:
                continue
            seen.add(tuple(item["bins"]))
            values = {names[i]: item["bins"][i] for i in varying}
            is_feasible = all(value <= 0 for value in item["violations"])
            cost = item["objectives"] if is_feasible else worst
            info = TrialInfo(Configuration(space, values=values), seed=0)
            smac.tell(info, TrialValue(cost=cost))
        chosen = dict(smac.ask().config)
    return [int(chosen.get(name, 0)) for name in names]


def _never_called(config: Any, seed: int = 0) -> float:
    raise NotImplementedError("designs are evaluated elsewhere")


METHODS: dict[str, Callable[[Request], list[int]]] = {
    "optuna-tpe": optuna_tpe,
    "optuna-nsga2": optuna_nsga2,
    "optuna-gp": optuna_gp,
    "botorch-qlognehvi": botorch_qlognehvi,
    "ax": ax,
    "smac-parego": smac_parego,
}

if __name__ == "__main__":
    main()
