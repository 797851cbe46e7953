"""Which SGLang is meant: a specification on a command line or in ``suite.toml``, made into something that can be launched."""

from suite.builds.build import OWN, Build
from suite.builds.errors import BuildError
from suite.builds.resolve import KNOWN_GOOD, resolve
from suite.builds.spec import read
from suite.config import BuildTable as Table
