"""Wrong calls and the errors they get: NumPy's class, the op, the operand, a way out, the user's line."""

from __future__ import annotations

import re
from typing import Any

import numpy
import pytest

import tawny as tw
import tawny.numpy as tnp
from cases import each

WRONG = [
    ('x + y',
     'ValueError',
     'add: operand 1 has shape (3, 5); its axis -2 is 3 and must be 2 or 1 to broadcast with the operands before it (shapes (2, 4) and (3, 5))'),
    ('np.add(x, y)',
     'ValueError',
     'add: operand 1 has shape (3, 5); its axis -2 is 3 and must be 2 or 1 to broadcast with the operands before it (shapes (2, 4) and (3, 5))'),
    ('x @ y',
     'ValueError',
     'matmul: operand 1 has shape (3, 5); its axis -2 must be 4 to match operand 0 of shape (2, 4)'),
    ('np.matmul(np.ones(()), x)',
     'ValueError',
     'matmul: operand 0 has no axes; it must have at least one: use multiply'),
    ('np.sum(x, axis=2)',
     'AxisError',
     'sum: axis 2 is out of bounds for an array of 2 axes; accepted: axes from -2 to 1'),
    ('np.sum(x, axis=(0, 0))',
     'ValueError',
     'sum: axis (0, 0) names an axis twice'),
    ('np.sum(x, axes=0)',
     'TypeError',
     "sum: unknown argument 'axes'; accepted: axis, dtype, out, keepdims, initial, where"),
    ('np.mean(x, 0, None, None, True, True)',
     'TypeError',
     'mean: takes from 1 to 5 positional arguments but 6 were given; accepted: a, axis, dtype, out, keepdims, where (keyword only)'),
    ('np.sum(x, axis=1.5)',
     'TypeError',
     'sum: axis must be an integer, not float 1.5'),
    ('np.max(np.ones((0, 2)))',
     'ValueError',
     'max: operand 0 has shape (0, 2): no element to reduce over axis (0, 1), and no identity'),
    ('np.argmax(np.ones((0,)))',
     'ValueError',
     'argmax: operand 0 has shape (0,): no element to choose along axis None'),
    ('np.cumulative_sum(x)',
     'ValueError',
     'cumulative_sum: operand 0 has shape (2, 4); axis is needed unless it has one axis'),
    ('np.reshape(x, (3, 3))',
     'ValueError',
     'reshape: operand 0 has shape (2, 4), which is 8 elements; shape (3, 3) needs 9'),
    ('np.reshape(x, (-1, -1))',
     'ValueError',
     'reshape: shape (-1, -1) leaves several sizes open; one may be -1'),
    ('np.reshape(x, (-1, 3))',
     'ValueError',
     'reshape: operand 0 has shape (2, 4), which is 8 elements; no size in place of -1 makes shape (-1, 3) hold as many'),
    ('np.broadcast_to(y, (3, 4))',
     'ValueError',
     'broadcast_to: operand 0 has shape (3, 5), which does not broadcast to (3, 4); each axis, counted from the last, must be equal or 1'),
    ('np.permute_dims(x, (0, 0))',
     'ValueError',
     'permute_dims: axis (0, 0) names an axis twice'),
    ('np.permute_dims(x, (0,))',
     'ValueError',
     'permute_dims: operand 0 has shape (2, 4); axes (0,) must name each of its 2 axes once'),
    ('np.concat([x, y])',
     'ValueError',
     'concat: operand 1 has shape (3, 5); its axis 1 must be 4 to match operand 0 of shape (2, 4); they are joined along axis 0'),
    ('np.concat([])',
     'ValueError',
     'concat: no arrays came; at least one is needed'),
    ('np.stack([x, y])',
     'ValueError',
     'stack: operand 1 has shape (3, 5); it must have that of operand 0, (2, 4)'),
    ('np.squeeze(x, axis=0)',
     'ValueError',
     'squeeze: operand 0 has shape (2, 4); its axis 0 has size 2 and only axes of size 1 can be removed'),
    ('np.expand_dims(x, axis=5)',
     'AxisError',
     'expand_dims: axis 5 is out of bounds for an array of 3 axes; accepted: axes from -3 to 2'),
    ('np.flip(x, axis=3)',
     'AxisError',
     'flip: axis 3 is out of bounds for an array of 2 axes; accepted: axes from -2 to 1'),
    ('np.roll(x, 1, axis=7)',
     'AxisError',
     'roll: axis 7 is out of bounds for an array of 2 axes; accepted: axes from -2 to 1'),
    ('np.tile(x, -1)',
     'ValueError',
     'tile: reps (-1,) has a negative size; sizes must be at least 0'),
    ('np.repeat(x, -2)',
     'ValueError',
     'repeat: repeats is -2; it must be at least 0'),
    ('np.split(x, 3)',
     'ValueError',
     'split: operand 0 has shape (2, 4); its axis 0 of size 2 does not divide into 3 equal parts; use np.array_split'),
    ('np.pad(x, ((1, 2), (3, 4), (5, 6)))',
     'ValueError',
     'pad: pad_width has shape (3, 2); accepted: a number, a pair, or a pair for each of 2 axes'),
    ('np.pad(x, 1, mode="zigzag")',
     'ValueError',
     "pad: mode 'zigzag' is not known; accepted: 'constant', 'edge', 'wrap', 'reflect', 'symmetric', 'linear_ramp', 'maximum', 'mean', 'median', 'minimum', 'empty', a function"),
    ('x[5]',
     'IndexError',
     'getitem: index 5 is out of bounds for axis 0 of size 2; accepted: -2 to 1'),
    ('x[0, 0, 0]',
     'IndexError',
     'getitem: operand 0 has shape (2, 4); 3 indices came and at most 2 fit'),
    ('x[:, 9]',
     'IndexError',
     'getitem: index 9 is out of bounds for axis 1 of size 4; accepted: -4 to 3'),
    ('x["a"]',
     'IndexError',
     "getitem: 'a' is not an index; accepted: integers, slices, '...', None, and integer or boolean arrays"),
    ('x[1.5]',
     'IndexError',
     "getitem: 1.5 is not an index; accepted: integers, slices, '...', None, and integer or boolean arrays"),
    ('x[np.asarray([0, 7])]',
     'IndexError',
     'getitem: index 7 is out of bounds for axis 0 of size 2; accepted: -2 to 1'),
    ('x[np.asarray([True, False, True])]',
     'IndexError',
     'getitem: operand 0 has shape (2, 4); a boolean index of shape (3,) must have the shape of the axes it covers, (2,), or sizes of 0'),
    ('x[v > 0]',
     'TypeError',
     "getitem: the array depends on variable 'v', not known yet; the number of elements a boolean index selects must be known: use np.where(mask, x, y), or x.at[mask].add(v)"),
    ('x[::0]',
     'ValueError',
     'getitem: the step of a slice is 0; it must be positive or negative'),
    ('np.take(x, np.asarray([9]), axis=0)',
     'IndexError',
     'take: index 9 is out of bounds for axis 0 of size 2; accepted: -2 to 1'),
    ('np.take(x, np.asarray([1.5]), axis=0)',
     'TypeError',
     'take: operand 1 has dtype float64 (floating-point); accepted: signed integer, unsigned integer'),
    ('x.at[0].set(np.ones(7))',
     'ValueError',
     'at[...].set: operand 1 has shape (7,), which does not broadcast to the shape of what the key selects, (4,)'),
    ('np.one_hot(np.ones(3), 4)',
     'TypeError',
     'one_hot: operand 0 has dtype float64 (floating-point); accepted: signed integer, unsigned integer'),
    ('np.sin("text")',
     'TypeError',
     'sin: operand 0 is str of dtype <U4; accepted: arrays, numbers and nested sequences of numbers (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, complex64, complex128, bfloat16)'),
    ('np.sin(object())',
     'TypeError',
     'sin: operand 0 is object of dtype object; accepted: arrays, numbers and nested sequences of numbers (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, complex64, complex128, bfloat16)'),
    ('np.bitwise_and(x, 1)',
     'TypeError',
     'bitwise_and: operand 0 has dtype float64 (floating-point); accepted: boolean, signed integer, unsigned integer'),
    ('np.bitwise_left_shift(i, x)',
     'TypeError',
     'bitwise_left_shift: operand 1 has dtype float64 (floating-point); accepted: boolean, signed integer, unsigned integer'),
    ('np.subtract(b, b)',
     'TypeError',
     'subtract: operand 0 has dtype bool (boolean); accepted: signed integer, unsigned integer, floating-point, complex floating-point'),
    ('np.floor(c)',
     'TypeError',
     'floor: operand 0 has dtype complex64 (complex floating-point); accepted: boolean, signed integer, unsigned integer, floating-point'),
    ('np.atan2(c, c)',
     'TypeError',
     'atan2: operand 0 has dtype complex64 (complex floating-point); accepted: boolean, signed integer, unsigned integer, floating-point'),
    ('np.zeros((2, -1))',
     'ValueError',
     'zeros: shape (2, -1) has a negative size; sizes must be at least 0'),
    ('np.zeros(2.5)',
     'TypeError',
     'zeros: shape must be an integer, or a sequence of integers, not float 2.5'),
    ('np.zeros((2,), dtype="complex256")',
     'TypeError',
     'zeros: dtype complex256 is not supported; supported: bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, complex64, complex128, bfloat16'),
    ('np.zeros((2,), dtype="nonsense")',
     'TypeError',
     "zeros: 'nonsense' is not a dtype; supported: bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, complex64, complex128, bfloat16"),
    ('np.zeros((2,), device="gpu")',
     'ValueError',
     "zeros: device 'gpu' is not known; accepted: 'cpu' or None"),
    ('np.arange(0, 5, 0)',
     'ZeroDivisionError',
     'arange: step is 0; it must be positive or negative'),
    ('np.arange("a")',
     'TypeError',
     "arange: stop must be a real number, not str 'a'"),
    ('np.linspace(0, 1, num=-1)',
     'ValueError',
     'linspace: num is -1; it must be at least 0'),
    ('np.eye(-1)',
     'ValueError',
     'eye: N (-1,) has a negative size; sizes must be at least 0'),
    ('np.full((2,), 300, dtype="uint8")',
     'OverflowError',
     'full: Python integer 300 is out of bounds for uint8, which holds 0 to 255'),
    ('np.asarray([1, 2], dtype="uint8") + 300',
     'OverflowError',
     'add: Python integer 300 is out of bounds for uint8, which holds 0 to 255'),
    ('np.asarray([[1, 2], [3]])',
     'ValueError',
     'asarray: operand 0 is not an array: setting an array element with a sequence. The requested array has an inhomogeneous shape after 1 dimensions. The detected shape was (2,) + inhomogeneous part.'),
    ('np.asarray(numpy.array(["a"]))',
     'TypeError',
     'asarray: operand 0 is ndarray of dtype <U1; accepted: arrays, numbers and nested sequences of numbers (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, complex64, complex128, bfloat16)'),
    ('np.astype(c, "float32")',
     'TypeError',
     'astype: operand 0 has dtype complex64, which has no float32 value; take np.real(x) or np.abs(x) first'),
    ('np.where(x > 0, x)',
     'ValueError',
     'where: both choices are needed, or neither'),
    ('np.linalg.inv(x)',
     'LinAlgError',
     'inv: operand 0 has shape (2, 4); its last two axes must be equal (square)'),
    ('np.linalg.solve(np.ones((2, 2)), np.ones((3, 1)))',
     'ValueError',
     'solve: operand 1 has shape (3, 1); its axis -2 must be 2 to match operand 0 of shape (2, 2)'),
    ('np.linalg.cholesky(np.ones((3,)))',
     'LinAlgError',
     'cholesky: operand 0 has shape (3,); it must have at least two axes (a matrix)'),
    ('np.linalg.matrix_norm(np.ones((3,)))',
     'LinAlgError',
     'matrix_norm: operand 0 has shape (3,); it must have at least two axes (a matrix)'),
    ('np.linalg.vector_norm(x, ord="bad")',
     'ValueError',
     "vector_norm: ord is 'bad'; accepted: a number, inf or -inf"),
    ('np.linalg.qr(np.ones((2, 2)), mode="odd")',
     'ValueError',
     "qr: mode is 'odd'; accepted: 'reduced', 'complete', 'r'"),
    ('np.einsum("ij,jk", x)',
     'ValueError',
     "einsum: subscripts 'ij,jk' are for 2 operands, not 1"),
    ('np.einsum("ij,jk", x, y)',
     'ValueError',
     'einsum: operand 1 has shape (3, 5); its axis 0 is 3 and must be 4 or 1 to match the operands before it (shapes (2, 4) and (3, 5))'),
    ('np.tensordot(x, y, axes=1)',
     'ValueError',
     'tensordot: operand 1 has shape (3, 5); its axis 0 must be 4 to match axis 1 of operand 0 of shape (2, 4)'),
    ('np.linalg.inv(np.asarray([[1.0, 2.0], [2.0, 4.0]])).numpy()',
     'LinAlgError',
     'inv: Singular matrix'),
    ('np.fft.fft(x, n=0)',
     'ValueError',
     'fft: the transform would have 0 points; there must be at least 1'),
    ('np.fft.fft(x, norm="loud")',
     'ValueError',
     "fft: norm is 'loud'; accepted: 'backward', 'ortho', 'forward'"),
    ('np.sort(x, axis=4)',
     'AxisError',
     'sort: axis 4 is out of bounds for an array of 2 axes; accepted: axes from -2 to 1'),
    ('np.sort(c, order=1)',
     'ValueError',
     'sort: order is 1; accepted: None: no array has fields'),
    ('np.searchsorted(np.ones((2, 2)), 1)',
     'ValueError',
     'searchsorted: operand 0 has shape (2, 2); it must have one axis'),
    ('np.unique_values(v)',
     'TypeError',
     "unique_values: the array depends on variable 'v', not known yet; the number of distinct elements must be known: compute it first, or pass it to tw.delay"),
    ('np.nonzero(v)',
     'TypeError',
     "nonzero: the array depends on variable 'v', not known yet; how many elements are not zero must be known: use np.where(x, a, b)"),
    ('np.conv2d(np.ones((1, 5, 5, 3)), np.ones((3, 3, 4, 8)))',
     'ValueError',
     'conv2d: operand 1 has shape (3, 3, 4, 8); its axis -2 is 4, which must be the 3 channels of operand 0 of shape (1, 5, 5, 3)'),
    ('np.conv2d(np.ones((1, 5, 5)), np.ones((3, 3, 1, 8)))',
     'ValueError',
     'conv2d: operand 0 has shape (1, 5, 5); it must have 4 axes: 2 spatial axes beside batch and channels (kernels: channels and outputs)'),
    ('np.conv2d(np.ones((1, 5, 5, 3)), np.ones((3, 3, 3, 8)), padding="FULL")',
     'ValueError',
     'conv2d: padding is \'FULL\'; accepted: "SAME", "VALID", or pairs of numbers from 0 ((before, after), (before, after))'),
    ('np.conv2d(np.ones((1, 5, 5, 3)), np.ones((3, 3, 3, 8)), strides=0)',
     'ValueError',
     'conv2d: stride is (0, 0); each must be at least 1'),
    ('np.max_pool2d(np.ones((1, 5, 5, 3)), 9)',
     'ValueError',
     'max_pool2d: operand 0 has 5 elements on axis 1; the window reaches over 9 and must fit: take a smaller window or padding="SAME"'),
    ('np.max_pool2d(np.ones((1, 5, 5)), 2)',
     'ValueError',
     'max_pool2d: operand 0 has shape (1, 5, 5); it must have 4 axes: batch, 2 spatial, channels'),
    ('tw.random.uniform(0, 1, shape=(-1,))',
     'ValueError',
     'uniform: shape (-1,) has a negative size; sizes must be at least 0'),
    ('tw.random.bernoulli(1.5, shape=(2,))',
     'ValueError',
     'bernoulli: p is 1.5; it must be from 0 to 1'),
    ('tw.random.integers(5, 5, shape=(2,))',
     'ValueError',
     'integers: low is 5 and high is 5; high must be greater'),
    ('tw.var(3)',
     'TypeError',
     'var: name must be a non-empty string, not 3; write shape=3 if it is the shape'),
    ('tw.var("a", shape=(2, -3))',
     'ValueError',
     'var: shape (2, -3) has a negative size; sizes must be at least 0'),
    ('tw.delay(3, x)',
     'TypeError',
     'delay: f must be a function, not int 3'),
    ('tw.delay(numpy.sin)',
     'ValueError',
     'delay: shape is needed when there is no array to take it from; give shape=...'),
    ('float(v)',
     'TypeError',
     'float: only an array of one element converts to a number, not shape (3,)'),
    ('bool(v > 0)',
     'TypeError',
     "bool: the array depends on variable 'v', not known yet; a graph cannot branch on it: use np.where(condition, yes, no), tw.cond, which computes one of two branches, or tw.delay for a Python function"),
    ('float(x)',
     'TypeError',
     'float: only an array of one element converts to a number, not shape (2, 4)'),
    ('bool(x > 0)',
     'ValueError',
     'bool: the truth value of an array of shape (2, 4) is ambiguous; use np.any or np.all'),
    ('len(np.ones(()))',
     'TypeError',
     'len: an array with no axes has no length'),
    ('tw.evaluate(3)',
     'TypeError',
     'evaluate: operand 0 is int; accepted: arrays of tawny.numpy'),
    ('np.isdtype(np.float32, "odd")',
     'ValueError',
     "isdtype: kind 'odd' is not known; accepted: bool, signed integer, unsigned integer, integral, real floating, complex floating, numeric, or a dtype"),
    ('np.result_type()',
     'ValueError',
     'result_type: at least one array or dtype is needed'),
    ('x.reshape(3, 3)',
     'ValueError',
     'reshape: operand 0 has shape (2, 4), which is 8 elements; shape (3, 3) needs 9'),
    ('x.sum(5)',
     'AxisError',
     'sum: axis 5 is out of bounds for an array of 2 axes; accepted: axes from -2 to 1'),
    ('numpy.add(v, 1, out=numpy.ones(3))',
     'TypeError',
     "add: the array depends on variable 'v', not known yet; compile a tw.Graph and give it values, or pass it to tw.delay"),
    ('numpy.datetime_as_string(v)',
     'TypeError',
     'numpy.datetime_as_string: no lazy counterpart; compute first (numpy.asarray(x)) or wrap it with tw.delay'),
    ('tw.var("a", (None, 3))',
     'TypeError',
     'var: size 0 of shape must be an integer, not NoneType None'),
    ('tw.var("a", "3, 4")',
     'TypeError',
     "var: shape must be an integer, or a sequence of integers, not str '3, 4'"),
    ('tw.var((3, 4))',
     'TypeError',
     'var: name must be a non-empty string, not (3, 4); write shape=(3, 4) if it is the shape'),
    ('np.zeros((2, tw.var("n", dtype="int64")))',
     'TypeError',
     "zeros: the array depends on variable 'n', not known yet; size 1 of shape must be known"),
    ('tw.grad(x)',
     'TypeError',
     'grad: the first argument is Array; it is a function; tw.gradients(y, [x]) takes arrays'),
    ('tw.checkpoint(3)',
     'TypeError',
     'checkpoint: the first argument is int; it is a function'),
    ('tw.custom_vjp(3)',
     'TypeError',
     'custom_vjp: the first argument is int; it is a function'),
    ('tw.custom_jvp(3)',
     'TypeError',
     'custom_jvp: the first argument is int; it is a function'),
    ('[1, 2][np.asarray(1.5)]',
     'TypeError',
     'index: only an integer array with no axes is an index, not float64 of shape ()'),
]  # fmt: skip
"""Expression, class of the error, message without the place."""

NUMPY_DIFFERS = {
    'np.astype(c, "float32")': "NumPy drops the imaginary part with a warning",
    "np.linalg.matrix_norm(np.ones((3,)))": "NumPy names an axis nobody wrote; this is LinAlgError as in its siblings",
    "np.sort(c, order=1)": "an argument NumPy has and lazy arrays do not",
}


def names(np) -> dict[str, object]:
    return {
        "np": np,
        "tw": tw,
        "numpy": numpy,
        "x": np.ones((2, 4)),
        "y": np.ones((3, 5)),
        "v": tw.var("v", shape=(3,)),
        "i": np.arange(3),
        "b": np.asarray([True, False]),
        "c": np.ones((2, 2), dtype="complex64"),
    }


@each(WRONG, lambda row: row[0])
def test_wrong_call(expression: str, kind: str, message: str) -> None:
    with pytest.raises(Exception) as caught:
        eval(compile(expression, "model.py", "eval"), names(tnp))
    assert kind in [c.__name__ for c in type(caught.value).__mro__]
    assert str(caught.value) == f"{message}  [model.py:1]"


@each(WRONG, lambda row: row[0])
def test_the_class_is_the_one_numpy_raises(expression: str, kind: str, message: str) -> None:
    del message
    if re.search(r"\bv\b|\btw\.", expression) or expression in NUMPY_DIFFERS:
        return  # about laziness, or NumPy answers otherwise
    theirs: set[str] = set()
    try:
        eval(compile(expression, "model.py", "eval"), names(numpy))
    except AttributeError:
        return  # NumPy has no such function
    except Exception as error:
        theirs = {c.__name__ for c in type(error).__mro__}
        name = type(error).__name__
    if theirs:
        assert kind in theirs or name in {c.__name__ for c in _class(kind).__mro__}


def _class(kind: str) -> type[BaseException]:
    known = {"AxisError": numpy.exceptions.AxisError, "LinAlgError": numpy.linalg.LinAlgError}
    return known.get(kind) or getattr(__import__("builtins"), kind)


NEED_A_NUMBER = """
np.zeros(k) np.zeros((k,2)) np.reshape(x,k) np.reshape(x,(k,2)) np.tile(x,k) np.resize(x,(k,2)) np.broadcast_to(x,k)
np.repeat(x,k,0) np.eye(k) np.arange(k) np.arange(0,k) np.linspace(0,1,k) np.sum(x,k) np.sum(x,(k,)) np.roll(x,1,k)
np.transpose(x,(k,0)) np.moveaxis(x,k,0) np.moveaxis(x,0,(k,)) np.swapaxes(x,k,0) np.expand_dims(x,k) np.squeeze(x,k)
np.pad(x,k) np.pad(x,((k,1),(0,0))) np.split(x,k) np.split(x,[1,k]) np.array_split(x,k) np.full(k,1.0) np.stack([x,x],k)
np.concat([x,x],k) np.flip(x,k) np.diff(x,k) np.quantile(x,0.5,k) np.tri(k) np.tril(x,k) np.diag(x,k) np.rot90(x,k)
np.bincount(i,minlength=k) np.histogram(x,k) np.insert(x,k,1.0) np.delete(x,k) np.one_hot(i,k) np.round(x,k)
np.sort(x,k) np.partition(x,k) np.trace(x,k) np.indices((k,3)) np.zeros_like(x,shape=k) np.tensordot(x,x,k)
np.gradient(x,axis=k) np.fft.fft(x,k) np.linalg.matrix_power(np.eye(2),k) np.vander(x[0],k) np.unravel_index(1,(k,2))
""".split()


@each(NEED_A_NUMBER)
def test_a_number_that_must_be_known_is_named_with_its_function(expression: str) -> None:
    """A traced size or axis: not the function inside that stumbled over it."""
    given = names(tnp) | {"k": tw.var("k", dtype="int64")}
    name = re.match(r"[\w.]*?(\w+)\(", expression)
    assert name is not None
    said = rf"^{name[1]}: the array depends on variable 'k', not known yet; .* must be known"
    with pytest.raises(TypeError, match=said):
        eval(compile(expression, "model.py", "eval"), given)


def test_what_python_itself_needs_a_number_for_says_what_else_there_is() -> None:
    k = tw.var("k", dtype="int64")
    for call in (lambda: range(k), lambda: [1, 2][k], lambda: "a" * k):
        with pytest.raises(TypeError, match=r"^index: .*np\.take\(x, i\).*tw\.fori_loop"):
            call()


def test_there_are_many() -> None:
    assert len(WRONG) >= 40


def test_state_stays_as_it_was() -> None:
    a = tnp.zeros((2,))
    before = a.node
    for wrong in (lambda: a.__setitem__(5, 1.0), lambda: a.__iadd__(tnp.ones((3,)))):
        with pytest.raises((IndexError, ValueError)):
            wrong()
    assert a.node is before
    assert a.tolist() == [0.0, 0.0]


def test_methods_say_what_they_take() -> None:
    x = tnp.ones((2, 2))
    with pytest.raises(
        TypeError,
        match=r"^mean: unknown argument 'foo'; accepted: axis, dtype, out, keepdims, where \(keyword only\)  \[test_errors",
    ):
        x.mean(foo=1)
    with pytest.raises(TypeError, match=r"^var: takes .* accepted: name, shape, dtype"):
        tw.var("x", (3, 4), float, 5)
    with pytest.raises(TypeError, match=r"^sin: tawny.eager takes NumPy arrays, not variables"):
        tw.eager.sin(tw.var("x"))
    with pytest.raises(TypeError, match=r"^sin: out is list; accepted: a lazy array"):
        tnp.sin(x, out=[])


MANY = {
    "a run without values": (lambda p, vs, y: p.run(), "and 594 more"),
    "an unknown name": (lambda p, vs, y: p.set(layer_417=1), "'layer_417'; accepted: layer417, "),
    "a sweep": (lambda p, vs, y: p.sweep(layer=[1]), "and 594 more"),
    "what is affected": (lambda p, vs, y: p.affected("layer_9"), "accepted: layer9"),
    "what changes often": (lambda p, vs, y: p.graph.compile(often=["layer"]), "and 594 more"),
    "a slider": (lambda p, vs, y: tw.explore(p, {"layer": (0, 1)}), "and 594 more"),
    "an update": (lambda p, vs, y: tw.Graph(vs, [y], updates={"layer_8": y}), "accepted: layer8"),
    "inputs left out": (lambda p, vs, y: tw.Graph(vs[:9], [y]), "and 585 more"),
    "a value that is not known": (lambda p, vs, y: y.numpy(), "and 597 more"),
}


@pytest.fixture(scope="module")
def program_of_many() -> tuple[tw.Program, list[tw.Array], tw.Array]:
    many = [tw.var(f"layer{i}", (2,)) for i in range(600)]
    total = tnp.sum(tnp.stack(many), axis=0)
    return tw.Graph(many, [total]).compile(), many, total


@pytest.mark.parametrize("mistake", MANY)
def test_hundreds_of_names_are_not_listed(mistake: str, program_of_many: tuple[Any, ...]) -> None:
    """Networks have hundreds of parameters: a message names a few, those that resemble first."""
    call, says = MANY[mistake]
    with pytest.raises((TypeError, ValueError)) as caught:
        call(*program_of_many)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 400
    assert len(repr(program_of_many[0].graph)) < 400
