"""What runs on the host of a server, in the host's own Python: standard library only, Python 3.8 and later.

These modules are sent over as text and import nothing of this project but one another.
"""
