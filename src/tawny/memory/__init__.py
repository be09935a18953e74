"""Memory planning: order, in-place reuse, placement and recomputation, before anything runs.

Pure combinatorics over a `Problem`; knows nothing of arrays, ops or engines.
"""
