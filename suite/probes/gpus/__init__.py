"""The GPUs of a host, seen through its nvidia-smi: what they are, what else runs on them, how they fared in a round."""

from suite.probes.gpus.faults import CardFault, card_faults
from suite.probes.gpus.links import Link, Topology, distance, links, nccl_ways, read_topology, topology
from suite.probes.gpus.query import SERIOUS, Gpu, Gpus, NoGpus, Process, kernel_log, parse, processes, read
from suite.probes.gpus.sampler import Sampler

__all__ = [
    "SERIOUS",
    "CardFault",
    "Gpu",
    "Gpus",
    "Link",
    "NoGpus",
    "Process",
    "Sampler",
    "Topology",
    "card_faults",
    "distance",
    "kernel_log",
    "links",
    "nccl_ways",
    "parse",
    "processes",
    "read",
    "read_topology",
    "topology",
]
