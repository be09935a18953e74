"""What other libraries call layers, losses and methods, and what is written here instead."""

from __future__ import annotations

from typing import Final

_ACTIVATIONS: Final = {
    "ELU": "elu",
    "GELU": "gelu",
    "Identity": "identity",
    "LeakyReLU": "leaky_relu",
    "LogSoftmax": "log_softmax",
    "ReLU": "relu",
    "ReLU6": "relu6",
    "SELU": "selu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Tanh": "tanh",
}
_LAYERS: Final = {
    "AdaptiveAvgPool1d": "nn.GlobalAvgPool1d()",
    "AdaptiveAvgPool2d": "nn.GlobalAvgPool2d()",
    "AveragePooling2D": "nn.AvgPool2d(window)",
    "BCELoss": "nn.binary_cross_entropy, a function of logits",
    "BCEWithLogitsLoss": "nn.binary_cross_entropy, a function",
    "BatchNorm1d": "nn.BatchNorm(features), channels last",
    "BatchNorm2d": "nn.BatchNorm(features), channels last",
    "BatchNorm3d": "nn.BatchNorm(features), channels last",
    "BatchNormalization": "nn.BatchNorm(features)",
    "Conv1D": "nn.Conv1d(inputs, outputs, window)",
    "Conv2D": "nn.Conv2d(inputs, outputs, window)",
    "Conv3D": "nn.Conv3d(inputs, outputs, window)",
    "Conv2DTranspose": "nn.ConvTranspose2d(inputs, outputs, window)",
    "CategoricalCrossentropy": "nn.cross_entropy, a function",
    "CrossEntropyLoss": "nn.cross_entropy, a function",
    "Dense": "nn.Linear(inputs, outputs, activation=...)",
    "Dropout2d": "nn.Dropout(rate)",
    "GlobalAveragePooling2D": "nn.GlobalAvgPool2d()",
    "HuberLoss": "nn.huber, a function",
    "L1Loss": "nn.mean_absolute, a function",
    "LayerNormalization": "nn.LayerNorm(shape)",
    "MSELoss": "nn.mean_squared, a function",
    "MeanAbsoluteError": "nn.mean_absolute, a function",
    "MeanSquaredError": "nn.mean_squared, a function",
    "MaxPooling2D": "nn.MaxPool2d(window)",
    "Model": "nn.Module",
    "ModuleDict": "a dict of modules, assigned to an attribute",
    "ModuleList": "a list of modules, assigned to an attribute",
    "SmoothL1Loss": "nn.huber, a function",
    "SparseCategoricalCrossentropy": "nn.cross_entropy, a function",
    "Upsample": "nn.UpSampling2d(factor)",
    "binary_cross_entropy_with_logits": "nn.binary_cross_entropy",
    "functional": "nn itself, and tawny.numpy for convolutions and pooling",
    "l1_loss": "nn.mean_absolute",
    "mae": "nn.mean_absolute",
    "mean_absolute_error": "nn.mean_absolute",
    "mean_squared_error": "nn.mean_squared",
    "mse": "nn.mean_squared",
    "mse_loss": "nn.mean_squared",
    "smooth_l1_loss": "nn.huber",
}


METHODS: Final = {
    "eval": "model(x) for inference; model.use_inference() keeps it so while others train",
    "train": "nn.train(model, loss, data, optimiser)",
    "fit": "nn.train(model, loss, data, optimiser)",
    "compile": "nn.train(model, loss, data, optimiser)",
    "predict": "nn.predict(model, x)",
    "evaluate": "nn.evaluate(model, loss, data)",
    "state_dict": "model.parameters and model.state, or model.save(path)",
    "load_state_dict": "model.load(path), or nn.load_torch(model, state_dict)",
    "load_weights": "model.load(path), or nn.load_keras(model, path)",
    "save_weights": "model.save(path)",
    "named_parameters": "model.parameters, a nested dict",
    "trainable_variables": "model.parameters",
    "zero_grad": "nothing: gradients are values (tw.grad), and none are kept",
    "requires_grad_": "model.freeze() and model.unfreeze()",
    "to": "nn.train(..., engine=...)",
    "cuda": "nn.train(..., engine=...)",
}
"""Methods of other libraries' models."""


def hint_for(name: str) -> str | None:
    """What to write for a name of PyTorch's or Keras' `nn`; None if it is not known."""
    if name in _ACTIVATIONS:
        own = _ACTIVATIONS[name]
        return f"nn.{own}, a function that is a layer too, or nn.Activation({own!r})"
    return _LAYERS.get(name)
