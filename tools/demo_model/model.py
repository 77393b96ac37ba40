"""The Qwen3 architecture in plain PyTorch, for training on packed chats. Parameter names are Hugging Face's."""

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 2048,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 100000.0,
    "rope_scaling": None,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "use_sliding_window": False,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "initializer_range": 0.02,
    "use_cache": True,
    "bos_token_id": None,
    "eos_token_id": 2047,
    "pad_token_id": 2045,
    "torch_dtype": "bfloat16",
}


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x.float(), x.shape[-1:], self.weight, CONFIG["rms_norm_eps"]).to(x.dtype)


def _linear(num_in, num_out):
    layer = nn.Linear(num_in, num_out, bias=False)
    nn.init.normal_(layer.weight, std=CONFIG["initializer_range"])
    return layer


def rotate(x, cos, sin):
    """Rotary embedding of [num_tokens, num_heads, head_dim]; cos and sin are [num_tokens, 1, head_dim / 2]."""
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def attend(q, k, v, starts, max_length):
    """Causal attention within each chat. q, k, v: [num_tokens, num_heads, head_dim]."""
    if q.is_cuda:
        from torch.nn.attention.varlen import varlen_attn
        return varlen_attn(q, k, v, starts, starts, max_length, max_length, window_size=(-1, 0))
    position = torch.arange(q.shape[0])
    chat = torch.bucketize(position, starts, right=True)
    mask = (chat[:, None] == chat[None, :]) & (position[:, None] >= position[None, :])
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        hidden, size = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.num_q, self.num_kv = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
        self.q_proj = _linear(hidden, self.num_q * size)
        self.k_proj = _linear(hidden, self.num_kv * size)
        self.v_proj = _linear(hidden, self.num_kv * size)
        self.o_proj = _linear(self.num_q * size, hidden)
        self.q_norm = RMSNorm(size)
        self.k_norm = RMSNorm(size)

    def forward(self, x, cos, sin, starts, max_length):
        n = x.shape[0]
        q = rotate(self.q_norm(self.q_proj(x).view(n, self.num_q, -1)), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(n, self.num_kv, -1)), cos, sin)
        v = self.v_proj(x).view(n, self.num_kv, -1)
        group = self.num_q // self.num_kv
        out = attend(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), starts, max_length)
        return self.o_proj(out.reshape(n, -1))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj = _linear(hidden, inner)
        self.up_proj = _linear(hidden, inner)
        self.down_proj = _linear(inner, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = RMSNorm(CONFIG["hidden_size"])
        self.self_attn = Attention()
        self.post_attention_layernorm = RMSNorm(CONFIG["hidden_size"])
        self.mlp = MLP()

    def forward(self, x, *attention_args):
        x = x + self.self_attn(self.input_layernorm(x), *attention_args)
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        nn.init.normal_(self.embed_tokens.weight, std=CONFIG["initializer_range"])
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = RMSNorm(CONFIG["hidden_size"])


class Model(nn.Module):
    """The output projection is the embedding (tied)."""

    def __init__(self):
        super().__init__()
        self.model = Backbone()
        size = CONFIG["head_dim"]
        frequencies = CONFIG["rope_theta"] ** (-torch.arange(0, size, 2).float() / size)
        angles = torch.outer(torch.arange(CONFIG["max_position_embeddings"]).float(), frequencies)
        self.register_buffer("cos", angles.cos()[:, None], persistent=False)
        self.register_buffer("sin", angles.sin()[:, None], persistent=False)

    def forward(self, tokens, positions, starts, max_length):
        """Logits [num_tokens, vocab_size]. starts: [num_chats + 1] int32, first token of each chat and the end."""
        x = self.model.embed_tokens(tokens)
        if x.is_cuda:
            x = x.bfloat16()
        for layer in self.model.layers:
            x = layer(x, self.cos[positions], self.sin[positions], starts, max_length)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)
