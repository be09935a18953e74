"""Every rule: a line where it applies, and lines where a guard holds it back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from random_graphs import assert_close, assert_same_bits, evaluated
from tawny.array import Array
from tawny.engine.reference import run
from tawny.node import Node, toposort
from tawny.op import ELEMENTWISE
from tawny.operator import emit
from tawny.ops.creation import Cast
from tawny.ops.movement import BroadcastTo, Reshape, Transpose
from tawny.rewrite.facts import NodeFacts
from tawny.rewrite.flow import Kind
from tawny.rewrite.pipeline import CONTRACT, SIMPLIFY, OptimisedGraph, optimise, rules

RULES = (SIMPLIFY, CONTRACT)
"""The passes made of rule tables."""

x = tw.var("x", shape=(4, 3))
y = tw.var("y", shape=(4, 3))
row = tw.var("row", shape=(3,))
one_row = tw.var("one_row", shape=(1, 3))
column = tw.var("column", shape=(4, 1))
s = tw.var("s")
f = tw.var("f", shape=(4, 3), dtype="float32")
i = tw.var("i", shape=(4, 3), dtype="int64")
j = tw.var("j", shape=(4, 3), dtype="int8")
u = tw.var("u", shape=(4, 3), dtype="uint8")
b = tw.var("b", shape=(4, 3), dtype="bool")
c = tw.var("c", shape=(4, 3), dtype="complex128")
cube = tw.var("cube", shape=(2, 4, 3))
narrow = tw.var("narrow", shape=(1, 4, 1))
long = tw.var("long", shape=(1024,))
VARIABLES = (x, y, row, one_row, column, s, f, i, j, u, b, c, cube, narrow, long)

table, same_table = (tnp.asarray(np.linspace(0.5, 2.0, 1024)) for _ in range(2))

narrow_first = tw.var("narrow_first", shape=(1, 3, 1))
few_first = tw.var("few_first", shape=(2, 3, 1))
tall = tw.var("tall", shape=(2, 3, 4))
VARIABLES = (*VARIABLES, narrow_first, few_first, tall)


def first(image: Array) -> Array:
    """The channels of an image, which are its last axis, moved to the front."""
    return tnp.permute_dims(image, (0, image.ndim - 1, *range(1, image.ndim - 1)))


zeros, ones = tnp.zeros((4, 3)), tnp.ones((4, 3))
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 1e-310, 3.0, -1.0, 0.5, 7.0])


def apply(name: str, *operands: Any) -> Array:
    return emit(ELEMENTWISE[name], *operands)


def simplified(*arrays: Array, **options: Any) -> OptimisedGraph:
    return optimise([a.node for a in arrays], evaluate=run, check=True, pipeline=RULES, **options)


def feeds(special: bool) -> dict[Node, Any]:
    out = {}
    for k, variable in enumerate(VARIABLES):
        rng = np.random.default_rng(k)
        shape, dtype = variable.shape, variable.dtype
        if dtype.kind == "f" and special:
            value = rng.permutation(np.resize(SPECIAL, max(int(np.prod(shape)), 12)))[
                : int(np.prod(shape))
            ].reshape(shape)
        elif dtype.kind == "c":
            value = rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)
        elif dtype.kind == "b":
            value = rng.random(shape) < 0.5
        else:
            value = np.asarray(rng.uniform(0 if dtype.kind == "u" else -3, 4, shape))
        out[variable.node] = np.asarray(value).astype(dtype)
    return out


Line = tuple[str, Callable[[], Array], Callable[[], Array]]

LINES: list[Line] = [
    # name of the rule, what the user writes, what is left
    ("einsum_pairs", lambda: tnp.einsum("ij,kj,kl->il", x, y, x), lambda: tnp.einsum("ij,jl->il", x, tnp.einsum("kj,kl->jl", y, x))),
    ("add_zero", lambda: i + 0, lambda: i),
    ("add_zero", lambda: 0 + i, lambda: i),
    ("add_zero", lambda: x + -0.0, lambda: x),
    ("add_zero", lambda: tnp.exp(x) + 0.0, lambda: tnp.exp(x)),
    ("add_zero", lambda: tnp.abs(x) + zeros, lambda: tnp.abs(x)),
    ("add_zero", lambda: b + tnp.asarray(False), lambda: b),
    ("subtract_zero", lambda: x - 0.0, lambda: x),
    ("subtract_zero", lambda: i - 0, lambda: i),
    ("subtract_zero", lambda: x - zeros, lambda: x),
    ("zero_minus", lambda: 0 - i, lambda: -i),
    ("zero_minus", lambda: -0.0 - x, lambda: -x),
    ("subtract_self", lambda: i - i, lambda: tnp.zeros((4, 3), dtype="int64")),
    ("subtract_self_float", lambda: tnp.astype(i, "float64") - tnp.astype(i, "float64"), lambda: zeros),
    ("double_negative", lambda: tnp.negative(-x), lambda: x),
    ("add_negative", lambda: x + -y, lambda: x - y),
    ("add_negative", lambda: -x + y, lambda: y - x),
    ("subtract_negative", lambda: x - -y, lambda: x + y),
    ("merge_sums", lambda: (i + 2) + 3, lambda: i + 5),
    ("merge_sums", lambda: 3 + (2 + i), lambda: i + 5),
    ("merge_sums", lambda: (i + 2) - 3, lambda: i + -1),
    ("merge_sums", lambda: (i - 2) + 3, lambda: i + 1),
    ("merge_sums", lambda: (i - 2) - 3, lambda: i - 5),
    ("merge_sums", lambda: (2 - i) + 3, lambda: 5 - i),
    ("merge_sums", lambda: (2 - i) - 3, lambda: -1 - i),
    ("merge_sums", lambda: 2 - (i + 3), lambda: -1 - i),
    ("merge_sums", lambda: 2 - (i - 3), lambda: 5 - i),
    ("merge_sums", lambda: 2 - (3 - i), lambda: i + -1),
    ("merge_sums", lambda: (u + 200) - 201, lambda: u + tnp.asarray(255, dtype="uint8")),
    ("merge_sums", lambda: (j + 100) + 100, lambda: j + tnp.asarray(-56, dtype="int8")),
    ("multiply_one", lambda: x * 1, lambda: x),
    ("multiply_one", lambda: 1 * i, lambda: i),
    ("multiply_one", lambda: x * ones, lambda: x),
    ("multiply_one", lambda: s * ones, lambda: tnp.broadcast_to(s, (4, 3))),
    ("multiply_one", lambda: b * tnp.asarray(True), lambda: b),
    ("multiply_one", lambda: i * tnp.asarray(1.0), lambda: tnp.astype(i, "float64")),
    ("multiply_one", lambda: one_row * ones, lambda: tnp.broadcast_to(one_row, (4, 3))),
    ("multiply_zero", lambda: i * 0, lambda: tnp.zeros((4, 3), dtype="int64")),
    ("multiply_zero_float", lambda: tnp.astype(i, "float64") * 0.0, lambda: zeros),
    ("merge_products", lambda: (i * 2) * 3, lambda: i * 6),
    ("merge_products", lambda: (j * 16) * 17, lambda: j * 16),
    ("merge_constants", lambda: tnp.sin(long * table) - tnp.cos(long * same_table), lambda: tnp.sin(long * table) - tnp.cos(long * table)),
    ("multiply_minus_one", lambda: x * -1, lambda: -x),
    ("multiply_minus_one", lambda: -1 * i, lambda: -i),
    ("multiply_negatives", lambda: -x * -y, lambda: x * y),
    ("divide_one", lambda: x / 1, lambda: x),
    ("divide_one", lambda: i / 1, lambda: tnp.astype(i, "float64")),
    ("divide_one", lambda: row / ones, lambda: tnp.broadcast_to(row, (4, 3))),
    ("divide_minus_one", lambda: x / -1, lambda: -x),
    ("divide_negatives", lambda: -x / -y, lambda: x / y),
    ("divide_power_of_two", lambda: x / 4, lambda: x * 0.25),
    ("divide_power_of_two", lambda: x / -0.5, lambda: x * -2.0),
    ("power_zero", lambda: x**0, lambda: ones),
    ("power_zero", lambda: i**0, lambda: tnp.ones((4, 3), dtype="int64")),
    ("power_one", lambda: x**1, lambda: x),
    ("power_one", lambda: i**1, lambda: i),
    ("power_one_complex", lambda: c**1, lambda: c),
    ("power_two", lambda: i**2, lambda: tnp.square(i)),
    ("power_two_float", lambda: tnp.pow(x, tnp.full((4, 3), 2.0)), lambda: tnp.square(x)),
    ("power_two", lambda: j ** np.int64(2), lambda: tnp.square(tnp.astype(j, "int64"))),
    ("power_few", lambda: i**3, lambda: tnp.square(i) * i),
    ("power_few_float", lambda: x**3, lambda: tnp.square(x) * x),
    ("power_few_float", lambda: x**4, lambda: tnp.square(tnp.square(x))),
    ("power_few_float", lambda: x**5, lambda: tnp.square(tnp.square(x)) * x),
    ("power_few_float", lambda: x**6.0, lambda: tnp.square(tnp.square(x) * x)),
    ("power_half_positive", lambda: tnp.pow(tnp.square(x), tnp.full((4, 3), 0.5)), lambda: tnp.sqrt(tnp.square(x))),
    ("power_minus_one_float", lambda: tnp.pow(x, tnp.full((4, 3), -1.0)), lambda: tnp.reciprocal(x)),
    ("square_negative", lambda: tnp.square(-x), lambda: tnp.square(x)),
    ("square_absolute", lambda: tnp.square(tnp.abs(x)), lambda: tnp.square(x)),
    ("absolute_negative", lambda: tnp.abs(-x), lambda: tnp.abs(x)),
    ("absolute_positive", lambda: tnp.abs(tnp.exp(x)), lambda: tnp.exp(x)),
    ("absolute_positive", lambda: tnp.abs(u), lambda: u),
    ("maximum_zero", lambda: tnp.maximum(x, 0), lambda: apply("relu", x)),
    ("relu_twice", lambda: apply("relu", apply("relu", x)), lambda: apply("relu", x)),
    ("where_constant", lambda: tnp.where(True, x, y), lambda: x),
    ("where_constant", lambda: tnp.where(tnp.zeros((4, 3), dtype="bool"), x, y), lambda: y),
    ("where_constant", lambda: tnp.where(True, row, x), lambda: tnp.broadcast_to(row, (4, 3))),
    ("where_same", lambda: tnp.where(b, x, x), lambda: x),
    ("positive", lambda: +x, lambda: x),
    ("round_integer", lambda: tnp.floor(i), lambda: i),
    ("real_part", lambda: tnp.conj(x), lambda: x),
    ("real_part", lambda: tnp.real(x), lambda: x),
    ("no_nan_in_integers", lambda: tnp.isnan(i), lambda: tnp.zeros((4, 3), dtype="bool")),
    ("integers_are_finite", lambda: tnp.isfinite(i), lambda: tnp.ones((4, 3), dtype="bool")),
    ("involution", lambda: tnp.conj(tnp.conj(c)), lambda: c),
    ("involution", lambda: ~~i, lambda: i),
    ("idempotent", lambda: tnp.floor(tnp.floor(x)), lambda: tnp.floor(x)),
    ("same_operands", lambda: tnp.maximum(x, x), lambda: x),
    ("same_operands", lambda: i & i, lambda: i),
    ("commute", lambda: tnp.sin(x + y) * tnp.sin(y + x), lambda: tnp.sin(x + y) * tnp.sin(x + y)),
    ("copy", lambda: tnp.copy(x), lambda: x),
    ("stop_gradient", lambda: tw.stop_gradient(x), lambda: x),
    ("own_derivative", lambda: tw.checkpoint(tnp.sin)(x), lambda: tnp.sin(x)),
    ("cast_same", lambda: emit(Cast(x.dtype), x), lambda: x),
    ("reshape_same", lambda: emit(Reshape((4, 3)), x), lambda: x),
    ("broadcast_same", lambda: emit(BroadcastTo((4, 3)), x), lambda: x),
    ("transpose_same", lambda: emit(Transpose((0, 1)), x), lambda: x),
    ("slice_whole", lambda: x[::-1][::-1], lambda: x),
    ("flip_ones", lambda: tnp.flip(one_row, axis=0), lambda: one_row),
    ("roll_nothing", lambda: tnp.roll(x, 4, axis=0), lambda: x),
    ("pad_nothing", lambda: tnp.pad(x, 0), lambda: x),
    ("repeat_once", lambda: tnp.repeat(x, 1, axis=0), lambda: x),
    ("tile_once", lambda: tnp.tile(x, 1), lambda: x),
    ("move_filled", lambda: tnp.reshape(zeros, (12,)), lambda: tnp.zeros(12)),
    ("move_filled", lambda: tnp.tile(tnp.ones(3), 2), lambda: tnp.ones(6)),
    ("move_filled", lambda: tnp.ones((4, 3)).T[1:], lambda: tnp.ones((2, 4))),
    ("pad_filled", lambda: tnp.pad(zeros, 1), lambda: tnp.zeros((6, 5))),
    ("transpose_ones", lambda: tnp.permute_dims(narrow, (1, 0, 2)), lambda: tnp.reshape(narrow, (4, 1, 1))),
    ("reshape_reshape", lambda: tnp.reshape(tnp.reshape(x, (12,)), (2, 6)), lambda: tnp.reshape(x, (2, 6))),
    ("broadcast_broadcast", lambda: tnp.broadcast_to(tnp.broadcast_to(row, (4, 3)), (2, 4, 3)), lambda: tnp.broadcast_to(row, (2, 4, 3))),
    ("transpose_transpose", lambda: tnp.permute_dims(tnp.permute_dims(cube, (1, 2, 0)), (1, 0, 2)), lambda: tnp.permute_dims(cube, (2, 1, 0))),
    ("flip_flip", lambda: tnp.flip(tnp.flip(x, axis=0), axis=1), lambda: tnp.flip(x)),
    ("roll_roll", lambda: tnp.roll(tnp.roll(x, 1, axis=0), 2, axis=0), lambda: tnp.roll(x, 3, axis=0)),
    ("slice_slice", lambda: cube[:, 1:][:, ::2], lambda: cube[:, 1::2]),
    ("slice_slice", lambda: cube[:, ::-1][:, :2], lambda: cube[:, 3:1:-1]),
    ("slice_broadcast", lambda: tnp.broadcast_to(row, (4, 3))[:2, 1:], lambda: tnp.broadcast_to(row[1:], (2, 2))),
    ("slice_concat", lambda: tnp.concat([x, y])[4:6], lambda: y[:2]),
    ("slice_concat", lambda: tnp.concat([x, y])[4:], lambda: y),
    ("cast_cast", lambda: tnp.astype(tnp.astype(j, "int32"), "int64"), lambda: tnp.astype(j, "int64")),
    ("concat_flat", lambda: tnp.concat([x]), lambda: x),
    ("concat_flat", lambda: tnp.concat([tnp.concat([x, y]), x]), lambda: tnp.concat([x, y, x])),
    ("concat_flat", lambda: tnp.concat([x, y[:0]]), lambda: x),
    ("repeat_broadcast", lambda: tnp.repeat(column, 3, axis=1), lambda: tnp.broadcast_to(column, (4, 3))),
    ("tile_broadcast", lambda: tnp.tile(one_row, (4, 1)), lambda: tnp.broadcast_to(one_row, (4, 3))),
    ("pad_pad", lambda: tnp.pad(tnp.pad(x, 1), ((2, 0), (0, 3))), lambda: tnp.pad(x, ((3, 1), (1, 4)))),
    ("sink_elementwise", lambda: tnp.exp(first(cube)), lambda: first(tnp.exp(cube))),
    ("sink_elementwise", lambda: first(cube) * first(cube + 1), lambda: first(cube * (cube + 1))),
    ("sink_elementwise", lambda: first(cube) * narrow_first, lambda: first(cube * tnp.reshape(narrow_first, (1, 1, 3)))),
    ("sink_concat", lambda: tnp.concat([first(cube), first(cube + 1)], 1), lambda: first(tnp.concat([cube, cube + 1], 2))),
    ("sink_concat", lambda: tnp.concat([first(cube), few_first], 2), lambda: first(tnp.concat([cube, tnp.reshape(few_first, (2, 1, 3))], 1))),
    ("sink_view", lambda: first(cube)[:, 1:, ::2], lambda: first(cube[:, ::2, 1:])),
    ("sink_view", lambda: tnp.pad(first(cube), ((0, 0), (1, 0), (0, 2))), lambda: first(tnp.pad(cube, ((0, 0), (0, 2), (1, 0))))),
    ("sink_view", lambda: tnp.repeat(first(cube), 2, axis=2), lambda: first(tnp.repeat(cube, 2, axis=1))),
    ("channels_first", lambda: tnp.transpose(tnp.reshape(cube, (2, 1, 4, 3)), (0, 3, 2, 1)), lambda: tnp.transpose(tnp.reshape(cube, (2, 4, 1, 3)), (0, 3, 1, 2))),
    ("sink_ones", lambda: tnp.reshape(first(cube), (2, 3, 1, 4, 1)), lambda: tnp.transpose(tnp.reshape(cube, (2, 1, 4, 1, 3)), (0, 4, 1, 2, 3))),
    ("sink_extreme", lambda: tnp.max(first(cube), axis=2), lambda: tnp.max(cube, axis=1)),
    ("sink_sum", lambda: tnp.sum(first(cube), axis=1, keepdims=True), lambda: tnp.reshape(tnp.sum(cube, axis=2, keepdims=True), (2, 1, 4))),
    ("sort_sort", lambda: tnp.sort(tnp.sort(x)), lambda: tnp.sort(x)),
    ("hoist_broadcast", lambda: x + tnp.broadcast_to(row, (4, 3)), lambda: x + row),
    ("hoist_broadcast", lambda: x * tnp.repeat(column, 3, axis=1), lambda: x * column),
    ("hoist_broadcast", lambda: tnp.sin(tnp.broadcast_to(row, (4, 3))), lambda: tnp.broadcast_to(tnp.sin(row), (4, 3))),
    ("hoist_broadcast", lambda: tnp.astype(tnp.broadcast_to(s, (9,)), "float32"), lambda: tnp.broadcast_to(tnp.astype(s, "float32"), (9,))),
    ("broadcast_ones", lambda: tnp.broadcast_to(row, (1, 3)), lambda: tnp.reshape(row, (1, 3))),
    ("drop_ones", lambda: x + row[None, :], lambda: x + row),
    ("drop_ones", lambda: x * tnp.reshape(s, (1, 1)), lambda: x * s),
    ("reduce_broadcast", lambda: tnp.max(tnp.broadcast_to(row, (4, 3)), axis=0), lambda: row),
    ("reduce_broadcast", lambda: tnp.max(tnp.broadcast_to(row, (4, 3))), lambda: tnp.max(tnp.reshape(row, (1, 3)), axis=(0, 1))),
    ("reduce_one", lambda: tnp.max(column, axis=1), lambda: tnp.reshape(column, (4,))),
    ("reduce_one", lambda: tnp.prod(s, axis=()), lambda: s),
    ("reduce_one", lambda: tnp.sum(i[:1], axis=0), lambda: tnp.reshape(i[:1], (3,))),
    ("reduce_one_float", lambda: tnp.sum(column, axis=1, keepdims=True), lambda: column),
    ("reduce_one_float", lambda: tnp.mean(one_row, axis=0), lambda: tnp.reshape(one_row, (3,))),
    ("sum_zeros", lambda: tnp.hypot(x, tnp.sum(tnp.zeros((1000, 1000, 3)), axis=(0, 1))), lambda: tnp.hypot(x, tnp.asarray(0.0))),
    ("prod_ones", lambda: x * tnp.prod(tnp.ones((1000, 1000, 3)), axis=(0, 1)), lambda: x),
    ("reduce_reduce", lambda: tnp.sum(tnp.sum(i, axis=0), axis=0), lambda: tnp.sum(i)),
    ("reduce_reduce", lambda: tnp.max(tnp.max(i, axis=0, keepdims=True), axis=1), lambda: tnp.reshape(tnp.max(i), (1,))),
    ("reduce_reduce", lambda: tnp.all(tnp.all(b, axis=1), axis=0), lambda: tnp.all(b)),
    ("reduce_reduce_float", lambda: tnp.max(tnp.max(cube, axis=1), axis=1), lambda: tnp.max(cube, axis=(1, 2))),
    ("reduce_keepdims", lambda: tnp.squeeze(tnp.sum(x, axis=1, keepdims=True)), lambda: tnp.sum(x, axis=1)),
    ("reduce_keepdims", lambda: tnp.expand_dims(tnp.sum(x, axis=1), axis=1), lambda: tnp.sum(x, axis=1, keepdims=True)),
    ("fold_constants", lambda: x * (tnp.asarray(2.0) + tnp.asarray(3.0)), lambda: x * 5.0),
    ("fold_constants", lambda: x * tnp.exp(zeros) * 7, lambda: x * 7),
    ("adagrad", lambda: 0.005 / tnp.sqrt(x + 1e-32), lambda: apply("adagrad_rate", x, 0.005, 1e-32)),
    ("adagrad_fma", lambda: 0.005 / tnp.sqrt(x * y + 1e-32), lambda: apply("adagrad_rate", x * y, 0.005, 1e-32)),
    ("fma", lambda: x * y + row, lambda: apply("fma", x, y, row)),
    ("fma", lambda: row + x * y, lambda: apply("fma", x, y, row)),
    ("fma", lambda: one_row * row + x, lambda: apply("fma", one_row, row, x)),
    ("fma_square", lambda: tnp.square(x) + y, lambda: apply("fma", x, x, y)),
    ("fma_negative", lambda: x - 0.1 * y, lambda: apply("fma", -0.1, y, x)),
]  # fmt: skip

FINITE_LINES: list[Line] = [
    ("add_zero_float", lambda: x + 0.0, lambda: x),
    ("add_zero_float", lambda: zeros + x, lambda: x),
    ("add_zero_float", lambda: x + tnp.asarray(np.zeros((4, 3))), lambda: x),
    ("add_zero_float", lambda: row + zeros, lambda: tnp.broadcast_to(row, (4, 3))),
    ("add_zero_float", lambda: f + zeros, lambda: tnp.astype(f, "float64")),
    ("add_zero_float", lambda: s + zeros, lambda: tnp.broadcast_to(s, (4, 3))),
    ("add_zero_float", lambda: c + 0, lambda: c),
    ("subtract_zero_float", lambda: x - -0.0, lambda: x),
    ("zero_minus_float", lambda: 0.0 - x, lambda: -x),
    ("subtract_self_float", lambda: x - x, lambda: zeros),
    ("multiply_one_complex", lambda: c * 1, lambda: c),
    ("divide_one_complex", lambda: c / 1, lambda: c),
    ("multiply_zero_float", lambda: x * 0.0, lambda: zeros),
    ("multiply_zero_float", lambda: zeros * row, lambda: zeros),
    ("zero_divide", lambda: zeros / row, lambda: zeros),
    ("divide_self", lambda: x / x, lambda: ones),
    ("power_half_finite", lambda: tnp.pow(x, tnp.full((4, 3), 0.5)), lambda: tnp.sqrt(x)),
]


REASSOCIATING_LINES: list[Line] = [
    ("reassociate_sums", lambda: (x + 1) + 2, lambda: x + 3.0),
    ("reassociate_sums", lambda: 2 + (1 + f), lambda: f + np.float32(3)),
    ("reassociate_sums", lambda: (x + 1) - 4, lambda: x + -3.0),
    ("reassociate_sums", lambda: (x - 1) + 4, lambda: x + 3.0),
    ("reassociate_sums", lambda: (x - 1) - 2, lambda: x - 3.0),
    ("reassociate_sums", lambda: (1 - x) + 2, lambda: 3.0 - x),
    ("reassociate_sums", lambda: (1 - x) - 2, lambda: -1.0 - x),
    ("reassociate_sums", lambda: 1 - (x + 2), lambda: -1.0 - x),
    ("reassociate_sums", lambda: 1 - (x - 2), lambda: 3.0 - x),
    ("reassociate_sums", lambda: 1 - (3 - x), lambda: x + -2.0),
    ("reassociate_sums", lambda: (c + 1) + 2j, lambda: c + (1 + 2j)),
    ("reassociate_sums", lambda: (x + 1) + tnp.full((2, 4, 3), 2.0), lambda: tnp.broadcast_to(x + 3.0, (2, 4, 3))),
    ("reassociate_products", lambda: (x * 2) * 3, lambda: x * 6.0),
    ("reassociate_products", lambda: (x * 3) / 6, lambda: x * 0.5),
    ("reassociate_products", lambda: (x / 3) * 6, lambda: x * 2.0),
    ("reassociate_products", lambda: (x / 3) / 5, lambda: x / 15.0),
    ("reassociate_products", lambda: (3 / x) * 5, lambda: 15.0 / x),
    ("reassociate_products", lambda: (6 / x) / 3, lambda: 2.0 / x),
    ("reassociate_products", lambda: 6 / (x * 3), lambda: 2.0 / x),
    ("reassociate_products", lambda: 6 / (x / 3), lambda: 18.0 / x),
    ("gather_sums", lambda: ((x + 1) + y) + 2, lambda: (x + y) + 3.0),
    ("gather_sums", lambda: (x + 1) + (y + 2), lambda: (y + x) + 3.0),
    ("gather_sums", lambda: ((i + 1) + i * i) + 2, lambda: (i + i * i) + 3),
    ("gather_products", lambda: ((x * 2) * y) * 3, lambda: (x * y) * 6.0),
]  # fmt: skip


def _ids(lines: list[Line]) -> list[str]:
    return [f"{name}-{k}" for k, (name, _, _) in enumerate(lines)]


@pytest.mark.parametrize(("name", "before", "after"), LINES, ids=_ids(LINES))
def test_rule(name: str, before: Callable[[], Array], after: Callable[[], Array]) -> None:
    written, wanted = before(), after()
    result = simplified(written)
    assert name in result.rewrites.counts()
    assert result.outputs == (wanted.node,)
    kinds = {r.rule.kind for r in result.rewrites}
    special = kinds == {Kind.EXACT}
    values = feeds(special)
    compare = assert_same_bits if special else assert_close
    compare(evaluated(result.outputs, values), evaluated([written.node], values))


@pytest.mark.parametrize(("name", "before", "after"), FINITE_LINES, ids=_ids(FINITE_LINES))
def test_finite_rule_applies_when_the_user_says_so(
    name: str, before: Callable[[], Array], after: Callable[[], Array]
) -> None:
    assert simplified(before()).rewrites.kinds()[Kind.FINITE] == 0
    result = simplified(before(), assume_finite=True)
    assert name in result.rewrites.counts()
    assert result.outputs == (after().node,)


@pytest.mark.parametrize(
    ("name", "before", "after"), REASSOCIATING_LINES, ids=_ids(REASSOCIATING_LINES)
)
def test_reassociating_rule_applies_when_it_is_enabled(
    name: str, before: Callable[[], Array], after: Callable[[], Array]
) -> None:
    assert simplified(before()).rewrites.kinds()[Kind.REASSOCIATING] == 0
    result = simplified(before(), enable=["reassociating"])
    assert name in result.rewrites.counts()
    (wanted,) = simplified(after()).outputs
    assert result.outputs == (wanted,)
    values = feeds(special=False)
    assert_close(evaluated(result.outputs, values), evaluated([before().node], values))


def test_every_rule_has_a_line() -> None:
    tested = {name for name, _, _ in (*LINES, *FINITE_LINES, *REASSOCIATING_LINES)}
    assert {r.name for r in rules(RULES)} == tested


def test_rules_say_what_they_mean_and_have_one_name_each() -> None:
    known = rules()
    assert len({r.name for r in known}) == len(known)
    assert all(r.says for r in known)


STILL_UNTOUCHED: list[tuple[str, Callable[[], Array]]] = [
    ("adding last would add to more elements", lambda: (row + 1.5) + x),
    ("float32 rounds before it is widened", lambda: (f + np.float32(0.1)) + tnp.asarray(0.2)),
    ("a quotient of integers is a float", lambda: (i * 2) / 3),
    ("no constants", lambda: (x + y) + tnp.sin(x)),
]
"""Even where reassociation is enabled."""


@pytest.mark.parametrize(("why", "make"), STILL_UNTOUCHED, ids=[w for w, _ in STILL_UNTOUCHED])
def test_guard_of_reassociation_holds(why: str, make: Callable[[], Array]) -> None:
    array = make()
    assert simplified(array, enable=["reassociating"]).outputs == (array.node,)


def test_what_others_read_is_not_gathered() -> None:
    inner = x + 1.5
    result = simplified(inner + y, tnp.sin(inner), enable=["reassociating"])
    assert "gather_sums" not in result.rewrites.counts()


UNTOUCHED: list[tuple[str, Callable[[], Array]]] = [
    ("zero times NaN is NaN", lambda: x * 0.0),
    ("zero by zero is NaN", lambda: 0.0 / x),
    ("both are needed for the shape", lambda: row[None, :] * row[None, :]),
    ("infinity less itself is NaN", lambda: x - x),
    ("0 / 0 is not 1", lambda: x / x),
    ("complex infinities", lambda: c * 1),
    ("int8 is negated before it is widened", lambda: i + -j),
    ("the sum of floats is not reassociated", lambda: (x + 0.1) + 0.2),
    ("nor is the product", lambda: (x * 0.1) * 0.2),
    ("an array of exponents is rounded its own way", lambda: tnp.pow(tnp.sin(x), tnp.full((4, 3), 0.5))),
    ("a third is not a power of two", lambda: x / 3),
    ("0.0 or -0.0 first", lambda: tnp.maximum(tnp.asarray(0.0), x)),
    ("float to int may be out of range", lambda: tnp.astype(tnp.astype(f, "float64"), "int8")),
    ("int64 has more digits than float64", lambda: tnp.astype(tnp.astype(i, "float64"), "int64")),
    ("int8 holds less than int64", lambda: tnp.astype(tnp.astype(i, "int8"), "int64")),
    ("sums of sums round differently", lambda: tnp.sum(tnp.sum(x, axis=0), axis=0)),
    ("another reduction", lambda: tnp.max(tnp.min(i, axis=0), axis=0)),
    ("repeats an axis of more than one", lambda: tnp.repeat(x, 2, axis=0)),
    ("other fill values", lambda: tnp.pad(tnp.pad(x, 1), 1, constant_values=1.0)),
    ("spans both", lambda: tnp.concat([x, y])[3:6]),
    ("an array beside it would have to be moved", lambda: first(cube) * tall),
    ("rows are no channels", lambda: tnp.exp(tnp.permute_dims(cube, (2, 1, 0)))),
    ("not the same axis", lambda: tnp.concat([tnp.concat([x, y], axis=1), tnp.concat([y, x], axis=1)])),
    ("a bool product is a logical and", lambda: b * b + tnp.logical_not(b)),
    ("the product is narrower than the sum", lambda: f * f + x),
    ("the rate is no constant", lambda: s / tnp.sqrt(x + 1e-32)),
    ("the epsilon is no constant", lambda: 0.005 / tnp.sqrt(x + s)),
    ("constants of both signs of zero", lambda: i * tnp.asarray(np.array([0.0, -0.0, 0.0]))),
    ("sorted along another axis", lambda: tnp.sort(tnp.sort(x, axis=0), axis=1)),
    ("the sum starts from another zero", lambda: x - tnp.sum(tnp.full((1000, 1000, 3), -0.0), axis=(0, 1))),
    ("differences of floats are not reassociated", lambda: 0.1 - (x - 0.2)),
    ("nor are quotients", lambda: (x / 3) / 5),
    ("int8 wraps before it is widened", lambda: (j + 100) + tnp.asarray(100, dtype="int64")),
    ("squares of integers wrap", lambda: abs(tnp.square(j))),
    ("sums of magnitudes wrap", lambda: abs(abs(j) + abs(i))),
    ("products of magnitudes wrap", lambda: abs(abs(j) * abs(i))),
    ("a byte of 200 is -56", lambda: abs(tnp.astype(tnp.astype(b, "uint8") + tnp.astype(j, "uint8"), "int8"))),
    ("200.0 is -56 as int8", lambda: abs(tnp.astype(abs(f), "int8"))),
    ("sums of int8 wrap", lambda: abs(tnp.sum(tnp.astype(j, "uint8"), axis=0, dtype="int8"))),
]  # fmt: skip


@pytest.mark.parametrize(("why", "make"), UNTOUCHED, ids=[w for w, _ in UNTOUCHED])
def test_guard_holds(why: str, make: Callable[[], Array]) -> None:
    array = make()
    assert simplified(array).outputs == (array.node,)


def test_the_magnitude_of_a_negated_byte_is_the_negated_byte() -> None:
    assert simplified(abs(-u)).outputs == ((-u).node,)


def test_what_may_overflow_is_not_taken_for_finite() -> None:
    facts = NodeFacts(run)
    large = tnp.asarray(np.array([1e308 + 1e308j, 800j]))
    counts = [
        tnp.arange(0, 1e5, 5e4 / 7, dtype="float16"),
        tnp.arange(0, 1e39, 1e38, dtype="float32"),
        tnp.arange(-(10**60), -1, 10**59, dtype="complex64"),
        tnp.arange(1e300, 2e300, 1e299, dtype="float32"),
    ]
    for value in (tnp.sin(large), abs(large), tnp.atan(large), *counts):
        assert not facts.is_finite(value.node)
    for value in (-large, tnp.real(large), tnp.sin(tnp.real(large)), tnp.arange(4.0)):
        assert facts.is_finite(value.node)
    for value in (tnp.arange(4, dtype="float16"), tnp.arange(0, 1e38, 1e36, dtype="float32")):
        assert facts.is_finite(value.node)


def test_a_small_negative_number_is_negative_zero_as_float16() -> None:
    narrowed = tnp.astype(1.0 - x, "float16")
    assert not NodeFacts(run).is_never_negative_zero(narrowed.node)
    result = simplified(narrowed + np.float16(0), disable=["contracting"])
    assert "add_zero" not in result.rewrites.counts()


def test_reader_that_is_shared_is_not_contracted() -> None:
    product = x * y
    both = simplified(product + row, tnp.sin(product))
    assert "fma" not in both.rewrites.counts()
    root = tnp.sqrt(x + 1e-32)
    assert "adagrad" not in simplified(0.005 / root, root).rewrites.counts()
    inner = x + 1e-32
    assert "adagrad" not in simplified(0.005 / tnp.sqrt(inner), inner).rewrites.counts()


def test_broadcasts_are_never_made_real() -> None:
    huge = (10**6, 10**6)
    calls: list[Node] = []

    def evaluate(nodes: Any) -> Any:
        calls.extend(nodes)
        return run(nodes)

    filled = tnp.exp(tnp.full(huge, 2.0)) * 3 + tnp.ones(huge)
    (out,) = optimise(
        [tnp.reshape(filled, (10**12,)).node], evaluate=evaluate, pipeline=RULES
    ).outputs
    assert out.shape == (10**12,)
    assert [n.name for n in toposort([out])] == ["constant", "broadcast_to"]
    assert all(n.shape == () for n in calls)


def test_large_constants_are_folded_only_where_they_do_not_grow() -> None:
    table = tnp.asarray(np.ones(2**18))  # 2 MiB
    shrunk = simplified(tnp.sum(table * 2.0) + s)
    assert shrunk.rewrites.nodes_after == 3
    grown = tnp.concat([table, table]) + s
    assert simplified(grown).outputs == (grown.node,)


def test_constants_of_one_pass_meet_those_of_another() -> None:
    expression = i
    for k in range(50):
        expression = expression + k
    assert simplified(expression).outputs == ((i + sum(range(50))).node,)


MIXED = ["bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "complex64"]


@pytest.mark.parametrize("left", MIXED)
@pytest.mark.parametrize("right", MIXED)
def test_rules_keep_dtypes_and_values_under_promotion(left: str, right: str) -> None:
    """Constants 0, 1, -1, 2 and 0.5 of one dtype beside a variable of another, at its extremes."""
    x = tw.var("x", shape=(4,), dtype=left)
    values = np.array([-128, -1, 0, 127]).astype(left)
    for number in (0, 1, -1, 2, 0.5, -0.0):
        constant = tnp.asarray(np.full(4, number).astype(right))
        for y in _combinations(x, constant):
            try:
                (want,) = run([y.node], {x.node: values})
            except ValueError:  # integers to negative powers
                continue
            (node,) = tw.optimise(tw.Graph([x], y, unused="ignore")).output_nodes
            (got,) = run([node], {x.node: values})
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-3 if "float16" in (left, right) else 1e-6)


def _combinations(x, c):
    for combine in (
        lambda: c - x, lambda: x - c, lambda: x * c, lambda: x / c, lambda: c / x, lambda: x + c, lambda: x**c,
        lambda: c**x, lambda: tnp.maximum(x, c), lambda: tnp.minimum(c, x), lambda: -x + c, lambda: c - (-x),
        lambda: (-x) * c, lambda: x // c, lambda: x % c, lambda: tnp.where(c, x, c),
    ):  # fmt: skip
        with contextlib.suppress(TypeError):
            yield combine()


@pytest.mark.parametrize(
    "again",
    [
        lambda s: tnp.expand_dims(s, axis=1),
        lambda s: tnp.max(s, axis=0),
    ],
    ids=["keepdims", "reduction"],
)
def test_a_reduction_that_others_read_is_not_computed_twice(again) -> None:
    table = tw.var("table", shape=(3, 4), dtype="int64")
    inner = tnp.max(table, axis=1)
    result = tw.optimise(tw.Graph([table], [again(inner) * 2, inner]), disable=["group"])
    whole = [n for n in toposort([a.node for a in result.outputs]) if table.node in n.inputs]
    assert len(whole) == 1
    assert result.rewrites.operations_saved >= 0


# ------------------------------------------------------------ what is folded on the way


@pytest.mark.parametrize("incremental", [False, True])
def test_constants_made_of_large_ones_are_folded(incremental) -> None:
    x = tw.var("x")
    large = tnp.sum(tnp.sin(tnp.linspace(0, 1, 200_000)))
    p = tw.Graph([x], x * large).compile(engine="reference", incremental=incremental)
    np.testing.assert_allclose(p(2.0), 2 * np.sum(np.sin(np.linspace(0, 1, 200_000))))
    assert [y.node.name for y in p.last_run.executed] == ["multiply"]


def test_created_arrays_are_folded_and_large_ones_are_not_kept() -> None:
    v = tw.var("v", shape=(30,))
    y = v * tnp.arange(30) + tnp.eye(30)[3] + tnp.linspace(0, 1, 30)
    p = tw.Graph([v], y).compile(engine="reference", incremental=False)
    expected = np.ones(30) * np.arange(30) + np.eye(30)[3] + np.linspace(0, 1, 30)
    np.testing.assert_allclose(p(np.ones(30)), expected)
    made = {"arange", "eye", "linspace"}
    assert made.isdisjoint(z.node.name for z in p.last_run.executed)
    w = tw.var("w", shape=(300_000,))
    p = tw.Graph([w], w * tnp.sin(tnp.arange(300_000.0))).compile(incremental=False)
    p(np.ones(300_000))
    assert "sin" in [z.node.name for z in p.last_run.executed]
