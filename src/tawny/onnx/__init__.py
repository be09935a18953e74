"""Models in ONNX files: `load` makes them graphs, `save` writes graphs.

What the operators mean is a table, `operators/`, a chapter per file; what knows the format stands
beside it: `reading.py` checks files and makes records of them, `importer.py` makes graphs.  The way
back is `spelling/`, what ops are called in ONNX, and `writer.py`.
"""

from tawny.onnx.loading import load as load
from tawny.onnx.model import Model as Model
from tawny.onnx.saving import save as save
from tawny.public_names import export_imports as _export_imports

_export_imports(__name__)
