#include "server/grammar/expr/text_list.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

// The texts of a sorted list, as a tree of their common beginnings: a state of it has no more
// alternatives than next bytes.
class SharedBeginnings {
 public:
  explicit SharedBeginnings(ExprStore* store) : store_(store) { Open(0); }

  void Add(std::string_view text) {
    const size_t shared = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), last_.begin(), last_.end()).first - text.begin());
    CloseTo(shared);
    if (path_.back().size < shared) Open(shared);
    if (text.size() > shared) Open(text.size());
    path_.back().rests.push_back(ExprStore::kEmpty);
    last_ = text;
  }

  ExprId Finish() {
    CloseTo(0);
    return store_->Or(path_.back().rests);
  }

 private:
  // A beginning of the last text.
  struct Beginning {
    size_t size = 0;
    std::vector<ExprId> rests;  // what may follow it
  };

  void Open(size_t size) { path_.push_back({size, {}}); }

  // Closes the beginnings that are longer than `size`. One that the others hang from may have to be
  // made on the way.
  void CloseTo(size_t size) {
    while (path_.back().size > size) {
      const Beginning closed = std::move(path_.back());
      path_.pop_back();
      if (path_.back().size < size) Open(size);
      const size_t begin = path_.back().size;
      path_.back().rests.push_back(store_->Concat(
          store_->Literal(last_.substr(begin, closed.size - begin)), store_->Or(closed.rests)));
    }
  }

  ExprStore* const store_;
  std::string_view last_;
  std::vector<Beginning> path_;
};

}  // namespace

ExprId OneOfTexts(ExprStore* store, std::vector<std::string_view> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  SharedBeginnings tree(store);
  for (const std::string_view text : texts) tree.Add(text);
  return tree.Finish();
}

}  // namespace quire
