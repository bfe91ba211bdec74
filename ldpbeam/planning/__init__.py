"""A wing that no other room imports: how precise estimates will be, before any report is collected."""
