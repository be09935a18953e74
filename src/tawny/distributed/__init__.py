"""Work handed to Dask: runs of one graph on many machines, a program compiled once on each."""
