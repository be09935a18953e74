"""oneDNN as a second provider of kernels: products, convolutions, pooling."""
