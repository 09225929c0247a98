"""Train a small convolutional network on scikit-learn's digits, data parallel, elastic.

    python examples/digits.py --steps 50                       # one process
    dlrover-run --nproc-per-node=2 examples/digits.py          # two, on this machine
    convoy submit examples/digits-allreduce.yaml --local       # sized by the Brain

The global batch is the same whatever the number of workers: each takes its part of it.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from convoy.trainer import ElasticTrainer, worker_device

CLASSES = 10
HELD_OUT = 297
"""Of 1,797 images so many are kept for the test."""


def network(width: int, depth: int) -> nn.Sequential:
    """Return a network of ``depth`` 3 x 3 convolutions with ``width`` channels over [batch, 1, 8, 8] images."""
    layers: list[nn.Module] = []
    channels = 1
    for _ in range(depth):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(width * 16, CLASSES))


def data(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images [1797, 1, 8, 8] in 0..1 and labels [1797], shuffled alike everywhere."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(digits.images, dtype=torch.float32)[order].unsqueeze(1) / 16.0
    return images.to(device), torch.tensor(digits.target)[order].to(device)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    job_dir = os.environ.get("CONVOY_JOB_DIR")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="steps to train (default: %(default)s)")
    parser.add_argument(
        "--global-batch", type=int, default=512, help="samples a step, all workers (default: %(default)s)"
    )
    parser.add_argument("--width", type=int, default=64, help="channels of a convolution (default: %(default)s)")
    parser.add_argument("--depth", type=int, default=3, help="convolutions (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.001, help="of Adam (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="order of samples, first weights (default: %(default)s)")
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps (default: %(default)s)")
    parser.add_argument("--checkpoint-dir", type=Path, help="default: checkpoints in $CONVOY_JOB_DIR; without: none")
    parser.add_argument(
        "--finish-file",
        type=Path,
        default=Path(job_dir) / "finish" if job_dir else None,
        help="stop at the first step boundary at which this file exists (default: finish in $CONVOY_JOB_DIR)",
    )
    return parser.parse_args()


def main() -> None:
    """Train, then test on the images that were held out."""
    args = arguments()
    torch.manual_seed(args.seed)
    device = worker_device()
    images, labels = data(device)
    x, y = images[:-HELD_OUT], labels[:-HELD_OUT]
    model = network(args.width, args.depth).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    with ElasticTrainer(
        model,
        optimizer,
        dataset_size=len(y),
        global_batch=args.global_batch,
        seed=args.seed,
        checkpoint_every=args.checkpoint_every,
        checkpoint_dir=args.checkpoint_dir,
        finish_file=args.finish_file,
    ) as trainer:
        started, first = time.monotonic(), trainer.finished_step
        for batch in trainer.batches(args.steps):
            trainer.step(cross_entropy(trainer.model(x[batch.rows]), y[batch.rows]))
        seconds, steps = time.monotonic() - started, trainer.finished_step - first
    if trainer.is_first:
        with torch.no_grad():
            right = (model(images[-HELD_OUT:]).argmax(1) == labels[-HELD_OUT:]).float().mean().item()
        speed = steps * args.global_batch / seconds if seconds else 0.0
        print(f"step {trainer.finished_step}: loss {trainer.loss:.4f}, accuracy {right:.3f}, {speed:.0f} samples/s")


if __name__ == "__main__":
    main()
