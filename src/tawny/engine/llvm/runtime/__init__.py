"""From IR to functions in memory: the host, LLVM, the cache on disk, the loader of objects."""
