"""Compiled code: LLVM IR is written as text, compiled in memory, and kept on disk."""
