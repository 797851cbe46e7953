"""`python -m simulator`: start one simulated SGLang server in the foreground."""

import sys

from simulator.launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
