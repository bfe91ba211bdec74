"""A wing that nobody imports: how precise estimates will be, before any report is collected."""
