"""What stands before kernels in OpenCL C."""

from __future__ import annotations

from typing import Final

PRELUDE: Final = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
"""

WIDE: Final = """\
ulong2 wide_zext(ulong a) { return (ulong2)(a, 0); }
ulong2 wide_add(ulong2 a, ulong2 b) {
  ulong low = a.x + b.x;
  return (ulong2)(low, a.y + b.y + (low < a.x));
}
ulong2 wide_sub(ulong2 a, ulong2 b) {
  return (ulong2)(a.x - b.x, a.y - b.y - (a.x < b.x));
}
ulong2 wide_mul(ulong2 a, ulong2 b) {
  return (ulong2)(a.x * b.x, mul_hi(a.x, b.x) + a.x * b.y + a.y * b.x);
}
ulong2 wide_shl(ulong2 a, ulong2 by) {
  ulong n = by.x;
  if (n == 0) return a;
  if (n >= 64) return (ulong2)(0, a.x << (n - 64));
  return (ulong2)(a.x << n, (a.y << n) | (a.x >> (64 - n)));
}
ulong2 wide_lshr(ulong2 a, ulong2 by) {
  ulong n = by.x;
  if (n == 0) return a;
  if (n >= 64) return (ulong2)(a.y >> (n - 64), 0);
  return (ulong2)((a.x >> n) | (a.y << (64 - n)), a.y >> n);
}
ulong2 wide_and(ulong2 a, ulong2 b) { return a & b; }
ulong2 wide_or(ulong2 a, ulong2 b) { return a | b; }
ulong2 wide_xor(ulong2 a, ulong2 b) { return a ^ b; }
ulong2 wide_ctlz(ulong2 a) { return (ulong2)(a.y ? clz(a.y) : 64 + clz(a.x), 0); }
bool wide_slt(ulong2 a, ulong2 b) {
  return (long)a.y < (long)b.y || (a.y == b.y && a.x < b.x);
}
"""
"""Arithmetic of 128 bits."""

HALVES: Final = """\
float half_widen(ushort bits) { return vload_half(0, (const __private half *)&bits); }
ushort half_narrow(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (__private half *)&bits);
  return bits;
}
"""
"""From float16 to float32, and back with one rounding; no device needs an extension for it."""
