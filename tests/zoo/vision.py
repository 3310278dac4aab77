"""Vision models and generative ones, small: the structure of their papers, few channels."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from tests.zoo.sample import Sample


class TwoConvolutions(nn.Sequential):
    """The block of a U-Net."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    """Segmentation with skip connections (Ronneberger et al., 2015)."""

    def __init__(self, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        sizes = [width << step for step in range(depth)]
        self.down = nn.ModuleList(map(TwoConvolutions, [3, *sizes[:-1]], sizes))
        self.bottom = TwoConvolutions(sizes[-1], sizes[-1] * 2)
        self.widen = nn.ModuleList(nn.ConvTranspose2d(size * 2, size, 2, 2) for size in reversed(sizes))
        self.up = nn.ModuleList(TwoConvolutions(size * 2, size) for size in reversed(sizes))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for block in self.down:
            image = block(image)
            kept.append(image)
            image = functional.max_pool2d(image, 2)
        image = self.bottom(image)
        for widen, block in zip(self.widen, self.up):  # noqa: B905 (TorchScript knows no `strict`)
            image = block(torch.cat([kept.pop(), widen(image)], 1))
        return self.head(image)


class YoloHead(nn.Module):
    """Boxes on a grid from anchors, as one-stage detectors decode them (Redmon et al., 2016)."""

    def __init__(self, classes: int = 4, anchors: int = 3) -> None:
        super().__init__()
        self.outputs = classes + 5
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.LeakyReLU(0.1))
        self.neck = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.SiLU())
        self.head = nn.Conv2d(32, anchors * self.outputs, 1)
        self.register_buffer("anchors", torch.rand(anchors, 2) * 8 + 1)

    def forward(self, image: torch.Tensor, threshold: float = 0.25) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.head(self.neck(self.stem(image)))
        batch, _, rows, columns = found.shape
        found = found.view(batch, self.anchors.size(0), self.outputs, rows, columns)
        found = found.permute(0, 1, 3, 4, 2).contiguous()
        y, x = torch.meshgrid([torch.arange(rows), torch.arange(columns)], indexing="ij")
        grid = torch.stack([x, y], dim=-1).to(found.dtype)
        stride = image.size(-1) / columns
        centre = (found[..., 0:2].sigmoid() * 2 - 0.5 + grid) * stride
        size = (found[..., 2:4].sigmoid() * 2) ** 2 * self.anchors[None, :, None, None, :]
        score = found[..., 4].sigmoid()
        boxes = torch.cat([centre - size / 2, centre + size / 2], dim=-1)
        return boxes[score > threshold], score[score > threshold]


class SSD(nn.Module):
    """Class scores and offsets from feature maps of several scales (Liu et al., 2016)."""

    def __init__(self, classes: int = 5, boxes: int = 4) -> None:
        super().__init__()
        self.classes = classes
        widths = [16, 32, 32]
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(before, width, 3, 2, 1), nn.ReLU())
            for before, width in zip([3, *widths], widths, strict=False)
        )
        self.scores = nn.ModuleList(nn.Conv2d(width, boxes * classes, 3, padding=1) for width in widths)
        self.offsets = nn.ModuleList(nn.Conv2d(width, boxes * 4, 3, padding=1) for width in widths)
        self.register_buffer("priors", torch.rand((16 * 16 + 8 * 8 + 4 * 4) * boxes, 4))

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        scores: list[torch.Tensor] = []
        offsets: list[torch.Tensor] = []
        for stage, to_scores, to_offsets in zip(self.stages, self.scores, self.offsets):  # noqa: B905
            image = stage(image)
            scores.append(to_scores(image).permute(0, 2, 3, 1).reshape(image.size(0), -1, self.classes))
            offsets.append(to_offsets(image).permute(0, 2, 3, 1).reshape(image.size(0), -1, 4))
        offset = torch.cat(offsets, 1)
        centre = self.priors[:, :2] + offset[..., :2] * 0.1 * self.priors[:, 2:]
        size = self.priors[:, 2:] * torch.exp(offset[..., 2:] * 0.2)
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1).clamp(0, 1)
        return {"scores": torch.softmax(torch.cat(scores, 1), -1), "boxes": boxes}


class Residual(nn.Module):
    """A block of the style-transfer net."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, padding_mode="reflect")
        self.first_norm = nn.InstanceNorm2d(width, affine=True)
        self.second = nn.Conv2d(width, width, 3, padding=1, padding_mode="reflect")
        self.second_norm = nn.InstanceNorm2d(width, affine=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        found = functional.relu(self.first_norm(self.first(image)))
        return image + self.second_norm(self.second(found))


class StyleTransfer(nn.Module):
    """Feed-forward style transfer (Johnson et al., 2016)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.pad = nn.ReflectionPad2d(4)
        self.enter = nn.Conv2d(3, width, 9)
        self.norm = nn.InstanceNorm2d(width, affine=True)
        self.down = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.blocks = nn.Sequential(Residual(2 * width), Residual(2 * width))
        self.up = nn.Conv2d(2 * width, width, 3, padding=1)
        self.leave = nn.Conv2d(width, 3, 9)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        found = functional.relu(self.norm(self.enter(self.pad(image))))
        found = self.blocks(functional.relu(self.down(found)))
        found = functional.interpolate(found, scale_factor=2.0, mode="nearest")
        return torch.sigmoid(self.leave(self.pad(functional.relu(self.up(found)))))


class VAE(nn.Module):
    """A variational autoencoder; training draws its latent vector (Kingma and Welling, 2014)."""

    def __init__(self, inputs: int = 64, latent: int = 4) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, 32), nn.GELU())
        self.mean, self.log_variance = nn.Linear(32, latent), nn.Linear(32, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 32), nn.GELU(), nn.Linear(32, inputs))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encoder(x.flatten(1))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        drawn = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.decoder(drawn)).view_as(x), mean, log_variance


class Generator(nn.Module):
    """The generator of a DCGAN, told a class (Radford et al., 2016)."""

    def __init__(self, latent: int = 8, width: int = 8, classes: int = 3) -> None:
        super().__init__()
        self.classes = nn.Embedding(classes, latent)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(latent, 2 * width, 4, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, noise: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.up((noise * self.classes(label))[:, :, None, None])


class Denoiser(nn.Module):
    """One scale of a diffusion U-Net: time embedding, group norm, attention (Ho et al., 2020)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2 * width))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.query_key_value = nn.Conv2d(width, 3 * width, 1)
        self.up = nn.ConvTranspose2d(width, width, 4, 2, 1)
        self.leave = nn.Conv2d(2 * width, 3, 3, padding=1)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, rows, columns = x.shape
        query, key, value = self.query_key_value(x).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        found = functional.scaled_dot_product_attention(query, key, value)
        return x + found.transpose(1, 2).reshape(batch, channels, rows, columns)

    def forward(self, image: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        rates = torch.exp(torch.arange(half, device=image.device) * (-9.2 / half))
        angles = step[:, None].float() * rates[None]
        scale, shift = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None].chunk(2, 1)
        found = self.norm(self.enter(image)) * (1 + scale) + shift
        inner = self.attend(functional.silu(self.down(functional.silu(found))))
        return self.leave(torch.cat([found, self.up(inner)], 1))


class PointNet(nn.Module):
    """Classes of point clouds, aligned by a learned transform (Qi et al., 2017)."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.align = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.transform = nn.Linear(16, 9)
        self.points = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1))
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, classes))

    def forward(self, points: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        turn = self.transform(self.align(points).amax(2)).view(-1, 3, 3) + torch.eye(3)
        found = self.points(torch.bmm(turn, points))
        if weights is not None:
            found = found * weights[:, None]
        return functional.log_softmax(self.head(found.max(dim=2)[0]), dim=1)


def image(side: int, channels: int = 3) -> torch.Tensor:
    return torch.randn(2, channels, side, side)


def steps() -> torch.Tensor:
    return torch.tensor([1, 500])


KIND = "vision and generative models, small"
SAMPLES = [
    Sample(KIND, "U-Net", lambda: (UNet(), (image(32),)), lambda: (image(36),)),
    Sample(KIND, "YOLO head", lambda: (YoloHead(), (image(32),)), None),
    Sample(KIND, "SSD", lambda: (SSD(), (image(32),)), lambda: (image(48),)),
    Sample(KIND, "style transfer", lambda: (StyleTransfer(), (image(16),)), lambda: (image(2),)),
    Sample(KIND, "VAE", lambda: (VAE(), (torch.randn(3, 8, 8),)), lambda: (torch.randn(3, 8, 9),)),
    Sample(
        KIND,
        "GAN generator",
        lambda: (Generator(), (torch.randn(2, 8), torch.tensor([0, 2]))),
        lambda: (torch.randn(2, 8), torch.tensor([0, 3])),
    ),
    Sample(
        KIND,
        "diffusion U-Net",
        lambda: (Denoiser(), (image(16), steps())),
        lambda: (image(15), steps()),
    ),
    Sample(
        KIND,
        "PointNet",
        lambda: (PointNet(), (torch.randn(2, 3, 20), torch.rand(2, 20))),
        lambda: (torch.randn(2, 3, 20), torch.rand(2, 21)),
    ),
]
