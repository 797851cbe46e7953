"""The GPUs of a host, seen through its nvidia-smi: what they are, what else runs on them, how they fared in a round."""

from suite.probes.gpus.query import SERIOUS, Gpu, Gpus, NoGpus, Process, kernel_log, parse, read, xids
from suite.probes.gpus.sampler import Sampler

__all__ = ["SERIOUS", "Gpu", "Gpus", "NoGpus", "Process", "Sampler", "kernel_log", "parse", "read", "xids"]
