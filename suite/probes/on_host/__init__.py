"""Scripts that run on a host by whatever Python is there: standard library only, Python 3.10 and later (as SGLang itself), JSON out."""
