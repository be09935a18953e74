"""Special functions of float64 arrays, element by element, to the last few digits.

Compositions of ops without dtype rules or derivatives of their own: `tawny.special` adds these.
"""
