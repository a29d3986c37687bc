"""Hardware profiles: fitted laws of kernels and links, what-if devices, where every timing came from."""
