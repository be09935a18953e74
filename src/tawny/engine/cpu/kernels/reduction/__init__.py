"""Reductions, and elementwise steps around them: plan, code, rows, sweeps."""
