"""Makes `keras.npz` and the files `keras.*` with Keras 3: outputs of layers and reduced networks, names and shapes of weights.

KERAS_BACKEND=jax python tests/data/make_keras.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import keras
import numpy as np
from keras import layers as kl
from keras.src.applications import inception_v3, resnet, vgg16

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from shared_weights import all_drawn, image  # noqa: E402

LAYERS = {
    "dense": (kl.Dense(4), (3, 5)),
    "dense_no_bias": (kl.Dense(4, use_bias=False, activation="gelu"), (2, 3, 5)),
    "embedding": (kl.Embedding(7, 3), (2, 4)),
    "conv1d": (kl.Conv1D(4, 3, strides=2, padding="same"), (2, 9, 3)),
    "conv1d_causal": (kl.Conv1D(4, 3, dilation_rate=2, padding="causal"), (2, 9, 3)),
    "conv2d": (kl.Conv2D(6, (3, 2), strides=(2, 1), padding="same", groups=2), (2, 7, 6, 4)),
    "conv2d_dilated": (kl.Conv2D(4, 3, dilation_rate=(2, 1), padding="same"), (2, 7, 6, 3)),
    "conv3d": (kl.Conv3D(3, 2, use_bias=False), (2, 4, 5, 3, 2)),
    "depthwise": (kl.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), (2, 6, 5, 3)),
    "depthwise1d": (kl.DepthwiseConv1D(3, strides=2), (2, 9, 3)),
    "separable": (kl.SeparableConv2D(4, 3, depth_multiplier=2), (2, 6, 5, 3)),
    "transposed1d": (kl.Conv1DTranspose(4, 3, strides=2, padding="same"), (2, 5, 3)),
    "transposed2d": (kl.Conv2DTranspose(2, 3, strides=2), (2, 4, 5, 3)),
    "transposed2d_wide": (kl.Conv2DTranspose(2, 2, strides=3), (2, 4, 5, 3)),
    "transposed3d": (kl.Conv3DTranspose(3, 2, strides=(1, 2, 2), padding="same"), (1, 3, 2, 4, 2)),
    "batch_norm": (kl.BatchNormalization(), (2, 4, 5, 3)),
    "batch_norm_no_scale": (kl.BatchNormalization(scale=False), (2, 4, 3)),
    "batch_norm_no_shift": (kl.BatchNormalization(center=False), (2, 4, 3)),
    "layer_norm": (kl.LayerNormalization(axis=(1, 2)), (2, 5, 3)),
    "layer_norm_no_shift": (kl.LayerNormalization(center=False), (2, 5, 3)),
    "group_norm": (kl.GroupNormalization(2), (2, 3, 5, 4)),
    "rnn": (kl.SimpleRNN(4, return_sequences=True), (2, 5, 3)),
    "lstm": (kl.LSTM(4, return_sequences=True), (2, 5, 3)),
    "lstm_last": (kl.LSTM(4, use_bias=False), (2, 5, 3)),
    "gru": (kl.GRU(4, return_sequences=True), (2, 5, 3)),
    "gru_no_bias": (kl.GRU(4, use_bias=False), (2, 5, 3)),
    "gru_reset_before": (kl.GRU(4, return_sequences=True, reset_after=False), (2, 5, 3)),
    "bidirectional": (kl.Bidirectional(kl.LSTM(4, return_sequences=True, name="lstm")), (2, 5, 3)),
    "attention": (kl.MultiHeadAttention(2, 3), (2, 4, 6)),
    "attention_large": (kl.MultiHeadAttention(3, 4, use_bias=False), (2, 4, 6)),
    "max_pool": (kl.MaxPooling2D(3, strides=2, padding="same"), (2, 6, 5, 3)),
    "average_pool": (kl.AveragePooling2D(3, strides=2, padding="same"), (2, 6, 5, 3)),
    "upsampling": (kl.UpSampling2D((2, 3)), (2, 3, 2, 3)),
    "padding": (kl.ZeroPadding2D(((1, 2), (0, 3))), (2, 3, 2, 3)),
}  # fmt: skip


def narrow(width: float) -> SimpleNamespace:
    """The layers of Keras, with a part of the channels that are asked for."""

    def conv(filters: int, *args: object, **options: object) -> kl.Layer:
        return kl.Conv2D(max(1, round(filters * width)), *args, **options)

    def dense(units: int, *args: object, **options: object) -> kl.Layer:
        units = units if options.get("name") == "predictions" else max(1, round(units * width))
        return kl.Dense(units, *args, **options)

    return SimpleNamespace(
        **{n: getattr(kl, n) for n in dir(kl)} | {"Conv2D": conv, "Dense": dense}
    )


NETWORKS = {
    "vgg16": (vgg16, vgg16.VGG16, (64, 64, 3)),
    "resnet50": (resnet, resnet.ResNet50, (65, 70, 3)),
    "inception": (inception_v3, inception_v3.InceptionV3, (91, 95, 3)),
}


def given(name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name == "embedding":
        return np.random.default_rng(1).integers(0, 7, shape)
    return image(name, shape)


def loaded(layer: kl.Layer) -> dict[str, tuple[int, ...]]:
    """Give a layer its drawn weights; the names and shapes they have."""
    shapes = {w.path: tuple(w.shape) for w in layer.weights}
    values = all_drawn(shapes)
    for weight in layer.weights:
        weight.assign(values[weight.path])
    return shapes


def written(facts: dict[str, object]) -> np.ndarray:
    return np.frombuffer(json.dumps(facts).encode(), np.uint8)


def text_model() -> keras.Model:
    """Layers of many kinds, some of them in a model of their own."""
    words = keras.Input((5,), dtype="int32")
    inner = [kl.Dense(4, activation="relu", name="hidden"), kl.Dense(2, name="scores")]
    head = keras.Sequential([keras.Input((3,)), *inner], name="head")
    x = kl.Embedding(7, 4, name="words")(words)
    x = kl.Dropout(0.5)(kl.MultiHeadAttention(2, 3, name="attention")(x, x))
    x = kl.SeparableConv1D(3, 2, padding="same", name="mix")(x)
    x = kl.LayerNormalization(name="norm")(kl.GRU(3, return_sequences=True, name="gru")(x))
    return keras.Model(words, head(kl.LSTM(3, name="memory")(x)))


def main() -> None:
    keras.utils.set_random_seed(0)
    jax.config.update("jax_default_matmul_precision", "highest")
    arrays: dict[str, np.ndarray] = {}
    for name, (layer, shape) in LAYERS.items():
        x = given(name, shape)
        inputs = [x, x] if name.startswith("attention") else [x]
        layer(*inputs)
        arrays[f"{name}.json"] = written(
            {"input": shape, "weights": loaded(layer), "name": layer.name}
        )
        arrays[name] = np.asarray(layer(*inputs))
    for name, (module, build, shape) in NETWORKS.items():
        module.layers = narrow(1 / 16)
        network = build(weights=None, classes=7, input_shape=shape, classifier_activation=None)
        module.layers = kl
        arrays[f"{name}.json"] = written({"input": (2, *shape), "weights": loaded(network)})
        arrays[name] = np.asarray(network(image(name, (2, *shape)), training=False))
        print(name, np.abs(arrays[name]).max(), [w.path for w in network.weights][:3])
    text = text_model()
    text.compile("adam", "mse")
    text.fit(np.ones((2, 5), "int32"), np.ones((2, 2)), verbose=0)
    loaded(text)
    arrays["text"] = np.asarray(text(np.arange(10).reshape(2, 5) % 7, training=False))
    text.save_weights(HERE / "keras.weights.h5")
    text.save(HERE / "keras.keras")
    text.save(HERE / "keras.h5")
    np.savez_compressed(HERE / "keras.npz", **arrays)


if __name__ == "__main__":
    main()
