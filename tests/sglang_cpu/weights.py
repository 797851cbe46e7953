"""Random weights by name and seed, and the safetensors file that holds them.

Standard library only, so that a checkpoint can be made in any environment and comes out the same, byte for
byte, in each. A tensor's values depend on the seed and its own name alone: leaving one tensor out, or changing
its scale, changes no other.
"""

import json
import math
import random
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor: safetensors' name of its type ("BF16", "F32"), its shape and its little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(slots=True)
class Weights:
    """The tensors of a checkpoint being made, by name."""

    seed: int = 0
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def random(self, name: str, *shape: int, scale: float) -> None:
        """A bf16 tensor of normal values with standard deviation `scale`."""
        self.put(
            name, shape, (scale * value for value in normal_values(f"{self.seed}/{name}", math.prod(shape)))
        )

    def random_f32(self, name: str, *shape: int, scale: float) -> None:
        """As `random`, stored as float32."""
        values = array("f", (scale * v for v in normal_values(f"{self.seed}/{name}", math.prod(shape))))
        self.tensors[name] = Tensor("F32", shape, struct.pack(f"<{len(values)}f", *values))

    def constant(self, name: str, *shape: int, value: float) -> None:
        """A bf16 tensor that holds `value` everywhere."""
        self.put(name, shape, (value for _ in range(math.prod(shape))))

    def constant_f32(self, name: str, *shape: int, value: float) -> None:
        """As `constant`, stored as float32."""
        count = math.prod(shape)
        self.tensors[name] = Tensor("F32", shape, struct.pack(f"<{count}f", *[value] * count))

    def passing_through(self, name: str, rows: int, columns: int, first_column: int, noise: float) -> None:
        """A bf16 matrix that copies `rows` inputs, from `first_column` on, to its outputs, plus normal noise."""
        values = normal_values(f"{self.seed}/{name}", rows * columns)
        self.put(
            name,
            (rows, columns),
            (
                noise * next(values) + (1.0 if column == first_column + row else 0.0)
                for row in range(rows)
                for column in range(columns)
            ),
        )

    def normal_rows(self, name: str, rows: int, columns: int) -> list[list[float]]:
        """Standard normal values as a matrix, for a tensor that is put together by hand."""
        values = normal_values(f"{self.seed}/{name}", rows * columns)
        return [[next(values) for _ in range(columns)] for _ in range(rows)]

    def shuffled(self, name: str, items: Iterable[int]) -> list[int]:
        """The items in an order of their own for this seed and name."""
        key = random.Random(f"{self.seed}/{name}").random
        return [item for _, item in sorted((key(), item) for item in items)]

    def put(self, name: str, shape: tuple[int, ...], values: Iterable[float]) -> None:
        """Store values as bf16, rounded to nearest even as torch does."""
        self.tensors[name] = Tensor("BF16", shape, bf16_bytes(values))

    def renamed(self, prefix: str, new_prefix: str) -> "Weights":
        """The same tensors, with one prefix of their names replaced by another."""
        return Weights(
            self.seed,
            {
                new_prefix + name.removeprefix(prefix) if name.startswith(prefix) else name: tensor
                for name, tensor in self.tensors.items()
            },
        )


def normal_values(seed: str, count: int) -> Iterator[float]:
    """`count` standard normal values (Box and Muller); `Random.random` is the one stream Python keeps stable."""
    uniform = random.Random(seed).random
    for left in range(count, 0, -2):
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform()))
        angle = 2.0 * math.pi * uniform()
        yield radius * math.cos(angle)
        if left > 1:
            yield radius * math.sin(angle)


def bf16_bytes(values: Iterable[float]) -> bytes:
    """Finite values as little-endian bfloat16: the upper half of float32, rounded to nearest even."""
    bits = array("I", array("f", values).tobytes())
    upper = [(word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in bits]
    return struct.pack(f"<{len(upper)}H", *upper)


def safetensors_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file: header length, JSON header padded to 8 bytes, data (wider types first, then by name)."""
    ordered = sorted(tensors.items(), key=lambda item: (item[1].dtype != "F32", item[0]))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in ordered:
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensor.data for _, tensor in ordered)
