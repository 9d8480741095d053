"""Rules of published data sets (Gopher, C4, FineWeb) and figures of a text's shape, over whole batches."""
