"""Proof that the tests of the verdict's core can fail: each small change to its code must break one of them."""
