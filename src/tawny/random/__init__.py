"""Random arrays: reproducible from a seed, whatever else is evaluated and by how many threads.

tw.random.seed(7)
noise = tw.random.normal(0.0, 0.1, shape=(3, 4))
"""

import typing as _typing

from tawny.numpy.absent import absence as _absence
from tawny.ops.random import bernoulli as bernoulli
from tawny.ops.random import choice as choice
from tawny.ops.random import draw_rows as draw_rows
from tawny.ops.random import exponential as exponential
from tawny.ops.random import gaussian as gaussian
from tawny.ops.random import integers as integers
from tawny.ops.random import local_seed as local_seed
from tawny.ops.random import normal as normal
from tawny.ops.random import permutation as permutation
from tawny.ops.random import seed as seed
from tawny.ops.random import uniform as uniform
from tawny.public_names import export_imports as _export_imports
from tawny.random.distributions import beta as beta
from tawny.random.distributions import categorical as categorical
from tawny.random.distributions import chisquare as chisquare
from tawny.random.distributions import dirichlet as dirichlet
from tawny.random.distributions import gamma as gamma
from tawny.random.distributions import gumbel as gumbel
from tawny.random.distributions import laplace as laplace
from tawny.random.distributions import logistic as logistic
from tawny.random.distributions import multivariate_normal as multivariate_normal
from tawny.random.distributions import poisson as poisson
from tawny.random.distributions import student_t as student_t

_export_imports(__name__)

if not _typing.TYPE_CHECKING:  # which would take every name for one of the module

    def __getattr__(name: str) -> object:
        raise _absence(__name__, name)
