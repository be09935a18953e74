"""What NumPy has and lazy arrays have not: for each name, what to use instead."""

from __future__ import annotations

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
    "vectorize": "use whole-array functions, np.map_elements(f, x), or tw.delay",
    "void": _KINDS,
}


def absence(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have, with what to use if NumPy has it."""
    instead = ABSENT.get(name)
    said = f"module {module!r} has no attribute {name!r}"
    return AttributeError(said if instead is None else f"{said}: {instead}")
