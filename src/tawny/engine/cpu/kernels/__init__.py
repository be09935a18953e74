"""Kernels of the CPU: what each takes and gives, and a module for each family of ops."""
