"""Compiled code by LLVM, for any target.

`targets` says what code is for, `ir` writes IR, `scalar` and `vectormath` the arithmetic of
elements, `runtime` compiles, caches and loads it.  What is around it, a processor's loops or a
device's grid, is the engine's.
"""
