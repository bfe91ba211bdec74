"""The estimator ``auto``: it chooses or averages among methods by the data alone. One file per domain."""
