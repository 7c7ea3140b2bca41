"""srank, the effective rank of a matrix: how many singular values hold 99 % of their sum.

    srank = min { k : sum_{i <= k} sigma_i >= 0.99 * sum_i sigma_i },   sigma_1 >= sigma_2 >= ...

Kumar et al. 2021, "Implicit Under-Parameterization Inhibits Data-Efficient Deep RL", with delta = 0.01.
"""

import math

import torch
from torch import Tensor

from adalin.metrics._network_on_data import NetworkOnData
from adalin.metrics._registry import register_metric

SHARE = 0.99


@register_metric(
    "srank", "effective rank of the last hidden layer's features", paper="Kumar et al. 2021", needs={"inputs", "units"}
)
def srank(network: NetworkOnData) -> float | None:
    """srank of the features, i.e. the (data, units) outputs of the last hidden activation.

    Razavi Rohani et al. 2025 plot it as "SRank".
    """
    return None if network.features is None else srank_of(network.features)


def srank_of(matrix: Tensor) -> float:
    """srank of a matrix: 0 if it is zero, NaN if it is not finite."""
    sigma = singular_values(matrix)
    if not sigma.isfinite().all():
        return math.nan
    if sigma[0] == 0:
        return 0.0
    held = sigma.cumsum(0)
    return float((held < SHARE * held[-1]).sum().item() + 1)


def effective_rank_of(matrix: Tensor) -> float:
    """The effective rank of Roy and Vetterli 2007: 0 if the matrix is zero, NaN if it is not finite.

    exp(-sum_i p_i log p_i),   p_i = sigma_i / sum_k sigma_k
    """
    sigma = singular_values(matrix)
    if not sigma.isfinite().all():
        return math.nan
    if sigma[0] == 0:
        return 0.0
    return torch.special.entr(sigma / sigma.sum()).sum().exp().item()


def singular_values(matrix: Tensor) -> Tensor:
    """The singular values of a matrix in units of its largest number, in falling order; NaN if it is not finite."""
    matrix = matrix.detach().double()
    largest = matrix.abs().max()
    if largest == 0 or not largest.isfinite():
        return torch.full((min(matrix.shape),), 0.0 if largest == 0 else math.nan, dtype=matrix.dtype)
    matrix = matrix / largest  # so that no square overflows or vanishes
    if matrix.shape[0] < matrix.shape[1]:
        matrix = matrix.T
    # The Gram matrix of the short side costs a fraction of an SVD. It blurs singular values below 1e-8 of the largest,
    # which are rounding errors of the float32 features anyway and nothing beside 1 % of the sum.
    return torch.linalg.eigvalsh(matrix.T @ matrix).clamp_min(0).sqrt().flip(0)
