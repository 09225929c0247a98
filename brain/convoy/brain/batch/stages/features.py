"""Stage ``features``: what the store holds for each kind of model, read as of the run's beginning."""

from __future__ import annotations

import pandas as pd

from convoy.brain.batch import fit
from convoy.brain.batch.recipes import RECIPES, Recipe
from convoy.brain.batch.work import Document, Result, Work, told
from convoy.brain.models.registry.facts import frame_digest
from convoy.core.api.errors import NotFound, Unavailable


def features(work: Work) -> Result:
    """Read the frames, and say what is in each.

    Raises:
        Unavailable: the database can't be reached.
    """
    document: Document = {}
    for name, recipe in RECIPES.items():
        work.check()
        work.around.progress("features", f"{name}: reading the store")
        try:
            order = fit.read(work.around.engine, work.around.registry, name, work.now)
        except Unavailable:
            raise
        except NotFound as error:
            document[name] = {"nothing": str(error)}
        except Exception as error:
            document[name] = {"error": told(error)}
        else:
            work.orders[name] = order
            document[name] = _described(order.frame, recipe)
    return Result(document)


def _described(frame: pd.DataFrame, recipe: Recipe) -> Document:
    moments = frame[recipe.moment].dropna()
    return {
        "rows": len(frame),
        "jobs": int(frame[list(recipe.jobs)].drop_duplicates().shape[0]),
        "from": None if moments.empty else moments.min().isoformat(),
        "until": None if moments.empty else moments.max().isoformat(),
        "digest": frame_digest(frame),
    }
