"""Derivative rules of the ops that are not elementwise, a chapter each as in `tawny.ops`."""

from tawny.autodiff.rules import equations as equations
from tawny.autodiff.rules import factorisation as factorisation
from tawny.autodiff.rules.registry import FORWARD as FORWARD
from tawny.autodiff.rules.registry import REVERSE as REVERSE
