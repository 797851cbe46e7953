"""The GPUs of a host, seen through its nvidia-smi: what they are, what else runs on them, how they fared in a round."""

from suite.probes.gpus.faults import card_faults
from suite.probes.gpus.links import Link, Topology, distance, links, nccl_ways, read_topology, topology
from suite.probes.gpus.query import SERIOUS, Gpu, Gpus, NoGpus, Process, kernel_log, parse, processes, read
from suite.probes.gpus.sampler import Sampler
