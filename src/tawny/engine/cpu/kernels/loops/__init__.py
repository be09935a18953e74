"""Loops around elementwise code, as functions that all kernels share."""
