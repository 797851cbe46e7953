"""A server that runs, or the command that starts one, described as a target of ``suite.toml``."""

from suite.describe.draft import CannotDescribe, Draft
from suite.describe.source import describe
from suite.describe.table import table
