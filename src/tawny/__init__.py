"""Tawny."""
from tawny.engine import reference
from tawny.array import set_evaluator
set_evaluator(reference.run)
