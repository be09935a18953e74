"""Random arrays: reproducible from a seed, whatever else is evaluated and by how many threads.

tw.random.seed(7)
noise = tw.random.normal(0.0, 0.1, shape=(3, 4))
"""

from __future__ import annotations

from tawny.ops.distributions import (
    beta,
    categorical,
    chisquare,
    dirichlet,
    gamma,
    gumbel,
    laplace,
    logistic,
    multivariate_normal,
    poisson,
    student_t,
)
from tawny.ops.random import (
    bernoulli,
    choice,
    draw_rows,
    exponential,
    gaussian,
    integers,
    normal,
    permutation,
    seed,
    seeded,
    uniform,
)

__all__ = [
    "bernoulli",
    "beta",
    "categorical",
    "chisquare",
    "choice",
    "dirichlet",
    "draw_rows",
    "exponential",
    "gamma",
    "gaussian",
    "gumbel",
    "integers",
    "laplace",
    "logistic",
    "multivariate_normal",
    "normal",
    "permutation",
    "poisson",
    "seed",
    "seeded",
    "student_t",
    "uniform",
]
