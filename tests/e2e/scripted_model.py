"""A checkpoint whose greedy answers are known: a model that writes scripts. Each token has one successor, so the last token of
the prompt says which script comes. Its layer does nothing; the head of a token is where its predecessor is."""

import json
import pathlib
import struct

END = "<end>"

# A chat with tools, reasoning and results, each to be seen in the prompt.
TOOLS_TEMPLATE = """{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}[{{ message.role }}]
{%- if message.reasoning_content %}({{ message.reasoning_content }}){% endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}<{{ call.function.name }} in {{ call.function.arguments.city }}>{% endfor %}
{%- if message.tool_call_id %} for {{ message.tool_call_id }} of {{ message.name }}{% endif %}{% endfor %}
{#- <tool_call> </think> #}"""


def _byte_letters():
    """The letters that stand for bytes in a byte-level vocabulary."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return {**{byte: chr(byte) for byte in kept}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


LETTERS = _byte_letters()


def _pieces(text, used):
    """Cuts the text into pieces that no script has used, as short as can be."""
    pieces, begin = [], 0
    for end in range(1, len(text) + 1):
        if text[begin:end] not in used:
            pieces.append(text[begin:end])
            used.add(text[begin:end])
            begin = end
    if begin < len(text):  # what is left was used elsewhere
        if not pieces:
            raise ValueError(f"no new piece in {text!r}")
        used.discard(pieces[-1])
        pieces[-1] += text[begin:]
        used.add(pieces[-1])
    return pieces


def _plan(scripts, special):
    """The vocabulary as tokenizer.json spells it, in the order of ids, and each token's successor."""
    tokens = [*LETTERS.values(), END, *special]
    # What a script starts after is no piece of another.
    used, follow = {name.removeprefix("after ") for name in scripts if name.startswith("after ")}, {}
    for name, script in scripts.items():
        start = name.removeprefix("after ") if name.startswith("after ") else f"<go:{name}>"
        start = LETTERS[ord(start)] if len(start) == 1 else start
        if start not in tokens:
            tokens.append(start)
        last = start
        for part in script:
            spelled = [LETTERS[byte] for byte in part] if isinstance(part, bytes) else [part] if part in special else [
                "".join(LETTERS[byte] for byte in piece.encode()) for piece in _pieces(part, used)]
            for token in spelled:
                if follow.setdefault(last, token) != token:
                    raise ValueError(f"{last!r} has two successors")
                last = token
                if token not in tokens:
                    tokens.append(token)
        follow.setdefault(last, END)
    return tokens, follow


def _tokenizer(tokens, special):
    vocab = {token: i for i, token in enumerate(tokens)}
    added = [{"id": vocab[token], "content": token, "special": is_special, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False}
             for token, is_special in [(END, True), *special.items(),
                                       *((token, False) for token in tokens if token.startswith("<go:"))]]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level,
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocab, "merges": []}}


def _write_weights(path, config, follow, ids):
    size, rows, inner = config["hidden_size"], config["vocab_size"], config["intermediate_size"]
    one = struct.pack("<f", 1.0)

    def matrix(height, width, ones=()):
        data = bytearray(4 * height * width)
        for row, column in ones:
            data[4 * (row * width + column):4 * (row * width + column) + 4] = one
        return (height, width), bytes(data)

    layer = "model.layers.0."
    tensors = {
        "model.embed_tokens.weight": matrix(rows, size, [(i, i) for i in range(rows)]),
        "lm_head.weight": matrix(rows, size, [(ids[after], ids[token]) for token, after in follow.items()]),
        "model.norm.weight": ((size,), one * size),
        layer + "input_layernorm.weight": ((size,), one * size),
        layer + "post_attention_layernorm.weight": ((size,), one * size),
        layer + "mlp.gate_proj.weight": matrix(inner, size),
        layer + "mlp.up_proj.weight": matrix(inner, size),
        layer + "mlp.down_proj.weight": matrix(size, inner),
        layer + "self_attn.o_proj.weight": matrix(size, 64),
    }
    for name in "qkv":
        tensors[f"{layer}self_attn.{name}_proj.weight"] = matrix(64, size)
    header, end = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)


def make(folder, scripts, special, chat_template, max_position_embeddings=4096):
    """Writes the checkpoint. `scripts` are lists of texts, special tokens and bytes (a token for each), by name: after
    <go:NAME> the model writes one; and after the letter or the token X that of the name "after X". `special` says of
    each further token whether it is left out of texts."""
    folder = pathlib.Path(folder)
    tokens, follow = _plan(scripts, special)
    ids = {token: i for i, token in enumerate(tokens)}
    size = -(-len(tokens) // 64) * 64
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens),
              "hidden_size": size, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1,
              "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": max_position_embeddings, "rms_norm_eps": 1e-6,
              "tie_word_embeddings": False, "eos_token_id": ids[END], "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(tokens, special)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "chat_template": chat_template}))
    _write_weights(folder / "model.safetensors", config, follow, ids)
