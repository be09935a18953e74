"""Engines: what runs a graph.  `cpu` is the default, `reference` judges all others.

`protocol` says what an engine is and finds one by its name, `lowering` what all of them are given,
`llvm` is the compiler they share, `evaluation` computes values on the spot.
"""
