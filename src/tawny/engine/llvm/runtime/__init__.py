"""From IR to functions in memory: the compiler, the host, the cache on disk, the loader."""
