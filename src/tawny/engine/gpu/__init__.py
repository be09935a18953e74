"""What engines of GPUs share: kernels over grids of threads, and memory that is not the host's."""
