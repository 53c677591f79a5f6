"""Plain K-quant quantizers (Q4_K, Q5_K, Q6_K) for test models; gguf-py only has the way back.

Each takes float32 rows whose length is a multiple of 256 and returns uint8 rows of blocks. The
scales are chosen by range, not by search, so files are a little worse than a real quantizer's;
the layout is that of ggml's block_q4_K, block_q5_K and block_q6_K (ggml-common.h).
"""
import numpy as np

SUPER = 256  # values per block


def _half_bytes(values):
    """float32 [n] -> the value a half holds, and its two bytes [n, 2]."""
    half = values.astype(np.float16)
    return half.astype(np.float32), half.view(np.uint8).reshape(-1, 2)


def _divide(numerator, denominator):
    """numerator / denominator, 0 where the denominator is 0."""
    out = np.zeros(np.broadcast(numerator, denominator).shape, np.float32)
    return np.divide(numerator, denominator, out=out, where=denominator != 0)


def _pack_scales(scale, minimum):
    """Eight 6-bit scales and eight 6-bit minima [n, 8] -> 12 bytes [n, 12]."""
    packed = np.zeros((scale.shape[0], 12), np.uint8)
    packed[:, 0:4] = scale[:, :4] | (scale[:, 4:] >> 4) << 6
    packed[:, 4:8] = minimum[:, :4] | (minimum[:, 4:] >> 4) << 6
    packed[:, 8:12] = (scale[:, 4:] & 15) | (minimum[:, 4:] & 15) << 4
    return packed


def _scale_and_min(rows, levels):
    """x ~ d * scale * q - dmin * min for eight runs of 32 values, q in 0..levels."""
    runs = rows.reshape(-1, 8, 32)
    low = np.minimum(runs.min(axis=2), 0.0)
    width = (runs.max(axis=2).clip(min=0.0) - low) / levels
    d, d_bytes = _half_bytes(width.max(axis=1) / 63)
    dmin, dmin_bytes = _half_bytes((-low).max(axis=1) / 63)
    scale = np.rint(_divide(width, d[:, None])).clip(0, 63).astype(np.uint8)
    minimum = np.rint(_divide(-low, dmin[:, None])).clip(0, 63).astype(np.uint8)
    step = (d[:, None] * scale)[:, :, None]
    offset = (dmin[:, None] * minimum)[:, :, None]
    quants = np.rint(_divide(runs + offset, step)).clip(0, levels).astype(np.uint8)
    return np.hstack([d_bytes, dmin_bytes, _pack_scales(scale, minimum)]), quants


def _nibbles(quants):
    """Low four bits of runs 0,1 | 2,3 | ... share 32 bytes per pair: [n, 8, 32] -> [n, 128]."""
    low = quants & 15
    return (low[:, 0::2] | low[:, 1::2] << 4).reshape(-1, 128)


def quantize_q4_k(rows):
    head, quants = _scale_and_min(rows, 15)
    return np.hstack([head, _nibbles(quants)]).reshape(rows.shape[0], -1)


def quantize_q5_k(rows):
    head, quants = _scale_and_min(rows, 31)
    # Bit r of byte l is the fifth bit of value l of run r.
    high = ((quants >> 4) << np.arange(8, dtype=np.uint8)[None, :, None]).sum(axis=1, dtype=np.uint8)
    return np.hstack([head, high, _nibbles(quants)]).reshape(rows.shape[0], -1)


def quantize_q6_k(rows):
    runs = rows.reshape(-1, 16, 16)
    width = np.abs(runs).max(axis=2) / 31
    d, d_bytes = _half_bytes(width.max(axis=1) / 127)
    scale = np.rint(_divide(width, d[:, None])).clip(0, 127).astype(np.int8)
    step = (d[:, None] * scale)[:, :, None]
    quants = (np.rint(_divide(runs, step)).clip(-32, 31) + 32).astype(np.uint8)
    # Per half of 128 values: four runs of 32; low bits of (0, 2) and (1, 3) share bytes, and the
    # upper two bits of all four share one byte.
    quarters = quants.reshape(-1, 2, 4, 32)
    low = (quarters[:, :, :2] & 15) | (quarters[:, :, 2:] & 15) << 4
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]
    high = ((quarters >> 4) << shifts).sum(axis=2, dtype=np.uint8)
    return np.hstack([low.reshape(-1, 128), high.reshape(-1, 64), scale.view(np.uint8),
                      d_bytes]).reshape(rows.shape[0], -1)


QUANTIZERS = {"Q4_K": quantize_q4_k, "Q5_K": quantize_q5_k, "Q6_K": quantize_q6_k}
