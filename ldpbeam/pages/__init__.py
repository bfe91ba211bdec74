"""The page of ``ldpbeam report``: outputs of runs as one HTML file that needs no network."""
