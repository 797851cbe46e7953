"""Tests of the room that says what is true."""
