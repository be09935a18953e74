"""Tawny."""

from tawny.engine import evaluate as evaluate
from tawny.ops.creation import var as var
