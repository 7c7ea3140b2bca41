"""ResNet-18 (He et al. 2016, https://arxiv.org/abs/1512.03385) for small images, with the activation under study."""

from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor, nn

from adalin.methods import Activation


class Block(nn.Module):
    """act2(bn2(conv2(act1(bn1(conv1(x))))) + shortcut(x)), with `units` channels before each activation.

    The shortcut is x itself, or `downsample`, a 1 x 1 convolution with batch norm, where x and the sum differ in shape.
    """

    def __init__(
        self, inputs: int, units: int, make: Callable[..., nn.Module], *, expansion: int = 1, stride: int = 1
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, units, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(units)
        self.act1 = make(units)
        self.conv2 = nn.Conv2d(units * expansion, units, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(units)
        # Not nn.Identity for "none": that is the activation of a deep linear network, which metrics look for.
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != units:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, units, 1, stride, bias=False),
                nn.BatchNorm2d(units),
            )
        self.act2 = make(units)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        hidden = self.act1(self.bn1(self.conv1(x)))
        return self.act2(self.bn2(self.conv2(hidden)) + shortcut)


def resnet18(channels: int, outputs: int, activation: Activation, *, width: int = 64) -> nn.Sequential:
    """3 x 3 stem with stride 1 and no max-pool, then stages of `width` times 1, 2, 4 and 8 channels, two blocks each.

    11,220,132 parameters with ReLU and 100 outputs; AdaLin adds 3,904 alphas, one per channel of each of the 17
    activations. All other names in its state dict are torchvision's: weights of theirs load with `strict=False` once
    `conv1.weight` (7 x 7 there) is left out, and `fc` for other classes. The initialisation is torch's default.

    CReLU and DeepFourier have two outputs per channel. Each activation then gives as many channels as in the plain
    network, and each convolution and batch norm half as many. A block's sum comes before its last activation, with half
    the channels of the block's input, which no identity fits: all eight shortcuts are `downsample`, where the plain
    network has three. That makes 5,812,868 parameters; it is what `match="units"` means here.
    """
    make, expansion = activation.layers(), activation.expansion
    if width % expansion:
        raise ValueError(f"the width of a resnet18 with {activation.entry} is a multiple of {expansion}, not {width}")
    units = width // expansion
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, units, 3, padding=1, bias=False), bn1=nn.BatchNorm2d(units), act1=make(units)
    )
    inputs = width
    for stage in range(4):
        units = width * 2**stage // expansion
        layers[f"layer{stage + 1}"] = nn.Sequential(
            Block(inputs, units, make, expansion=expansion, stride=1 if stage == 0 else 2),
            Block(units * expansion, units, make, expansion=expansion),
        )
        inputs = units * expansion
    layers.update(avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(inputs, outputs))
    return nn.Sequential(layers)
