"""PyTorch's programs run by Tawny: `torch.compile(model, backend="tawny")` and `tw.from_torch`.

PyTorch itself is loaded by the first of them that is called.
"""
