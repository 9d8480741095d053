"""Language identification with fastText: finding a model, the text it is given, thresholds tied to its digest."""
