"""Differentiation: every derivative is a graph like any other."""
