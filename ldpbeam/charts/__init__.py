"""Charts of estimates, which ``plot()`` of the library and the page of a run share."""
