"""Verdicts to eyes: terminal, Allure, files."""
