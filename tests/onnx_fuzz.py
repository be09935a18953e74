"""Changed ONNX files: each is loaded or refused with an error for it, soon and in little memory.

Bytes are flipped, cut and repeated; integers, names, types and lists of nodes are changed with their
structure in mind.  Each number is one file, always the same.

    python tests/onnx_fuzz.py --count 100000

tries 100,000 in about fifteen minutes of one core, in a process with 4 GB of address space.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import onnx

import onnx_cases
import tawny as tw
from tawny.onnx.call import UnknownValueError

SLOW_SECONDS = 20.0
NUMBERS = (-(2**63), -1, 0, 1, 2, 3, 7, 127, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)


def seeds() -> list[bytes]:
    """Files to change: small cases of every kind."""
    names = onnx_cases.PASSING.read_text("utf-8").split()
    known = onnx_cases.cases()
    found = [known[n].model.SerializeToString() for n in names[::7] if known[n].model is not None]
    return [data for data in found if len(data) < 10_000]


def change_bytes(data: bytes, random: Random) -> bytes:
    """Some bytes changed, cut out or repeated."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        place = random.randrange(len(made)) if made else 0
        match random.randrange(4):
            case 0 if made:
                made[place] ^= 1 << random.randrange(8)
            case 1 if made:
                made[place] = random.randrange(256)
            case 2:
                del made[place : place + random.randrange(1, 9)]
            case _:
                made[place:place] = made[place : place + random.randrange(1, 9)]
    return bytes(made)


def change_structure(data: bytes, random: Random) -> bytes:
    """One thing that the file says, changed."""
    model = onnx.ModelProto()
    model.ParseFromString(data)
    places = list(messages(model))
    for _ in range(random.choice((1, 1, 2, 3))):
        message = random.choice(places)
        fields = [f for f, _ in message.ListFields()]
        if fields:
            change_field(message, random.choice(fields), random, places)
    return model.SerializeToString()


def messages(message: Any) -> Iterable[Any]:
    """A message and all inside it."""
    stack = [message]
    while stack:
        one = stack.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                stack += list(value) if is_list(value) else [value]


def is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def change_field(message: Any, field: Any, random: Random, places: list[Any]) -> None:
    value = getattr(message, field.name)
    if is_list(value) and field.message_type is not None:
        place = random.randrange(len(value))
        match random.randrange(3):
            case 0:
                del value[place]
            case 1:
                value.add().CopyFrom(value[place])
            case _:
                others = [m for m in places if type(m) is type(value[place])]
                value[place].CopyFrom(random.choice(others))
    elif is_list(value):
        place = random.randrange(len(value))
        if random.random() < 0.3:
            del value[place]
        else:
            value[place] = other(value[place], random, places)
    elif field.message_type is None:
        setattr(message, field.name, other(value, random, places))
    else:
        message.ClearField(field.name)


def other(value: Any, random: Random, places: list[Any]) -> Any:
    """Another value of the same kind; enumerations and small integers take what fits them."""
    match value:
        case bool():
            return not value
        case int():
            return (
                random.choice((*NUMBERS, value + 1, value - 1))
                if abs(value) > 40
                else random.choice(range(40))
            )
        case float():
            return random.choice((0.0, -1.0, 1e38, float("nan"), float("inf"), value * 2))
        case bytes():
            return random.choice((b"", value[:-1], value * 2, b"\xff" * 8))
        case _:
            names = [
                n for m in places if hasattr(m, "op_type") for n in (*m.input, *m.output, m.op_type)
            ]
            return random.choice(("", value + "x", *names))


def change_numbers(data: bytes, random: Random) -> bytes:
    """A 64-bit number of an array, which sizes and axes are, changed."""
    model = onnx.ModelProto()
    model.ParseFromString(data)
    tensors = [m for m in messages(model) if type(m).__name__ == "TensorProto" and m.data_type == 7]
    attributes = [m for m in messages(model) if type(m).__name__ == "AttributeProto"]
    if tensors and random.random() < 0.5:
        tensor = random.choice(tensors)
        raw = bytearray(tensor.raw_data)
        if len(raw) >= 8:
            place = 8 * random.randrange(len(raw) // 8)
            raw[place : place + 8] = random.choice(NUMBERS).to_bytes(8, "little", signed=True)
            tensor.raw_data = bytes(raw)
    elif attributes:
        attribute = random.choice(attributes)
        if attribute.ints:
            attribute.ints[random.randrange(len(attribute.ints))] = random.choice(NUMBERS)
        else:
            attribute.i = random.choice(NUMBERS)
    return model.SerializeToString()


def changed(number: int, files: list[bytes]) -> bytes:
    """The file of a number."""
    random = Random(number)
    data = random.choice(files)
    change = random.choice((change_bytes, change_structure, change_structure, change_numbers))
    try:
        return change(data, random)
    except ValueError:  # what protobuf itself would not write
        return change_bytes(data, random)


def load(data: bytes) -> str:
    """What comes of a file: its graph is built, with 2 for each open axis, or it is refused."""
    try:
        made = tw.onnx.load(data)
        if not isinstance(made, tw.Graph):
            open_axes = {
                d: 2
                for t in made.inputs.values()
                for d in getattr(t, "dims", None) or ()
                if isinstance(d, str)
            }
            made.graph(open_axes)
    except (tw.GraphFileError, UnknownValueError):
        return "refused"
    except ValueError as error:
        if not str(error).startswith("onnx.load"):
            raise
        return "refused"
    return "loaded"


def run(numbers: Iterable[int]) -> Counter[str]:
    """How many of the files of some numbers were loaded and refused."""
    files, outcomes = seeds(), Counter[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            start = time.process_time()
            try:
                outcomes[load(changed(number, files))] += 1
            except Exception as error:
                raise AssertionError(f"file {number}: {type(error).__name__}: {error}") from error
            seconds = time.process_time() - start
            if seconds > SLOW_SECONDS:
                raise AssertionError(f"file {number} took {seconds:.1f} s")
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
    numbers = range(given.seed, given.seed + given.count)
    print(run(numbers if given.only is None else [given.only]))


if __name__ == "__main__":
    main()
