"""What genuine SGLang answers for cards that are not here: its own resolution, pretended cards, no launch."""
