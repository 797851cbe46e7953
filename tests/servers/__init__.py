"""Tests of launching servers, and of ending them wholly."""
