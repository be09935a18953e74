"""Linear algebra: the standard's `linalg`, NumPy's, and matrix equations."""

from tawny.errors import LinAlgError as LinAlgError
from tawny.ops.equations import care as care
from tawny.ops.equations import dare as dare
from tawny.ops.equations import discrete_lyapunov as discrete_lyapunov
from tawny.ops.equations import lyapunov as lyapunov
from tawny.ops.equations import sylvester as sylvester
from tawny.ops.factorisation import cholesky as cholesky
from tawny.ops.factorisation import det as det
from tawny.ops.factorisation import eig as eig
from tawny.ops.factorisation import eigh as eigh
from tawny.ops.factorisation import eigvals as eigvals
from tawny.ops.factorisation import eigvalsh as eigvalsh
from tawny.ops.factorisation import inv as inv
from tawny.ops.factorisation import logdet as logdet
from tawny.ops.factorisation import lq as lq
from tawny.ops.factorisation import qr as qr
from tawny.ops.factorisation import slogdet as slogdet
from tawny.ops.factorisation import solve as solve
from tawny.ops.factorisation import solve_triangular as solve_triangular
from tawny.ops.factorisation import svd as svd
from tawny.ops.factorisation import svdvals as svdvals
from tawny.ops.linalg import matmul as matmul
from tawny.ops.linalg import multi_dot as multi_dot
from tawny.ops.linalg import tensordot as tensordot
from tawny.ops.linalg import vecdot as vecdot
from tawny.ops.matrix import cond as cond
from tawny.ops.matrix import cross as cross
from tawny.ops.matrix import diagonal as diagonal
from tawny.ops.matrix import lstsq as lstsq
from tawny.ops.matrix import matrix_norm as matrix_norm
from tawny.ops.matrix import matrix_power as matrix_power
from tawny.ops.matrix import matrix_rank as matrix_rank
from tawny.ops.matrix import norm as norm
from tawny.ops.matrix import outer as outer
from tawny.ops.matrix import pinv as pinv
from tawny.ops.matrix import tensorinv as tensorinv
from tawny.ops.matrix import tensorsolve as tensorsolve
from tawny.ops.matrix import trace as trace
from tawny.ops.matrix import vector_norm as vector_norm
from tawny.ops.movement import matrix_transpose as matrix_transpose

__all__ = [
    "LinAlgError",
    "care",
    "cholesky",
    "cond",
    "cross",
    "dare",
    "det",
    "diagonal",
    "discrete_lyapunov",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "logdet",
    "lq",
    "lstsq",
    "lyapunov",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "sylvester",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return list(__all__)
