"""The encoder of iterated dilated convolutions, its baselines and ablations.

Strubell, Verga, Belanger and McCallum, "Fast and Accurate Entity Recognition with
Iterated Dilated Convolutions", EMNLP 2017. Equation numbers are the paper's. Shape
letters: `T` tokens, `D` input features, `H` features.

Departures: padding is zero between the layers; in the authors' code the bias makes it
nonzero, and it leaks into the last tokens of shorter sentences. Sentences get no
padding tokens at their ends; documents have separators, as there. A CRF's likelihood
covers every token; theirs leaves out the last.
"""

from __future__ import annotations

from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxner.fields import Depth, Distance, OneOf, Size
from jaxner.models import layers
from jaxner.models.layers import Features, Mask

WIDTH = 3
BIAS = 0.01  # initial bias of the first layer and of the head


def identity(key, shape, dtype=jnp.float32, out_sharding=None):
    """Returns a kernel [3 · H, H] whose centre tap is the identity, as in the paper."""
    del key, out_sharding
    size = shape[1]
    return jnp.zeros(shape, dtype).at[size : 2 * size].set(jnp.eye(size, dtype=dtype))


INITIALIZERS = {"identity": identity, "glorot": layers.convolution_glorot(WIDTH)}


class Block(nn.Module):
    """Dilated convolutions of width 3, each followed by a ReLU (eq. 7, 8)."""

    dilations: tuple[int, ...]
    initializer: str

    @nn.compact
    def __call__(self, x: Features, mask: Mask) -> Features:
        """Returns the features of each token; zero under padding."""
        init = INITIALIZERS[self.initializer]
        for i, dilation in enumerate(self.dilations, 1):
            sizes = x.shape[1], WIDTH, dilation
            conv = layers.Convolution(*sizes, True, init, name=f"conv{i}")
            x = jnp.where(mask[:, None], jax.nn.relu(conv(x)), 0.0)
        return x


class IDCNN(nn.Module):
    """A convolution, then a block of dilated convolutions applied repeatedly.

    The baselines are blocks with other dilations: (1, 1, 1) is the paper's 4-layer CNN,
    (1, 1, 1, 1) its 5-layer CNN. Dropout applies only to what the head reads, not to
    what one block passes to the next.

    Attributes:
        hidden_dim: Features of every layer.
        dilations: Dilations of the block's convolutions. The paper's eq. 7 ends in 1.
        num_blocks: How often the block is applied; each application is a stage.
        share: Whether the applications share their weights ("noshare" if not).
        initializer: How the block's kernels are drawn: "identity" (the paper's: only
            centre taps are not zero; many blocks learn slowly from afar) or "glorot".
    """

    hidden_dim: Size = 300
    dilations: tuple[Distance, ...] = (1, 2, 1)
    num_blocks: Depth = 1
    share: bool = True
    initializer: Annotated[str, OneOf(INITIALIZERS)] = "identity"

    @property
    def num_stages(self) -> int:
        """Number of stages: one for each application of the block."""
        return self.num_blocks

    @nn.compact
    def __call__(self, x: Features, mask: Mask, *, train: bool):
        """Returns the features of each token after each block, in order."""
        del train  # dropout is in the representation and in the head
        glorot = layers.convolution_glorot(WIDTH)
        sizes = self.hidden_dim, WIDTH, 1
        initial = layers.Convolution(*sizes, True, glorot, BIAS, name="initial")
        x = jnp.where(mask[:, None], jax.nn.relu(initial(x)), 0.0)
        names = [f"block{i}" for i in range(1, self.num_blocks + 1)]
        blocks = [
            Block(self.dilations, self.initializer, name=name)
            for name in (["block"] if self.share else names)
        ]
        stages = []
        for i in range(self.num_blocks):
            x = blocks[0 if self.share else i](x, mask)
            stages.append(x)
        return tuple(stages), {}
