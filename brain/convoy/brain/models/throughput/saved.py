"""A throughput model as a document and tensors, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from convoy.brain.models.state import State
from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.history import JobRows
from convoy.brain.models.throughput.misfit import Errors, Field, Misfit
from convoy.brain.models.throughput.physics import NAMES, Form
from convoy.brain.models.throughput.prior import PastJob, Prior


def saved(priors: dict[str, Prior], seed: int) -> State:
    """Return what was learned; the coefficients' names go with it, so that another release notices if they differ."""
    kinds: dict[str, Any] = {}
    tensors = {}
    for kind, prior in priors.items():
        shared = prior.misfit.shared
        kinds[kind] = {
            "coefficients": [NAMES[index] for index in prior.form.active],
            "jobs": [{"name": job.name, "labels": job.labels} for job in prior.jobs],
            "groups": [str(group) for group in shared.groups],
            "rows": [str(job) for job in shared.jobs],
            "errors": {name: _plain(value) for name, value in asdict(prior.misfit.errors).items()},
            "likeness": prior.likeness,
            "stacking": prior.stacking,
            "batch_spread": prior.batch_spread,
            "pseudo_jobs": prior.pseudo_jobs,
            "widths": list(prior.widths),
        }
        tensors[f"{kind}.theta"] = np.array([job.theta for job in prior.jobs])
        tensors[f"{kind}.covariance"] = np.array([job.covariance for job in prior.jobs])
        tensors[f"{kind}.places"] = shared.places
        tensors[f"{kind}.residual"] = shared.residual
        tensors[f"{kind}.shared"] = shared.covariance
        kinds[kind]["evidence"] = [_evidence(job) for job in prior.evidence]
        for place, job in enumerate(prior.evidence):
            tensors[f"{kind}.evidence.{place}"] = job.observations.table
    return State({"seed": seed, "kinds": kinds}, tensors)


def _evidence(job: JobRows) -> dict[str, Any]:
    return {
        "name": job.name,
        "labels": job.labels,
        "group": job.observations.group,
        "scatter": [float(one) for one in job.scatter],
    }


def _plain(value: Any) -> Any:
    return [float(one) for one in value] if isinstance(value, (tuple, list)) else float(value)


def restored(state: State) -> tuple[dict[str, Prior], int]:
    """Return the priors and the seed.

    Raises:
        ValueError: the file's coefficients aren't this release's.
    """
    priors = {}
    for kind, document in state.document["kinds"].items():
        unknown = [name for name in document["coefficients"] if name not in NAMES]
        if unknown:
            raise ValueError(f"coefficients {', '.join(unknown)} aren't known here: fit the model anew")
        theta, covariance, places, residual, shared = (
            np.asarray(state.tensors[f"{kind}.{name}"], dtype=np.float64)
            for name in ("theta", "covariance", "places", "residual", "shared")
        )
        errors: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document["errors"].items()
        }
        groups, rows = (np.array(document[name], dtype=object) for name in ("groups", "rows"))
        priors[kind] = Prior(
            tuple(
                PastJob(job["name"], job["labels"], mean, spread)
                for job, mean, spread in zip(document["jobs"], theta, covariance, strict=True)
            ),
            Misfit(Errors(**errors), Field(places, groups, rows, residual, shared)),
            document["likeness"],
            document["stacking"],
            document["batch_spread"],
            Form(tuple(NAMES.index(name) for name in document["coefficients"])),
            document["pseudo_jobs"],
            tuple(document["widths"]),
            tuple(
                JobRows(
                    job["name"],
                    job["labels"],
                    Observations.of(np.asarray(state.tensors[f"{kind}.evidence.{place}"]), job["group"]),
                    (job["scatter"][0], job["scatter"][1]),
                )
                for place, job in enumerate(document.get("evidence", []))
            ),
        )
    return priors, int(state.document["seed"])
