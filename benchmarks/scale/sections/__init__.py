"""The sections of the page: each module has a function ``section`` that returns Markdown."""
