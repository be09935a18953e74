"""Groups: elementwise ops, reductions and products that run as one kernel, and which are chosen."""
