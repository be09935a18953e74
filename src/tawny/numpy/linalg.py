"""Linear algebra: the standard's `linalg`, NumPy's, and matrix equations."""

from tawny.errors import LinAlgError as LinAlgError
from tawny.numpy.matrix_functions import cond as cond
from tawny.numpy.matrix_functions import cross as cross
from tawny.numpy.matrix_functions import diagonal as diagonal
from tawny.numpy.matrix_functions import lstsq as lstsq
from tawny.numpy.matrix_functions import matrix_norm as matrix_norm
from tawny.numpy.matrix_functions import matrix_power as matrix_power
from tawny.numpy.matrix_functions import matrix_rank as matrix_rank
from tawny.numpy.matrix_functions import norm as norm
from tawny.numpy.matrix_functions import outer as outer
from tawny.numpy.matrix_functions import pinv as pinv
from tawny.numpy.matrix_functions import tensorinv as tensorinv
from tawny.numpy.matrix_functions import tensorsolve as tensorsolve
from tawny.numpy.matrix_functions import trace as trace
from tawny.numpy.matrix_functions import vector_norm as vector_norm
from tawny.ops.eigenvalues import eig as eig
from tawny.ops.eigenvalues import eigh as eigh
from tawny.ops.eigenvalues import eigvals as eigvals
from tawny.ops.eigenvalues import eigvalsh as eigvalsh
from tawny.ops.equations import care as care
from tawny.ops.equations import dare as dare
from tawny.ops.equations import discrete_lyapunov as discrete_lyapunov
from tawny.ops.equations import lyapunov as lyapunov
from tawny.ops.equations import sylvester as sylvester
from tawny.ops.factorisation import cholesky as cholesky
from tawny.ops.factorisation import lq as lq
from tawny.ops.factorisation import qr as qr
from tawny.ops.factorisation import svd as svd
from tawny.ops.factorisation import svdvals as svdvals
from tawny.ops.linalg import matmul as matmul
from tawny.ops.linalg import multi_dot as multi_dot
from tawny.ops.linalg import tensordot as tensordot
from tawny.ops.linalg import vecdot as vecdot
from tawny.ops.movement import matrix_transpose as matrix_transpose
from tawny.ops.systems import det as det
from tawny.ops.systems import inv as inv
from tawny.ops.systems import logdet as logdet
from tawny.ops.systems import slogdet as slogdet
from tawny.ops.systems import solve as solve
from tawny.ops.systems import solve_triangular as solve_triangular
from tawny.public_names import export_imports as _export_imports

_export_imports(__name__)
