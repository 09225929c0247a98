"""What a training script imports: the elastic trainer and its parts."""

from convoy.trainer.checkpoint import Checkpoints
from convoy.trainer.elastic import PEER_LOST_STATUS, Batch, ElasticTrainer, Yielded, worker_device
from convoy.trainer.place import Place
from convoy.trainer.sampler import GlobalSampler

__all__ = [
    "PEER_LOST_STATUS",
    "Batch",
    "Checkpoints",
    "ElasticTrainer",
    "GlobalSampler",
    "Place",
    "Yielded",
    "worker_device",
]
