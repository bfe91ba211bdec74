"""True values become reports: the code on a device, and the code that simulates many devices."""
