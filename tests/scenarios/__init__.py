"""Tests of the rules that scenarios stand on."""
