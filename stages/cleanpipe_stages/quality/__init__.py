"""What quality_score measures with: character counts, n-gram perplexity, and the text form the model reads."""
