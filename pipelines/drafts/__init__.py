"""A first study: what data suggests for it, and its commented text (``ldpbeam init``)."""
