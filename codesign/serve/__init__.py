"""A local page on which sliders change designs (``codesign serve``)."""
