"""What stands before kernels in OpenCL C."""

from __future__ import annotations

from typing import Final

PRELUDE: Final = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
"""
"""Float64, and no multiply-adds but those that are asked for."""

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

WARPS: Final = """\
uint tawny_tf32(float x) {
  uint bits = as_uint(x);
  return isnan(x) ? 0x7fffffff : (bits + 0x1000) & 0xffffe000;
}
void tawny_copy(__local uchar *to, __global const uchar *from, uint inside, uint count) {
  __local uint *target = (__local uint *)to;
  __global const uint *source = (__global const uint *)from;
  for (uint i = 0; i < count / 4; i++) target[i] = i < inside / 4 ? source[i] : 0;
}
float4 tawny_multiply(
    __local uint *factors, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1,
    float c0, float c1, float c2, float c3) {
  uint thread = get_local_id(0), lane = thread & 31, group = lane >> 2, member = lane & 3;
  uint given[6] = {a0, a1, a2, a3, b0, b1};
  for (int i = 0; i < 6; i++) factors[6 * thread + i] = given[i] & 0xffffe000;
  barrier(CLK_LOCAL_MEM_FENCE);
  __local uint *warp = factors + 6 * (thread - lane);
  float sums[4] = {c0, c1, c2, c3};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 8; k++) {
      uint row = i >> 1, column = 2 * member + (i & 1), high = k >> 2;
      float a = as_float(warp[6 * (4 * group + (k & 3)) + 2 * high + row]);
      float b = as_float(warp[6 * (4 * column + (k & 3)) + 4 + high]);
      sums[i] += a * b;
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  return (float4)(sums[0], sums[1], sums[2], sums[3]);
}
"""
"""Instructions of NVIDIA's, spelled out: `cvt.rna.tf32`, `cp.async` and `mma.sync.m16n8k8.tf32`.

The last multiplies a matrix of 16 by 8 with one of 8 by 8.  Each of 32 threads holds four elements
of the first, two of the second and four sums, as NVIDIA lays them out; here the threads exchange
them by way of local memory, for which they wait for each other.
"""
