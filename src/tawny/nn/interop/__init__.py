"""Weights of other libraries in models of this one."""
