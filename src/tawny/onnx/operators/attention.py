"""ONNX Runtime's own operators of attention, embeddings and rotations of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, INT32, INT64
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.byte_products import factor_of, matmul_exact
from tawny.onnx.operators.elementwise import select
from tawny.onnx.operators.normalisation import standardise
from tawny.onnx.operators.quantisation import matrix_scale
from tawny.onnx.table import MICROSOFT, operator


def split_heads(x: Array, heads: int) -> Array:
    """From (batch, places, heads * size) to (batch, heads, places, size)."""
    batch, places, width = x.shape
    return np.permute_dims(np.reshape(x, (batch, places, heads, width // heads)), (0, 2, 1, 3))


def join_heads(x: Array) -> Array:
    """From (batch, heads, places, size) to (batch, places, heads * size)."""
    batch, heads, places, size = x.shape
    return np.reshape(np.permute_dims(x, (0, 2, 1, 3)), (batch, places, heads * size))


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of attention: their scale, what is added, and what is hidden."""

    scale: float
    added: Array | None = None
    seen: Array | None = None
    """Where places are seen; None where all are."""
    hidden: float = float("-inf")
    """What is added where they are not."""
    cap: float = 0.0
    """Scores are bent to stay below this, if it is not 0."""

    def attend(self, query: Array, key: Array, value: Array) -> Array:
        """The means of values that queries ask for; (batch, heads, places, size) each."""
        scores = np.matmul(query, np.swapaxes(key, -1, -2)) * self.scale
        scores = scores if not self.cap else np.tanh(scores / self.cap) * self.cap
        scores = scores if self.added is None else scores + self.added
        if self.seen is not None:
            if self.hidden == float("-inf"):
                scores = select(self.seen, scores, np.asarray(-np.inf, dtype=scores.dtype))
            else:
                scores = scores + select(
                    self.seen,
                    np.zeros((), scores.dtype),
                    np.asarray(self.hidden, dtype=scores.dtype),
                )
        return np.matmul(np.softmax(scores.astype(query.dtype), axis=-1), value)


def _scale(call: NodeCall, size: int) -> float:
    return call.number("scale", 0.0) or size**-0.5


def _causal(queries: int, keys: int) -> Array:
    """What each query sees, the last one of the queries all keys."""
    places = np.reshape(np.arange(queries), (-1, 1)) + (keys - queries)
    return np.less_equal(np.arange(keys), places)


def _intersection(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else np.logical_and(a, b)


def _seen_by_mask(call: NodeCall, mask: Array, batch: int, keys: int) -> Array:
    """Where places are seen by a mask: of rows, of queries and keys, or lengths of rows."""
    if mask.ndim == 1 and mask.shape[0] == batch:
        return np.reshape(np.less(np.arange(keys), np.reshape(mask, (-1, 1))), (batch, 1, 1, keys))
    if mask.ndim == 1 and mask.shape[0] == 2 * batch:
        end, start = (np.reshape(mask[i * batch : (i + 1) * batch], (-1, 1)) for i in (0, 1))
        places = np.arange(keys)
        inside = np.logical_and(np.less(places, end), np.greater_equal(places, start))
        return np.reshape(inside, (batch, 1, 1, keys))
    if mask.ndim not in {2, 3}:
        call.fail(f"a mask of shape {mask.shape} is not supported")
    there = np.not_equal(mask, 0)
    return np.expand_dims(there, 1) if mask.ndim == 3 else np.expand_dims(there, (1, 2))


def _attention(
    call: NodeCall, parts: tuple[Array, Array, Array], mask: Array | None, past: Array | None
) -> tuple[Array | None, ...]:
    """Attention of queries, keys and values, with keys and values of the past before them."""
    heads = call.integer("num_heads")
    query, key, value = (split_heads(x, heads) for x in parts)
    if past is not None:
        key, value = np.concat([past[0], key], axis=2), np.concat([past[1], value], axis=2)
    queries, keys = query.shape[2], key.shape[2]
    seen = None if mask is None else _seen_by_mask(call, mask, query.shape[0], keys)
    one_way = _causal(queries, keys) if call.flag("unidirectional") else None
    hidden = call.number("mask_filter_value", -10000.0)
    scores = Scores(
        _scale(call, query.shape[-1]), call.optional(5), _intersection(seen, one_way), hidden
    )
    present = np.stack([key, value])
    return join_heads(scores.attend(query, key, value)), present


def _three_parts(call: NodeCall, x: Array, widths: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Queries, keys and values that lie side by side."""
    if len(widths) != 3 or sum(widths) != x.shape[-1]:
        call.fail(f"qkv_hidden_sizes are {widths}, for {x.shape[-1]} columns")
    first, second = widths[0], widths[0] + widths[1]
    return x[..., :first], x[..., first:second], x[..., second:]


def _widths(call: NodeCall, whole: int) -> tuple[int, ...]:
    return call.ints("qkv_hidden_sizes", (whole // 3,) * 3)


@operator("Attention", domain=MICROSOFT)
def attention(call: NodeCall) -> tuple[Array | None, ...]:
    """Attention of an input to itself, with the weights of queries, keys and values."""
    if call.flag("do_rotary"):
        call.fail("do_rotary=1 is not supported")
    weights, bias = call.array(1), call.optional(2)
    whole = np.matmul(call.array(0), weights)
    whole = whole if bias is None else whole + bias
    parts = _three_parts(call, whole, _widths(call, whole.shape[-1]))
    return _attention(call, parts, call.optional(3), call.optional(4))


@operator("QAttention", domain=MICROSOFT)
def quantised_attention(call: NodeCall) -> tuple[Array | None, ...]:
    """Attention of a quantised input to itself, with quantised weights."""
    x, weights, bias = call.array(0), call.array(1), call.array(2)
    a, b = factor_of(call, x, call.optional(6), -2), factor_of(call, weights, call.optional(7), -1)
    scale = np.reshape(call.array(3), ()) * matrix_scale(call.array(4), -1, weights)
    whole = matmul_exact(a, b).astype(FLOAT32) * scale + bias
    parts = _three_parts(call, whole, (whole.shape[-1] // 3,) * 3)
    heads = call.integer("num_heads")
    query, key, value = (split_heads(v, heads) for v in parts)
    past = call.optional(8)
    if past is not None:
        key, value = np.concat([past[0], key], axis=2), np.concat([past[1], value], axis=2)
    queries, keys, mask = query.shape[2], key.shape[2], call.optional(5)
    seen = None if mask is None else _seen_by_mask(call, mask, query.shape[0], keys)
    one_way = _causal(queries, keys) if call.flag("unidirectional") else None
    hidden = call.number("mask_filter_value", -10000.0)
    scores = Scores(_scale(call, query.shape[-1]), None, _intersection(seen, one_way), hidden)
    return join_heads(scores.attend(query, key, value)), np.stack([key, value])


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(call: NodeCall) -> tuple[Array | None, ...]:
    """Attention of queries to keys and values, in several heads."""
    heads = call.integer("num_heads")
    query, key, value = _queries_keys_values(call, heads)
    past_key, past_value = call.optional(6), call.optional(7)
    if past_key is not None and past_value is not None:
        key = np.concat([past_key, key], axis=2)
        value = np.concat([past_value, value], axis=2)
    queries, keys, mask = query.shape[2], key.shape[2], call.optional(4)
    seen = None if mask is None else _seen_by_mask(call, mask, query.shape[0], keys)
    one_way = _causal(queries, keys) if call.flag("unidirectional") else None
    hidden = call.number("mask_filter_value", -10000.0)
    scores = Scores(
        _scale(call, query.shape[-1]), call.optional(5), _intersection(seen, one_way), hidden
    )
    return join_heads(scores.attend(query, key, value)), key, value


def _queries_keys_values(call: NodeCall, heads: int) -> tuple[Array, Array, Array]:
    """Operands 0 to 2 by heads, with the bias of operand 3; together or apart."""
    query, bias = call.array(0), call.optional(3)
    if query.ndim == 5:  # (batch, places, heads, 3, size)
        whole = np.permute_dims(query, (3, 0, 2, 1, 4))
        return whole[0], whole[1], whole[2]
    if call.array(1).ndim == 5:  # (batch, places, heads, 2, size)
        both = np.permute_dims(call.array(1), (3, 0, 2, 1, 4))
        return split_heads(query, heads), both[0], both[1]
    key, value = call.array(1), call.array(2)
    if bias is not None:
        first, second = query.shape[-1], 2 * query.shape[-1]
        query = query + bias[:first]
        key = key + (bias[first:second] if key.ndim == 3 else 0)
        value = value + (bias[second:] if value.ndim == 3 else 0)
    key, value = (split_heads(x, heads) if x.ndim == 3 else x for x in (key, value))
    return split_heads(query, heads), key, value


# ----------------------------------------------------------------------- rotations


def rotate(x: Array, places: Array, cosines: Array, sines: Array, *, interleaved: bool) -> Array:
    """Pairs of numbers turned by angles of their place; `x` is (batch, heads, places, size)."""
    cosine = np.expand_dims(np.take(cosines, places, axis=0), 1)
    sine = np.expand_dims(np.take(sines, places, axis=0), 1)
    width = 2 * cosines.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    if interleaved:
        pairs = np.reshape(turned, (*turned.shape[:-1], -1, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        both = np.stack([a * cosine - b * sine, b * cosine + a * sine], axis=-1)
        turned = np.reshape(both, turned.shape)
    else:
        a, b = turned[..., : width // 2], turned[..., width // 2 :]
        turned = np.concat([a * cosine - b * sine, b * cosine + a * sine], axis=-1)
    return turned if not rest.shape[-1] else np.concat([turned, rest], axis=-1)


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(call: NodeCall) -> Array:
    """Pairs of numbers turned by angles of their place."""
    x, places, cosines, sines = (call.array(i) for i in range(4))
    if call.flag("is_packed_batching"):
        call.fail("is_packed_batching=1 is not supported")
    width = call.integer("rotary_embedding_dim", 0)
    size = 2 * cosines.shape[-1] if not width else x.shape[-1] // max(call.integer("num_heads"), 1)
    whole = x if x.ndim == 4 else split_heads(x, x.shape[-1] // size)
    count, batch = whole.shape[2], whole.shape[0]
    if prod(places.shape) == 1:
        places = np.reshape(places, (1, 1)) + np.reshape(np.arange(count), (1, -1))
        places = np.broadcast_to(places, (batch, count))
    made = rotate(whole, places, cosines, sines, interleaved=call.flag("interleaved"))
    return made if x.ndim == 4 else join_heads(made)


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(call: NodeCall) -> tuple[Array | None, ...]:
    """Attention in which several heads of queries share one of keys and values."""
    heads, shared = call.integer("num_heads"), call.integer("kv_num_heads")
    query, key, value = _grouped_parts(call, heads, shared)
    lengths = np.reshape(call.array(5).astype(INT64), (-1, 1)) + 1
    count = query.shape[2]
    before = lengths - count
    if call.flag("do_rotary"):
        places = np.maximum(before + np.reshape(np.arange(count), (1, -1)), 0)
        turn = call.flag("rotary_interleaved")
        query, key = (
            rotate(x, places, call.array(7), call.array(8), interleaved=turn) for x in (query, key)
        )
    total = call.known_int(6)
    past_key, past_value = call.optional(3), call.optional(4)
    if past_key is not None and past_value is not None:
        key = _append(past_key, key, before, total)
        value = _append(past_value, value, before, total)
    keys = key.shape[2]
    place = np.reshape(np.arange(keys), (1, 1, -1))
    own = np.expand_dims(before + np.reshape(np.arange(count), (1, -1)), -1)
    seen, window = np.less_equal(place, own), call.integer("local_window_size", -1)
    seen = seen if window < 0 else np.logical_and(seen, np.greater(place, own - window))
    scores = Scores(
        _scale(call, query.shape[-1]), None, np.expand_dims(seen, 1), cap=call.number("softcap", 0)
    )
    wide = [np.repeat(x, heads // shared, axis=1) for x in (key, value)]
    return join_heads(scores.attend(query, *wide)), key, value


def _grouped_parts(call: NodeCall, heads: int, shared: int) -> tuple[Array, Array, Array]:
    query, key, value = call.array(0), call.optional(1), call.optional(2)
    if key is None or value is None:
        size = query.shape[-1] // (heads + 2 * shared)
        widths = heads * size, shared * size, shared * size
        query, key, value = _three_parts(call, query, widths)
    return split_heads(query, heads), split_heads(key, shared), split_heads(value, shared)


def _append(past: Array, new: Array, before: Array, total: int) -> Array:
    """New keys or values behind those of the past, whose number differs in a batch."""
    keys = max(past.shape[2], total)
    places = np.reshape(np.arange(keys), (1, -1)) - before
    own = np.minimum(np.maximum(places, 0), new.shape[2] - 1)
    shape = (*new.shape[:2], keys, new.shape[3])
    wanted = np.broadcast_to(np.reshape(own, (-1, 1, keys, 1)), shape)
    moved = np.take_along_axis(new, wanted, axis=2)
    padded = np.pad(past, ((0, 0), (0, 0), (0, keys - past.shape[2]), (0, 0)))
    return select(np.reshape(np.less(places, 0), (-1, 1, keys, 1)), padded, moved)


# ---------------------------------------------------------------------- embeddings


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(call: NodeCall) -> tuple[Array | None, ...]:
    """Embeddings of words, places and segments, added, without mean and over their deviation."""
    words, segments = call.array(0), call.optional(1)
    total = np.take(call.array(2), words, axis=0)
    given = call.optional(8)
    places = np.expand_dims(np.arange(words.shape[1]), 0) if given is None else given
    total = total + np.take(call.array(3), places, axis=0)
    if segments is not None:
        total = total + np.take(call.array(4), segments, axis=0)
    made, _, _ = standardise(total, (2,), call.number("epsilon", 1e-12))
    mask = call.optional(7)
    lengths = np.zeros((words.shape[0],), INT32)
    if mask is not None:
        lengths = np.sum(mask, axis=1, dtype=INT32)
    return made * call.array(5) + call.array(6), lengths, total
