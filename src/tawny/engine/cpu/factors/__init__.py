"""Factors of large matrices, and systems of equations by them: blocks, by our own products."""
