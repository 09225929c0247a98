"""How much a step, or a sample, of a larger batch is worth: statistical efficiency from the noise of gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def gain(scale: ArrayLike, grad_sqr: ArrayLike, grad_var: ArrayLike) -> Array:
    """Return the progress of one step, in steps of the initial batch.

    A step's direction is a mean gradient whose noise falls with the batch, so a step of ``scale`` initial batches is
    worth ``(grad_var + grad_sqr) / (grad_var / scale + grad_sqr)`` steps of one: ``scale`` where all is noise, 1
    where nothing is. Divided by ``scale`` it is the efficiency of a sample; divided by the step's seconds, goodput.

    Args:
        scale: global batch / initial batch, positive.
        grad_sqr: squared norm of the mean gradient, not negative.
        grad_var: variance of the gradient of one initial batch (summed over parameters), not negative.

    Returns:
        The gain, of the arguments' common shape; NaN where an argument is out of its range or not finite, or where
        both statistics are zero.

    Source: the gradient noise scale ``grad_var / grad_sqr`` of McCandlish et al., An Empirical Model of Large-Batch
    Training, 2018, as the gain of AdaScale (Johnson et al., 2020) and of the goodput of Qiao et al., OSDI'21.
    """
    sizes, squares, variances = (np.asarray(value, dtype=np.float64) for value in (scale, grad_sqr, grad_var))
    sound = np.isfinite(sizes) & (sizes > 0) & np.isfinite(squares) & (squares >= 0)
    sound = sound & np.isfinite(variances) & (variances >= 0)
    # scaled by the larger of the two, so that neither norms of 1e300 nor of 1e-300 leave the numbers' range
    largest = np.where(sound, np.maximum(squares, variances), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        signal, noise = squares / largest, variances / largest
        return np.asarray(np.where(largest > 0, (noise + signal) / (noise / sizes + signal), np.nan))


def log_efficiency(log_scale: ArrayLike, log_noise: ArrayLike) -> Array:
    """Return the logarithm of a sample's worth at a batch, against one at the initial batch.

    That is ``gain / scale``, from the logarithms of ``scale`` and of the noise scale ``grad_var / grad_sqr``; finite
    wherever these are, and growing with the noise where the batch is larger than the initial one.
    """
    scale, noise = np.asarray(log_scale, dtype=np.float64), np.asarray(log_noise, dtype=np.float64)
    return np.asarray(np.logaddexp(noise, 0.0) - np.logaddexp(noise, scale))
