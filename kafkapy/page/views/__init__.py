"""The views of the page: what is asked for becomes the values of a template."""
