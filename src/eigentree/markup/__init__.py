"""HTML and SVG by our own hand, for pages and notebooks."""
