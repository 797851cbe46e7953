"""The paced server: the truth that the client is tested and benchmarked against."""
