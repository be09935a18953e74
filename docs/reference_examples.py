"""Examples for the reference, where a plain call on a few numbers does not say what a name is for.

Each is one expression; `x` is `[[1, 2], [3, 4]]` and `v` is `[3, 1, 2]`.
"""

from __future__ import annotations

from typing import Final

NUMPY: Final = {
    "all": "np.all(x > 1, 0)",
    "allclose": "np.allclose(x, x + 1e-9)",
    "any": "np.any(x > 3, 1)",
    "append": "np.append(v, [7])",
    "apply_along_axis": "np.apply_along_axis(np.sum, 0, x)",
    "arange": "np.arange(2, 10, 3)",
    "argmax": "np.argmax(x, 1)",
    "argmin": "np.argmin(v)",
    "argpartition": "np.argpartition(v, 1)[1]",
    "argsort": "np.argsort(v)",
    "argwhere": "np.argwhere([0, 5, 7])",
    "array_split": "np.array_split(v, 2)[0]",
    "asarray": "np.asarray([1, 2], dtype='float32')",
    "astype": "np.astype(x, 'float32')",
    "average": "np.average(v, weights=[1, 0, 1])",
    "at": "np.at(v)[0].set(9)",
    "avg_pool2d": "np.avg_pool2d(np.ones((1, 4, 4, 1)), 2).shape",
    "bincount": "np.bincount([0, 2, 2])",
    "block": "np.block([[x, x]])",
    "broadcast_to": "np.broadcast_to(v, (2, 3))",
    "choose": "np.choose([0, 1, 0], [v, [7, 8, 9]])",
    "clip": "np.clip(v, 2, 3)",
    "column_stack": "np.column_stack((v, v))",
    "compress": "np.compress([True, False, True], v)",
    "concat": "np.concat([x, x], 1)",
    "concatenate": "np.concatenate([x, x], 1)",
    "conv2d": "np.conv2d(np.ones((1, 5, 5, 2)), np.ones((3, 3, 2, 4))).shape",
    "convolve": "np.convolve([1, 2, 3], [0, 1, 0.5])",
    "cross": "np.cross([1, 0, 0], [0, 1, 0])",
    "cumsum": "np.cumsum(x, 1)",
    "cumprod": "np.cumprod(v)",
    "cumulative_sum": "np.cumulative_sum(v)",
    "cumulative_prod": "np.cumulative_prod(v)",
    "diag": "np.diag([1, 2])",
    "diff": "np.diff([1, 4, 9])",
    "digitize": "np.digitize([0.2, 6.4], [0, 1, 5])",
    "dot": "np.dot(x, x)",
    "einsum": "np.einsum('ij,jk->ik', x, x)",
    "expand_dims": "np.expand_dims(v, 0).shape",
    "extract": "np.extract(np.asarray(v) > 1, v)",
    "eye": "np.eye(2)",
    "flip": "np.flip(v)",
    "full": "np.full((2,), 7.0)",
    "gather": "np.gather(x, [[0, 0], [1, 0]], axis=1)",
    "geomspace": "np.geomspace(1, 1000, 4)",
    "gradient": "np.gradient([1.0, 2.0, 4.0])",
    "histogram": "np.histogram([1, 2, 1], bins=2)[0]",
    "insert": "np.insert(v, 1, 9)",
    "interp": "np.interp(2.5, [1, 2, 3], [3, 2, 0])",
    "isin": "np.isin(v, [1, 9])",
    "kron": "np.kron([1, 10], [1, 1])",
    "linspace": "np.linspace(0, 1, 3)",
    "matmul": "np.matmul(x, x)",
    "max": "np.max(x, 0)",
    "max_pool2d": "np.max_pool2d(np.ones((1, 4, 4, 1)), 2).shape",
    "mean": "np.mean(x, 0)",
    "median": "np.median(v)",
    "meshgrid": "np.meshgrid([1, 2], [3, 4])[0]",
    "min": "np.min(x, 0)",
    "moveaxis": "np.moveaxis(np.ones((2, 3, 4)), 0, -1).shape",
    "name": "np.name(np.sum(x), 'total').name",
    "nonzero": "np.nonzero([0, 5])[0]",
    "one_hot": "np.one_hot([0, 2], 3)",
    "outer": "np.outer([1, 2], v)",
    "pad": "np.pad(v, 1)",
    "percentile": "np.percentile(v, 50)",
    "permute_dims": "np.permute_dims(x, (1, 0))",
    "piecewise": "np.piecewise([-1.0, 2.0], [np.asarray([True, False])], [0.0, 1.0])",
    "polyfit": "np.round(np.polyfit([0, 1, 2], [1.0, 3.0, 5.0], 1), 6)",
    "polyval": "np.polyval([2, 1], 3)",
    "prod": "np.prod(x, 0)",
    "quantile": "np.quantile(v, 0.5)",
    "repeat": "np.repeat(v, 2)",
    "reshape": "np.reshape(x, (4,))",
    "roll": "np.roll(v, 1)",
    "rot90": "np.rot90(x)",
    "searchsorted": "np.searchsorted([1, 2, 3], 2.5)",
    "select": "np.select([np.asarray(v) > 1], [v], -1)",
    "softmax": "np.softmax([0.0, 0.0])",
    "sort": "np.sort(v)",
    "split": "np.split([1, 2, 3, 4], 2)[1]",
    "squeeze": "np.squeeze([[1, 2]])",
    "stack": "np.stack([v, v], 1)",
    "std": "np.std(v)",
    "sum": "np.sum(x, 0)",
    "swapaxes": "np.swapaxes(x, 0, 1)",
    "take": "np.take(v, [0, 2])",
    "take_along_axis": "np.take_along_axis(x, [[1], [0]], 1)",
    "tensordot": "np.tensordot(x, x, 1)",
    "tile": "np.tile(v, 2)",
    "trapezoid": "np.trapezoid([1, 2, 3])",
    "tril": "np.tril(x)",
    "triu": "np.triu(x)",
    "var": "np.var(v)",
    "where": "np.where(np.asarray(v) > 1, v, 0)",
    "zeros": "np.zeros((2,), int)",
    "adagrad_rate": "np.adagrad_rate(0.1, 4.0, 1e-8)",
    "avg_pool1d": "np.avg_pool1d(np.ones((1, 6, 2)), 3).shape",
    "avg_pool3d": "np.avg_pool3d(np.ones((1, 4, 4, 4, 1)), 2).shape",
    "avg_pool_gradient": "np.avg_pool_gradient(np.ones((1, 2, 1)), 2, input_shape=(1, 4, 1)).shape",
    "bartlett": "np.bartlett(5)",
    "blackman": "np.blackman(3)",
    "bitwise_and": "np.bitwise_and(6, 3)",
    "bitwise_or": "np.bitwise_or(6, 3)",
    "bitwise_xor": "np.bitwise_xor(6, 3)",
    "bitwise_left_shift": "np.bitwise_left_shift(3, 2)",
    "bitwise_right_shift": "np.bitwise_right_shift(12, 2)",
    "left_shift": "np.left_shift(3, 2)",
    "right_shift": "np.right_shift(12, 2)",
    "can_cast": "np.can_cast('int32', 'float64')",
    "conv1d": "np.conv1d(np.ones((1, 5, 2)), np.ones((3, 2, 4))).shape",
    "conv3d": "np.conv3d(np.ones((1, 5, 5, 5, 2)), np.ones((3, 3, 3, 2, 4))).shape",
    "conv_input_gradient": "np.conv_input_gradient(np.ones((3, 2, 4)), np.ones((1, 3, 4)), input_shape=(1, 5, 2)).shape",
    "conv_kernel_gradient": "np.conv_kernel_gradient(np.ones((1, 5, 2)), np.ones((1, 3, 4)), kernel_shape=(3, 2, 4)).shape",
    "conv_transpose1d": "np.conv_transpose1d(np.ones((1, 5, 2)), np.ones((3, 2, 4)), stride=2).shape",
    "conv_transpose2d": "np.conv_transpose2d(np.ones((1, 5, 5, 2)), np.ones((3, 3, 2, 4)), stride=2).shape",
    "conv_transpose3d": "np.conv_transpose3d(np.ones((1, 3, 3, 3, 2)), np.ones((3, 3, 3, 2, 4)), stride=2).shape",
    "correlate": "np.correlate([1, 2, 3], [0, 1, 0.5])",
    "delete": "np.delete(v, 1)",
    "depthwise_conv1d": "np.depthwise_conv1d(np.ones((1, 5, 2)), np.ones((3, 2, 1))).shape",
    "depthwise_conv2d": "np.depthwise_conv2d(np.ones((1, 5, 5, 2)), np.ones((3, 3, 2, 1))).shape",
    "depthwise_conv3d": "np.depthwise_conv3d(np.ones((1, 5, 5, 5, 2)), np.ones((3, 3, 3, 2, 1))).shape",
    "diag_indices": "np.diag_indices(2)[0]",
    "dsplit": "np.dsplit(np.ones((1, 1, 4)), 2)[0].shape",
    "hsplit": "np.hsplit(x, 2)[0]",
    "vsplit": "np.vsplit(x, 2)[0]",
    "finfo": "np.finfo('float32').eps",
    "iinfo": "np.iinfo('int8').max",
    "fma": "np.fma(2.0, 3.0, 1.0)",
    "fromfunction": "np.fromfunction(lambda i, j: i + j, (2, 2))",
    "global_avg_pool": "np.global_avg_pool(np.ones((1, 4, 4, 3))).shape",
    "global_max_pool": "np.global_max_pool(np.ones((1, 4, 4, 3))).shape",
    "hamming": "np.hamming(3)",
    "hanning": "np.hanning(5)",
    "identity": "np.identity(2)",
    "isdtype": "np.isdtype('float32', 'real floating')",
    "ldexp": "np.ldexp(1.5, 2)",
    "matvec": "np.matvec(x, [1, 1])",
    "vecmat": "np.vecmat([1, 1], x)",
    "vecdot": "np.vecdot(x, x)",
    "max_pool1d": "np.max_pool1d(np.ones((1, 6, 2)), 3).shape",
    "max_pool3d": "np.max_pool3d(np.ones((1, 4, 4, 4, 1)), 2).shape",
    "max_pool_gradient": "np.max_pool_gradient(np.ones((1, 4, 1)), np.ones((1, 2, 1)), 2).shape",
    "nanquantile": "np.nanquantile([1.0, np.nan, 3.0], 0.5)",
    "nanpercentile": "np.nanpercentile([1.0, np.nan, 3.0], 50)",
    "partition": "np.partition(v, 1)[1]",
    "ravel_multi_index": "np.ravel_multi_index(([0, 1], [1, 1]), (2, 2))",
    "unravel_index": "np.unravel_index([1, 3], (2, 2))",
    "resize": "np.resize(v, (2, 2))",
    "rollaxis": "np.rollaxis(np.ones((2, 3, 4)), 2).shape",
    "sliding_window_view": "np.sliding_window_view(v, 2)",
    "top_k": "np.top_k(v, 2)",
    "tri": "np.tri(2)",
    "tril_indices": "np.tril_indices(2)[0]",
    "triu_indices": "np.triu_indices(2)[1]",
    "upsampling1d": "np.upsampling1d(np.ones((1, 2, 1)), 3).shape",
    "upsampling2d": "np.upsampling2d(np.ones((1, 2, 2, 1)), 3).shape",
    "upsampling3d": "np.upsampling3d(np.ones((1, 2, 2, 2, 1)), 3).shape",
    "upsampling_gradient": "np.upsampling_gradient(np.ones((1, 6, 1)), 3).shape",
    "max_pool_select": "np.max_pool_select(np.ones((1, 4, 1)), np.ones((1, 4, 1)), 2).shape",
}

TOP: Final = {
    "checkpoint": "float(tw.grad(tw.checkpoint(lambda a: np.sin(a) ** 2))(0.0))",
    "diff": "float(tw.diff(lambda a: a**3)(2.0))",
    "delay": "tw.delay(numpy.cbrt, [8.0, 27.0])",
    "evaluate": "tw.evaluate(np.asarray(v) + 1)",
    "fold": "tw.fold(lambda a, b: 10 * a + b, v)",
    "grad": "float(tw.grad(lambda a: a**3)(2.0))",
    "gradhessian": "tw.gradhessian(lambda a: np.sum(a**3))(w)[0]",
    "gradients": "tw.gradients(np.sum(a * a), [a])",
    "hessian": "tw.hessian(lambda a: np.sum(a**3))(w)",
    "hvp": "tw.hvp(lambda a: np.sum(a**3), w, w)",
    "jacfwd": "tw.jacfwd(lambda a: a * a)(w)",
    "jacobian": "tw.jacobian(lambda a: a * a)(w)",
    "jacobianTv": "tw.jacobianTv(lambda a: a * a, w, w)",
    "jacobianv": "tw.jacobianv(lambda a: a * a, w, w)",
    "jacrev": "tw.jacrev(lambda a: a * a)(w)",
    "jit": "tw.jit(lambda a: np.sin(a) ** 2 + np.cos(a) ** 2)(w)",
    "jvp": "tw.jvp(lambda a: a * a, (3.0,), (1.0,))",
    "laplacian": "float(tw.laplacian(lambda a: np.sum(a**3))(w))",
    "linearize": "tw.linearize(lambda a: a * a, 3.0)[1](1.0)",
    "map_elements": "tw.map_elements(lambda n: n % 2, v)",
    "optimise": "len(tw.optimise(tw.Graph([a], a * 1 + a)).rewrites)",
    "scan": "tw.scan(max, [1, 3, 2])",
    "stop_gradient": "float(tw.grad(lambda a: a * tw.stop_gradient(a))(3.0))",
    "value_and_grad": "tw.value_and_grad(lambda a: a**3)(2.0)",
    "var": "tw.var('price', (3,))",
    "vjp": "tw.vjp(lambda a: a * a, 3.0)[1](1.0)",
}
"""Of the top level; `a` is a variable of two elements, `w` is `np.asarray([1.0, 2.0])`."""

CLASSES: Final = {
    "Graphs": """
import numpy
import tawny as tw
import tawny.numpy as np

price, rate = tw.var("price", (3,)), tw.var("rate")
graph = tw.Graph([price, rate], {"value": np.sum(price) * rate, "logs": np.log(price)})
plan = graph.plan(memory="1 MB")              # nothing is compiled
program = graph.compile(often=["rate"], threads=2)
print(graph.trace())
""",
    "Programs": """
first = program(price=numpy.ones(3), rate=2.0)["value"]
float(first)                                  # -> 6.0
second = program(rate=3.0)["value"]           # the logarithms are not computed again
float(second)                                 # -> 9.0
len(program.affected("rate"))                 # -> 1
sweep = program.sweep(rate=[1.0, 2.0])
program.set(rate=5.0)                         # for the next run
third = program.run()["value"]
float(third)                                  # -> 15.0
""",
    "Plans": """
program.plan.peak_bytes >= program.plan.lower_bound_bytes  # -> True
print(program.plan)
print(program.plan.why(graph.outputs["logs"]))
""",
    "Arrays": """
x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
x.at[0, 0].set(9.0).numpy().tolist()          # -> [[9.0, 2.0], [3.0, 4.0]]
float((x.T @ x).sum())                        # -> 58.0
x.sum(0).numpy().tolist()                     # -> [4.0, 6.0]
""",
    "Modules": """
from tawny import nn

class Scaled(nn.Module):
    def __init__(self, size):
        self.weight = nn.Parameter((size,), nn.init.ones())

    def forward(self, x):
        return x * self.weight

Scaled(2)(numpy.array([1.0, 2.0], "float32")).numpy().tolist()  # -> [1.0, 2.0]
""",
}
"""What is done with objects of the classes, one after the other."""
