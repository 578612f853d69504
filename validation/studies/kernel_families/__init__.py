"""One module per family of measured kernels: what a row asks for, and the fit of its constants."""
