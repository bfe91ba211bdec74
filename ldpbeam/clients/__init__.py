"""True values become reports: what runs on a device, and what stands in for many devices."""
