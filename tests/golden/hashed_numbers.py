"""Numbers that tests repeat from formulas, and what golden files keep of large arrays."""
import numpy as np
import torch


def numbers(count, seed):
    """In [-1, 1), the hash of tests/op_support.hpp."""
    h = np.arange(count, dtype=np.uint32) * np.uint32(2654435761)
    h += np.uint32((seed * 2246822519 + 374761393) % 2**32)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(3266489917)
    return torch.from_numpy(((h ^ (h >> np.uint32(16))) >> np.uint32(16)) / 32768.0 - 1.0)


def digest(values, elements):
    """Root mean square and evenly spaced elements."""
    flat = values.detach().flatten()
    kept = [flat[(len(flat) - 1) * k // (elements - 1)].item() for k in range(elements)]
    return [float(f"{x:.8g}") for x in [flat.pow(2).mean().sqrt().item(), *kept]]
