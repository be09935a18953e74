"""Kernels of GPUs, each a function of a grid of threads."""
