"""`python -m suite.simulator`: start one simulated SGLang server in the foreground."""

import sys

from suite.simulator.launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
