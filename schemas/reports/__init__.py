"""The columns of reports: which there are, and how fields of any format become them."""
