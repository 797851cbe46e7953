"""The GPUs of a host, seen through its nvidia-smi: what they are, what else runs on them, how they fared in a round."""

from suite.probes.gpus.evidence import SERIOUS, Throttling, throttled
from suite.probes.gpus.query import Gpu, Gpus, NoGpus, Process, kernel_log, parse, read, xids
from suite.probes.gpus.sampler import Sampler

__all__ = [
    "SERIOUS",
    "Gpu",
    "Gpus",
    "NoGpus",
    "Process",
    "Sampler",
    "Throttling",
    "kernel_log",
    "parse",
    "read",
    "throttled",
    "xids",
]
