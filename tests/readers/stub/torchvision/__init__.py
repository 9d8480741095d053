"""mosaicml-streaming imports torchvision for its datasets of images; of tokens it needs nothing of it."""
