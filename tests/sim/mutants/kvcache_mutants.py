"""Bugs and worse policies to plant in kvcache/."""

from mutant import bug, policy

MANAGER = "kvcache/block_manager.cc"
POOL = "kvcache/block_pool.cc"
INDEX = "kvcache/prefix_index.cc"
HASH = "kvcache/block_hash.cc"

MUTANTS = [
    # Attaching a prefix.
    bug("whole-prompt-cached", MANAGER, "no token is left to compute",
        ("int64_t num_blocks = (tokens.size() - 1) / config_.block_size;",
         "int64_t num_blocks = tokens.size() / config_.block_size;")),
    bug("groups-do-not-agree", MANAGER, "the last group has not found what the first one wants",
        ("num_agreeing < num_groups(); group", "num_agreeing < 1; group"), ("      CHECK_NE(block, kNoBlock);\n", "      if (block == kNoBlock) continue;\n")),
    bug("behind-the-window-held", MANAGER, "attached tables claim blocks behind the window",
        ("table->first_held[group] = first;", "table->first_held[group] = 0;")),
    bug("attached-is-unpublished", MANAGER, "attached blocks are offered again",
        ("  table->num_published = num_blocks;\n", "")),
    bug("attached-without-reference", MANAGER, "a shared block is not counted",
        ("      AddReference(block);\n      table", "      if (pool_.num_references(block) == 0) AddReference(block);\n      table")),
    bug("window-prefix-too-long", MANAGER, "a prefix is used although its last block is missing",
        ("if (!is_cached(i)) length = i;", "if (!is_cached(i)) length = std::min(i + 1, num_blocks);"),
        ("      CHECK_NE(block, kNoBlock);\n", "      if (block == kNoBlock) return {};\n")),
    # Growing.
    bug("grows-what-is-not-there", MANAGER, "the last group finds no block",
        ("if (num_missing > pool_.num_free()) return false;",
         "if (num_missing > pool_.num_free() + num_groups() - 1) return false;")),
    bug("growth-forgets-groups", MANAGER, "blocks of one group only are counted",
        ("config_.block_size) - current) * num_groups();", "config_.block_size) - current);")),
    bug("grows-a-token-late", MANAGER, "the first token of a block has no block",
        ("num_tokens <= current * config_.block_size)", "num_tokens <= current * config_.block_size + 1)")),
    bug("refuses-the-last-block", MANAGER, "a pool is full with one block left",
        ("num_missing > pool_.num_free()) return false;", "num_missing >= pool_.num_free()) return false;")),
    # Publishing.
    bug("partial-block-published", MANAGER, "a block is cached before it is full",
        ("const int64_t num_full = num_computed / config_.block_size;",
         "const int64_t num_full =\n"
         "      std::min<int64_t>(num_computed + 1, tokens.size()) / config_.block_size;")),
    bug("published-again", MANAGER, "published blocks are offered again",
        ("  table->num_published = num_full;\n", "")),
    # Giving back.
    bug("window-entry-stays", MANAGER, "a block that was given back stays in the table",
        ("      blocks[i] = kNoBlock;\n", "")),
    bug("window-block-leaks", MANAGER, "a block behind the window is forgotten, not given back",
        ("      DropReference(blocks[i]);\n", "")),
    bug("first-held-leaks", MANAGER, "the first held block is not released",
        ("if (i >= table->first_held[group]) DropReference", "if (i > table->first_held[group]) DropReference")),
    bug("released-as-published", MANAGER, "a released table counts as published",
        ("  table->first_held.clear();\n  table->num_published = 0;\n", "  table->first_held.clear();\n")),
    bug("window-one-short", MANAGER, "the oldest visible token is given back",
        ("std::max<int64_t>(position - window + 1, 0)", "std::max<int64_t>(position - window + 2, 0)")),
    bug("window-one-long", MANAGER, "a token behind the window is kept",
        ("std::max<int64_t>(position - window + 1, 0)", "std::max<int64_t>(position - window, 0)")),
    bug("most-blocks-too-few", MANAGER, "the unaligned end of a window is not counted",
        ("CeilDiv<int64_t>(visible, block_size) + 1)", "CeilDiv<int64_t>(visible, block_size))")),
    bug("flush-forgets-its-count", MANAGER, "flushed blocks are still counted as cached",
        ("  num_cached_free_ = 0;\n  return", "  return")),
    bug("taken-stays-cached", MANAGER, "a block that is taken can still be hit",
        ("    Forget(block);\n    --num_cached_free_;\n    ++num_evictions_;", "    --num_cached_free_;")),
    bug("cached-count-drifts", MANAGER, "a hit does not leave the free cached ones",
        ("  if (pool_.num_references(block) == 0) --num_cached_free_;\n", "")),
    # Hashing.
    bug("hash-not-chained", MANAGER, "a block is found whatever precedes it",
        ("i == 0 ? table->root : hashes.back()", "table->root")),
    bug("hash-ignores-salt", MANAGER, "tenants share blocks",
        ("table->root = hasher_.Root(salt);", 'table->root = hasher_.Root("");')),
    bug("hash-of-some-tokens", HASH, "bytes counted as tokens",
        ("Update(tokens.data(), tokens.size() * sizeof(TokenId));", "Update(tokens.data(), tokens.size());")),
    # Index.
    bug("collision-hits", INDEX, "the key alone decides",
        ("  if (entries_[block].hash != hash || TokensOf(block) != tokens) return kNoBlock;\n", "")),
    bug("collision-of-prefixes-hits", INDEX, "the block's own tokens alone decide",
        ("entries_[block].hash != hash || TokensOf", "TokensOf")),
    bug("collision-replaces", INDEX, "the later of two colliding blocks takes the key",
        ("if (!blocks_by_key_[group].emplace(Key(hash), block).second) return false;",
         "blocks_by_key_[group].insert_or_assign(Key(hash), block);")),
    bug("index-tokens-stale", INDEX, "an entry keeps the tokens of its predecessor",
        ("  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + block * block_size_);\n",
         "  if (tokens_[block * block_size_] == 0)\n"
         "    std::copy(tokens.begin(), tokens.end(), tokens_.begin() + block * block_size_);\n")),
    bug("groups-share-keys", INDEX, "the block of another group is found",
        ("const auto it = blocks_by_key_[group].find(Key(hash));\n  if (it == blocks_by_key_[group].end())",
         "const auto it = blocks_by_key_[0].find(Key(hash));\n  if (it == blocks_by_key_[0].end())")),
    bug("erased-still-contained", INDEX, "an erased block counts as cached",
        ("  entry.group = -1;\n", "")),
    # Pool.
    bug("shared-block-freed", POOL, "the last but one reference frees a block",
        ("if (--blocks_[block].num_references > 0) return;",
         "if (--blocks_[block].num_references > 1) return;"),
        ("  CHECK_EQ(b.num_references, 0);\n", "")),
    bug("free-list-one-way", POOL, "the list backwards keeps who was taken",
        ("  blocks_[b.next].previous = b.previous;\n", "")),
    bug("free-count-drifts", POOL, "taken blocks still count as free", ("  --num_free_;\n", "")),
    # Policies.
    policy("free-hits-not-counted", MANAGER, "a match says that attaching it takes no free block",
           ("      if (pool_.num_references(block) == 0) ++match.num_free_blocks;\n", "")),
    policy("lifo-eviction", POOL, "the latest released is reused first",
           ("worth_keeping ? blocks_[end_].previous : end_", "end_")),
    policy("beginnings-evicted-first", MANAGER, "of a released chain the beginning goes first",
           ("for (int64_t i = num_blocks - 1; i >= 0; --i) {\n    for (size_t group",
            "for (int64_t i = 0; i < num_blocks; ++i) {\n    for (size_t group")),
    policy("garbage-reused-last", POOL, "blocks that nobody can find push out those that can be found",
           ("worth_keeping ? blocks_[end_].previous : end_", "blocks_[end_].previous")),
    policy("answers-not-cached", "scheduler/commit.cc", "only prompts enter the prefix cache",
           ("blocks_.Publish(&sequence->table, sequence->tokens, sequence->num_computed,",
            "blocks_.Publish(&sequence->table, sequence->tokens,\n"
            "                  std::min(sequence->num_computed, sequence->num_prompt_tokens()),")),
]
