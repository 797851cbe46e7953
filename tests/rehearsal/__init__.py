"""Rehearsals: cards pretended to genuine SGLang, its recorded answers, and what is held to them."""
