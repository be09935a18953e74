"""What NumPy and other libraries have and lazy arrays have not, and what to use instead."""

from __future__ import annotations

import sys
from typing import Final

_FLOATS: Final = "use float16, float32, float64, complex64 or complex128: no other floats are here"
_KINDS: Final = "arrays hold numbers: bool, integers, floats and complex numbers"
_DATES: Final = "arrays hold numbers; compute with numpy, and give x.astype('int64') to np.asarray"
_ITERATION: Final = "write whole-array code, or loop over the value: numpy.nditer(x.numpy())"
_READING: Final = "read with numpy, and make it an array: np.asarray(numpy.{}(...))"
_PRINTING: Final = "arrays print as NumPy prints them: use numpy.{}"
_MEMORY: Final = "where elements lie is up to the plan; of a value, ask numpy: numpy.{}(x.numpy())"
_MATRIX: Final = "use arrays of two axes and the operator @"
_TEXT: Final = "arrays hold numbers; use numpy.{} on NumPy's arrays of text"
_ERRORS: Final = "floats never warn here; look with np.isfinite, or numpy.{} around NumPy's code"
_ABOUT: Final = "it is about NumPy's build: use numpy.{}"

ABSENT: Final[dict[str, str]] = {
    "ScalarType": "use isinstance(x, (bool, int, float, complex, numpy.generic))",
    "__version__": "use tawny.__version__, or numpy.__version__",
    "asarray_chkfinite": "use np.asarray(x), and look with np.all(np.isfinite(x))",
    "asfortranarray": _MEMORY.format("asfortranarray"),
    "asmatrix": _MATRIX,
    "base_repr": "use numpy.base_repr",
    "binary_repr": "use numpy.binary_repr",
    "bmat": "use np.block",
    "broadcast": "use np.broadcast_arrays or np.broadcast_shapes",
    "busday_count": _DATES,
    "busday_offset": _DATES,
    "busdaycalendar": _DATES,
    "bytes_": _KINDS,
    "c_": "use np.column_stack([a, b])",
    "char": _TEXT.format("char"),
    "character": _KINDS,
    "clongdouble": _FLOATS,
    "complex256": _FLOATS,
    "core": "use the functions of tawny.numpy itself",
    "ctypeslib": "give values: numpy.ctypeslib.as_ctypes(x.numpy().copy())",
    "datetime64": _DATES,
    "datetime_as_string": _DATES,
    "datetime_data": _DATES,
    "dtypes": "use numpy.dtypes",
    "emath": "convert first, where a result may be complex: np.sqrt(np.astype(x, complex))",
    "f2py": "use numpy.f2py, and tw.delay to call what it makes",
    "flatiter": _ITERATION,
    "flexible": _KINDS,
    "float128": _FLOATS,
    "format_float_positional": _PRINTING.format("format_float_positional"),
    "format_float_scientific": _PRINTING.format("format_float_scientific"),
    "frombuffer": _READING.format("frombuffer"),
    "fromfile": _READING.format("fromfile"),
    "fromiter": "use np.asarray(list(iterable))",
    "frompyfunc": "use np.map_elements(f, x), or tw.delay",
    "fromregex": _READING.format("fromregex"),
    "fromstring": _READING.format("fromstring"),
    "genfromtxt": _READING.format("genfromtxt"),
    "get_include": _ABOUT.format("get_include"),
    "get_printoptions": _PRINTING.format("get_printoptions"),
    "getbufsize": _ABOUT.format("getbufsize"),
    "geterr": _ERRORS.format("geterr"),
    "geterrcall": _ERRORS.format("geterrcall"),
    "info": "use help(np.sum)",
    "is_busday": _DATES,
    "isfortran": _MEMORY.format("isfortran"),
    "isnat": _DATES,
    "lib": "use tawny.numpy.sliding_window_view, or numpy.lib",
    "load": _READING.format("load"),
    "loadtxt": _READING.format("loadtxt"),
    "longdouble": _FLOATS,
    "ma": "use np.where(mask, x, y), or where= of a reduction",
    "matrix": _MATRIX,
    "may_share_memory": _MEMORY.format("may_share_memory"),
    "memmap": _READING.format("memmap"),
    "mintypecode": "use np.result_type or np.promote_types",
    "ndarray": "arrays are tawny.array.Array; isinstance(x, numpy.ndarray) tells NumPy's",
    "ndenumerate": "use numpy.ndenumerate(x.numpy())",
    "nditer": _ITERATION,
    "nested_iters": _ITERATION,
    "object_": _KINDS,
    "poly1d": "use vectors of coefficients: np.polyval, np.polyadd, np.polymul, np.roots",
    "polynomial": "use np.polyval, np.polyfit and np.roots, or numpy.polynomial on values",
    "printoptions": _PRINTING.format("printoptions"),
    "r_": "use np.concatenate([a, b]), np.arange or np.linspace",
    "random": "use tawny.random, whose draws belong to the graph",
    "rec": _KINDS,
    "recarray": _KINDS,
    "record": _KINDS,
    "require": _MEMORY.format("require"),
    "row_stack": "NumPy's old name of np.vstack: use that",
    "sctypeDict": "use numpy.sctypeDict",
    "set_printoptions": _PRINTING.format("set_printoptions"),
    "setbufsize": _ABOUT.format("setbufsize"),
    "seterr": _ERRORS.format("seterr"),
    "seterrcall": _ERRORS.format("seterrcall"),
    "shares_memory": _MEMORY.format("shares_memory"),
    "show_config": _ABOUT.format("show_config"),
    "show_runtime": _ABOUT.format("show_runtime"),
    "str_": _KINDS,
    "strings": _TEXT.format("strings"),
    "test": "run pytest on the sources",
    "testing": "use numpy.testing on values: numpy.testing.assert_allclose(x.numpy(), y)",
    "timedelta64": _DATES,
    "typecodes": "use np.isdtype(x.dtype, 'numeric'), or numpy.typecodes",
    "typename": "use str(x.dtype)",
    "typing": "use numpy.typing; arrays are tawny.array.Array",
    "ufunc": "functions are Python functions; isinstance(f, numpy.ufunc) tells NumPy's",
    "vectorize": "use whole-array functions, tw.vmap(f), np.map_elements(f, x), or tw.delay",
    "void": _KINDS,
}


_ASARRAY: Final = "use tawny.numpy.asarray, whose arrays are lazy, or NumPy's arrays as they are"
_KEYLESS: Final = "draws need no keys: tw.random.seed(n) makes them repeatable"
_SPARED: Final = "write nothing: derivatives are computed only where they are asked for"
_BATCH: Final = "use tw.vmap"
_ENGINE: Final = "name the engine: graph.compile(engine='cuda'), tw.jit(f, engine='cuda')"
_STRUCTURES: Final = (
    "loop over the structure: lists, tuples and dicts of arrays are taken and given as they are"
)
_PYTHONS: Final = "use Python's own {0}: dtype={0}"

ELSEWHERE: Final[dict[str, dict[str, str]]] = {
    "tawny": {
        "GradientTape": "use tw.grad(function), or tw.gradients(y, [x])",
        "Module": "use tawny.nn.Module",
        "Session": "use tw.Graph(inputs, outputs).compile(), whose program is called with values",
        "Tensor": _ASARRAY,
        "Variable": "use tw.var(name, shape)",
        "as_tensor": _ASARRAY,
        "autograd": "use tw.grad(function), or tw.gradients(y, [x])",
        "block_until_ready": "use x.numpy(), which computes",
        "constant": _ASARRAY,
        "compile": "use tw.jit(function), or tw.Graph(inputs, outputs).compile()",
        "cuda": _ENGINE,
        "custom_gradient": "use tw.custom_vjp",
        "device": _ENGINE,
        "device_put": _ENGINE,
        "enable_grad": _SPARED,
        "eval": "use tw.evaluate(x)",
        "from_numpy": _ASARRAY,
        "func": "use tw.grad, tw.vjp, tw.jvp, tw.jacobian or tw.hessian",
        "function": "use tw.jit",
        "inference_mode": _SPARED,
        "gradient": "use tw.grad(function), or tw.gradients(y, [x])",
        "jnp": "write import tawny.numpy as np",
        "keras": "use tawny.nn, tawny.optim and tawny.models",
        "lax": "use tw.scan, tw.cond, tw.while_loop, and the functions of tawny.numpy",
        "make_jaxpr": "use tw.Graph(inputs, outputs).trace()",
        "manual_seed": "use tw.random.seed(n)",
        "no_grad": _SPARED,
        "optimizers": "use tawny.optim",
        "placeholder": "use tw.var(name, shape)",
        "pmap": _BATCH,
        "remat": "use tw.checkpoint, or compile(memory=...)",
        "save": "use graph.save(path), model.save(path) or tw.save_arrays",
        "seed": "use tw.random.seed(n)",
        "set_default_device": _ENGINE,
        "set_grad_enabled": _SPARED,
        "set_num_threads": "write tw.config.threads = n",
        "tensor": _ASARRAY,
        "tree_map": _STRUCTURES,
        "tree_util": _STRUCTURES,
        "value_and_gradient": "use tw.value_and_grad",
        "vectorize": _BATCH,
    },
    "tawny.numpy": {
        "Inf": "use np.inf",
        "Infinity": "use np.inf",
        "NAN": "use np.nan",
        "NINF": "use -np.inf",
        "NaN": "use np.nan",
        "PINF": "use np.inf",
        "alltrue": "use np.all",
        "as_tensor": _ASARRAY,
        "asfarray": "use np.asarray(x, float)",
        "asscalar": "use x.item()",
        "bmm": "use the operator @",
        "cat": "use np.concatenate",
        "clamp": "use np.clip",
        "complex": _PYTHONS.format("complex"),
        "complex_": "use np.complex128",
        "cumproduct": "use np.cumprod",
        "disp": "use print",
        "find_common_type": "use np.result_type or np.promote_types",
        "float": _PYTHONS.format("float"),
        "float_": "use np.float64",
        "from_numpy": _ASARRAY,
        "in1d": "use np.isin",
        "index_select": "use np.take(x, index, axis)",
        "infty": "use np.inf",
        "int": _PYTHONS.format("int"),
        "issubsctype": "use np.issubdtype",
        "masked_select": "use x[mask], or np.where(mask, x, y)",
        "mat": _MATRIX,
        "mm": "use the operator @",
        "msort": "use np.sort(x, axis=0)",
        "numel": "use np.size(x)",
        "permute": "use np.permute_dims",
        "product": "use np.prod",
        "rand": "use tawny.random.uniform(shape=...)",
        "randn": "use tawny.random.normal(shape=...)",
        "round_": "use np.round",
        "scatter": "use x.at[index].set(values)",
        "set_value": "use x.at[index].set(values)",
        "sometrue": "use np.any",
        "tensor": _ASARRAY,
        "trapz": "use np.trapezoid",
        "unsqueeze": "use np.expand_dims(x, axis)",
        "view": "use np.reshape",
    },
    "tawny.random": {
        "Generator": _KEYLESS,
        "PRNGKey": _KEYLESS,
        "RandomState": _KEYLESS,
        "default_rng": _KEYLESS,
        "key": _KEYLESS,
        "rand": "use uniform(shape=...)",
        "randint": "use integers(low, high, shape)",
        "randn": "use normal(shape=...)",
        "random": "use uniform(shape=...)",
        "shuffle": "use permutation(x), a new array",
        "split": _KEYLESS,
        "standard_normal": "use normal(shape=...)",
    },
}
"""By module, names of PyTorch, JAX, TensorFlow, older NumPy and its generators."""


def absence(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have, with what to use if others have it."""
    said = f"module {module!r} has no attribute {name!r}"
    instead = ELSEWHERE.get(module.replace("eager", "numpy"), {}).get(name)
    if instead is None:
        array_functions = sys.modules["tawny.numpy"]
        if module.endswith(("numpy", "eager")):
            instead = ABSENT.get(name)
        elif name in dir(array_functions):
            instead = f"use tawny.numpy.{name}"
    return AttributeError(
        said if instead is None else f"{said}: {instead}", name=name, obj=sys.modules[module]
    )
