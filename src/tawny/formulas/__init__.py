"""Graphs as formulas: printed as programs and in LaTeX, and to and from SymPy."""
