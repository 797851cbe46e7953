"""SGLang's wire and words: flags, names by version, settings, what it answers over HTTP, the sources of speculation."""
