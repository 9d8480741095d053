"""Web pages: cheap scans of markup before any parser, and the engines that take the text out."""
