"""Hugging Face folders of very small models with random weights, of the kinds that neural scorers meet."""

import json
import math

SENTENCES = """The night ferry leaves at twenty past nine and reaches the islands shortly before sunrise.
Salt is raked from the shallow pans by hand, and the finest crystals are lifted off at noon.
Letters from the archive were photographed page by page under soft light and described in a catalogue.
Rain gauges on the ridge are read by hand, since the wind shakes the automatic ones to pieces.
The town library lends tools as well as novels, and the drill is out more often than any book.
Beekeepers in the valley move their hives in early June, when the lime trees come into flower.""".splitlines()
LINES = [*SENTENCES, "Hello, world! 0123456789 (a) [b] {c} <d> naïve café"]


def bpe(folder, *, bos, added, unk=None, mask="<mask>", length=None):
    """A byte-level BPE. bos: its name or None; added: does the tokenizer put it, and </s> where ``mask`` is, around?"""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    specials = [x for x in (bos, "<pad>", "</s>", unk, mask) if x]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        LINES,
        trainers.BpeTrainer(vocab_size=400, special_tokens=specials, initial_alphabet=alphabet, show_progress=False),
    )
    if added:
        end = " </s>" if mask else ""
        names = [(x, tokenizer.token_to_id(x)) for x in (bos, "</s>")]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A{end}", special_tokens=names)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}
    config |= {"bos_token": bos} if bos else {}
    config |= {"mask_token": mask} if mask else {}
    config |= {"model_max_length": length} if length else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer


def wordpiece(folder):
    """BERT's way: lower case, pieces of words, [UNK] for what has none."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=300, special_tokens=specials, show_progress=False)
    )
    names = [(x, tokenizer.token_to_id(x)) for x in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=names)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {
        f"{k}_token": f"[{v}]"
        for k, v in {"pad": "PAD", "unk": "UNK", "cls": "CLS", "sep": "SEP", "mask": "MASK"}.items()
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}))
    return tokenizer


def save(model, folder, *, safe=True):
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(7)
    with torch.no_grad():  # words far from even, so that an error shows
        for name, weights in model.named_parameters():
            if weights.ndim > 1:
                weights.copy_(
                    torch.randn(weights.shape)
                    * (0.6 if "embed" in name or "wte" in name else 1.2 / math.sqrt(weights.shape[1]))
                )
    if safe:
        model.save_pretrained(folder)
    else:
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def masked(kind, folder, *, safe=True, length=32):
    """roberta, bert or distilbert: a folder with a masked model that takes ``length`` tokens."""
    import transformers as t

    folder.mkdir()
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if kind == "roberta":
        n = bpe(folder, bos="<s>", added=True, length=length).get_vocab_size()
        config = t.RobertaConfig(
            vocab_size=n, max_position_embeddings=length + 2, pad_token_id=1, bos_token_id=0, eos_token_id=2, **size
        )
        return save(t.RobertaForMaskedLM(config), folder, safe=safe)
    n = wordpiece(folder).get_vocab_size()
    if kind == "bert":
        return save(
            t.BertForMaskedLM(t.BertConfig(vocab_size=n, max_position_embeddings=length, **size)), folder, safe=safe
        )
    config = t.DistilBertConfig(
        vocab_size=n, max_position_embeddings=length, dim=16, n_layers=2, n_heads=2, hidden_dim=32
    )
    return save(t.DistilBertForMaskedLM(config), folder, safe=safe)


def causal(kind, folder, *, length=64):
    """gpt2 (a BOS token that its tokenizer does not add), llama (added) or neox (none at all)."""
    import transformers as t

    folder.mkdir()
    bos = {"gpt2": "<|start|>", "llama": "<s>", "neox": None}[kind]
    tokenizer = bpe(folder, bos=bos, added=kind == "llama", mask=None)
    n, end = tokenizer.get_vocab_size(), tokenizer.token_to_id("</s>")
    at = {"bos_token_id": tokenizer.token_to_id(bos) if bos else end, "eos_token_id": end}
    if kind == "gpt2":
        config = t.GPT2Config(vocab_size=n, n_positions=length, n_embd=16, n_layer=2, n_head=2, **at)
        return save(t.GPT2LMHeadModel(config), folder)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if kind == "llama":
        return save(
            t.LlamaForCausalLM(t.LlamaConfig(vocab_size=n, max_position_embeddings=length, **size, **at)), folder
        )
    return save(
        t.GPTNeoXForCausalLM(t.GPTNeoXConfig(vocab_size=n, max_position_embeddings=length, **size, **at)), folder
    )
