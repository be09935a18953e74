"""Compiled code: LLVM IR is written as text, compiled in memory, and kept on disk.

- `ir`: types, values and functions of the IR being written;
- `scalar`: arithmetic of elements: dtypes, casts, primitives, bodies, folds;
- `vectormath`: exp, log, sin and their like, written on the builder;
- `kernels`, `products`: loops around that arithmetic, for the threads of a CPU;
- `runtime`: from text to functions in memory: the host, LLVM, the disk, the loader.

`ir`, `scalar` and `vectormath` know no loops over arrays, and serve any target of LLVM.
"""
