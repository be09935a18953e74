"""Files of weights from elsewhere: whatever they claim, they are refused quickly and within bounds."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tawny as tw
from graph_file_checks import entry, raw_file
from tawny import nn, optim
from tawny.graph.files import load_arrays
from tawny.nn import weights
from tawny.nn.interop.hdf5 import KERAS_WEIGHTS, MIN_LIMIT_BYTES

HERE = Path(__file__).parent / "data"


def _resumed(path: Path) -> None:
    model = nn.Linear(2, 1)
    rows = np.ones((4, 2)), np.ones((4, 1))
    nn.train(model, nn.mean_squared, rows, optim.SGD(0.1), 1, resume=path)


READERS: dict[str, Callable[[Path], object]] = {
    "load": tw.load,
    "load_arrays": load_arrays,
    "weights": lambda path: weights.load(nn.Linear(2, 3), path),
    "torch": lambda path: weights.load_torch(nn.Linear(2, 3), path),
    "keras": lambda path: weights.load_keras(nn.Linear(2, 3), path),
    "resume": _resumed,
}


@contextmanager
def bounded(most: int | None = None, seconds: float = 3.0) -> Iterator[None]:
    """Refuse what takes longer on this thread, or allocates more."""
    if most is not None:
        tracemalloc.start()
    began = time.thread_time()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.thread_time() - began < seconds
    assert most is None or peak < most


@pytest.mark.parametrize("reader", READERS)
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path, reader: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with bounded(), pytest.raises(tw.GraphFileError, match="expected a regular file"):
            READERS[reader](path)
    with pytest.raises(IsADirectoryError):
        READERS[reader](tmp_path)
    with pytest.raises(FileNotFoundError):
        READERS[reader](tmp_path / "nothing")


@pytest.mark.parametrize("reader", READERS)
def test_a_key_that_is_there_twice_is_found_in_no_time(tmp_path: Path, reader: str) -> None:
    count = 30_000
    parts = [f'"{i}":{json.dumps(entry("F32", [0], 0, 0))}' for i in [*range(count), count - 1]]
    path = tmp_path / "f"
    path.write_bytes(raw_file(f"{{{','.join(parts)}}}".encode()))
    with bounded(), pytest.raises(tw.GraphFileError, match=f"'{count - 1}' occurs twice"):
        READERS[reader](path)


# ---------------------------------------------------------------------- archives


def archived(path: Path, contents: bytes, kind: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr(KERAS_WEIGHTS, contents)
    return path


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = archived(tmp_path / "bomb.keras", bytes(MIN_LIMIT_BYTES + 1))
    assert path.stat().st_size < 100_000
    with bounded(4_000_000), pytest.raises(tw.GraphFileError, match="bytes are claimed"):
        weights.load_keras(nn.Linear(2, 3), path)


def test_an_archive_that_claims_less_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = archived(tmp_path / "bomb.keras", bytes(MIN_LIMIT_BYTES + 1))
    raw = path.read_bytes()
    path.write_bytes(
        raw.replace((MIN_LIMIT_BYTES + 1).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    )
    with bounded(4_000_000), pytest.raises(tw.GraphFileError, match="or damaged"):
        weights.load_keras(nn.Linear(2, 3), path)


def test_damaged_archives_are_refused_as_such(tmp_path: Path) -> None:
    """Encrypted, of unknown methods, with wrong sizes and places: `zipfile` raises six kinds."""
    path = tmp_path / "damaged.keras"
    small = archived(tmp_path / "small.keras", b"\x89HDF\r\n\x1a\n" + bytes(500)).read_bytes()
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    random = Random(seed)
    for _ in range(600):
        raw = bytearray(small)
        for _ in range(random.choice((1, 1, 2, 3))):
            raw[random.randrange(4, len(raw))] = random.choice((0, 1, 8, 9, 12, 99, 127, 128, 255))
        path.write_bytes(raw)
        with pytest.raises(tw.GraphFileError):
            weights.load_keras(nn.Linear(2, 3), path)
    whole = (HERE / "keras.keras").read_bytes() if (HERE / "keras.keras").exists() else small
    for cut in [*range(4, 60), *range(60, len(whole), max(len(whole) // 40, 1))]:
        path.write_bytes(whole[:cut])
        with pytest.raises(tw.GraphFileError):
            weights.load_keras(nn.Linear(2, 3), path)


# -------------------------------------------------------------------------- HDF5


def _many_names(h5py: Any, file: Any) -> None:
    inner = file.create_group("g0")
    for _ in range(30):
        following = inner.create_group("a")
        inner["b"] = following
        inner = following


def _within_itself(h5py: Any, file: Any) -> None:
    group = file.create_group("layers/dense")
    group["again"] = file["layers"]


def _array_for_group(h5py: Any, file: Any) -> None:
    file["layers"] = np.zeros((200_000, 2))


def _array_for_variables(h5py: Any, file: Any) -> None:
    file["layers/dense/vars"] = np.zeros((200_000, 2))


def _group_for_array(h5py: Any, file: Any) -> None:
    file.create_group("layers/dense/vars/0")


def _never_written(size: int) -> Callable[[Any, Any], None]:
    def write(h5py: Any, file: Any) -> None:
        file.create_group("layers/dense/vars").create_dataset("0", (size,), "f8")

    return write


def _packed(h5py: Any, file: Any) -> None:
    group = file.create_group("layers/dense/vars")
    for number in range(3):
        array = group.create_dataset(
            str(number), (MIN_LIMIT_BYTES // 16,), "f8", chunks=(2**16,), compression="gzip"
        )
        array[:10] = 1


def _no_text(h5py: Any, file: Any) -> None:
    file.attrs["layer_names"] = [b"\xff\xfe"]


def _no_layer(h5py: Any, file: Any) -> None:
    file.attrs["layer_names"] = [b"dense"]
    file["dense"] = np.ones(3)


def _no_weight(h5py: Any, file: Any) -> None:
    file.attrs["layer_names"] = [b"dense"]
    file.create_group("dense").attrs["weight_names"] = [b"kernel"]


def _linked_layer(h5py: Any, file: Any) -> None:
    file.attrs["layer_names"] = [b"dense"]
    file["dense"] = h5py.ExternalLink("/dev/zero", "/")


def _texts_for_numbers(h5py: Any, file: Any) -> None:
    file["layers/dense/vars/0"] = np.array([b"text"])


HOSTILE: dict[str, tuple[Callable[[Any, Any], None], str]] = {
    "many names": (_many_names, "under several names"),
    "within itself": (_within_itself, "under several names"),
    "array for group": (_array_for_group, "is an array, where a group is expected"),
    "array for variables": (_array_for_variables, "is an array, where a group is expected"),
    "group for array": (_group_for_array, "is no array"),
    "never written": (_never_written(1000), "never written"),
    "never written, large": (_never_written(2**28), "bytes are claimed"),
    "never written, huge": (_never_written(2**40), "bytes are claimed"),
    "packed": (_packed, "bytes are claimed"),
    "no text": (_no_text, "HDF5 that Keras did not write"),
    "no layer": (_no_layer, "is an array, where a group is expected"),
    "no weight": (_no_weight, "HDF5 that Keras did not write"),
    "linked layer": (_linked_layer, "lies in another file"),
    "texts": (_texts_for_numbers, "expected numbers"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["alone", "archive"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_hdf5_is_refused_quickly(tmp_path: Path, name: str, packed: bool) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "w.weights.h5"
    write, message = HOSTILE[name]
    with h5py.File(path, "w") as file:
        write(h5py, file)
    if packed:
        path = archived(tmp_path / "w.keras", path.read_bytes(), zipfile.ZIP_STORED)
    with bounded(2 * MIN_LIMIT_BYTES), pytest.raises(tw.GraphFileError, match=message):
        weights.load_keras(nn.Linear(2, 3), path)
