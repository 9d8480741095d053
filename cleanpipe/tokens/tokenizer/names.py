"""Well-known names of the tokens before and after a document; the first that a tokenizer has is taken."""

BOS_NAMES = (
    "<s>",
    "<|begin_of_text|>",
    "<|bos|>",
    "<bos>",
    "<|startoftext|>",
    "<|begin▁of▁sentence|>",
    "<｜begin▁of▁sentence｜>",
    "[BOS]",
    "<BOS>",
)
EOS_NAMES = (
    "</s>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|eos|>",
    "<eos>",
    "<|end▁of▁sentence|>",
    "<｜end▁of▁sentence｜>",
    "[EOS]",
    "<EOS>",
    "<|eot_id|>",
)
