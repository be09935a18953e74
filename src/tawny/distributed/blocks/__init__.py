"""Graphs over arrays in blocks: what a block of a result needs, and the tasks that compute it."""
