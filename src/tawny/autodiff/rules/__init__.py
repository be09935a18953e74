"""Derivative rules of the ops that are not elementwise, a chapter each as in `tawny.ops`."""

from tawny.autodiff.rules import convolution as convolution
from tawny.autodiff.rules import creation as creation
from tawny.autodiff.rules import equations as equations
from tawny.autodiff.rules import factorisation as factorisation
from tawny.autodiff.rules import fft as fft
from tawny.autodiff.rules import identity as identity
from tawny.autodiff.rules import indexing as indexing
from tawny.autodiff.rules import joining as joining
from tawny.autodiff.rules import linalg as linalg
from tawny.autodiff.rules import movement as movement
from tawny.autodiff.rules import pooling as pooling
from tawny.autodiff.rules import reduction as reduction
from tawny.autodiff.rules import scatter as scatter
from tawny.autodiff.rules import series as series
from tawny.autodiff.rules import sorting as sorting
from tawny.autodiff.rules.registry import FORWARD as FORWARD
from tawny.autodiff.rules.registry import REVERSE as REVERSE
