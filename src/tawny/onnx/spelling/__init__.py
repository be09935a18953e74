"""How ops are said in ONNX: primitives of elements, and ops with attributes."""
