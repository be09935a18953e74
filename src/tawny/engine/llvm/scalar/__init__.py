"""Arithmetic of elements, scalars or vectors of them: dtypes, casts, primitives, bodies, folds."""
