#include "tools/client/chat/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstring>
#include <utility>

#include "server/text/utf8.h"

namespace quire::client {

namespace {

constexpr char kPasteOn[] = "\033[?2004h";
constexpr char kPasteOff[] = "\033[?2004l";
constexpr wchar_t kPasteEnd[] = L"\033[201~";

std::string ToUtf8(const wchar_t* text, size_t size) {
  std::string utf8;
  for (size_t i = 0; i < size; ++i) AppendUtf8(static_cast<char32_t>(text[i]), &utf8);
  return utf8;
}

std::wstring FromUtf8(const std::string& text) {
  std::wstring wide;
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    if (character.code >= 0) wide += static_cast<wchar_t>(character.code);
    at += character.size;
  }
  return wide;
}

// Line breaks as "\n" and none at the end; other control characters but tabs removed.
std::wstring CleanPaste(const std::wstring& pasted) {
  std::wstring clean;
  for (const wchar_t c : pasted) {
    if (c == L'\r' || c == L'\n') {
      clean += L'\n';
    } else if (c == L'\t' || (c >= 0x20 && c != 0x7F)) {
      clean += c;
    }
  }
  while (!clean.empty() && clean.back() == L'\n') clean.pop_back();
  return clean;
}

LineEditor* Owner(EditLine* editor) {
  void* owner = nullptr;
  el_get(editor, EL_CLIENTDATA, &owner);
  return static_cast<LineEditor*>(owner);
}

// libedit reads characters as the locale says; without one, as in a container, only ASCII.
void UseUtf8() {
  (void)std::setlocale(LC_CTYPE, "");                              // NOLINT(concurrency-mt-unsafe)
  if (std::strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0) {  // NOLINT(concurrency-mt-unsafe)
    (void)std::setlocale(LC_CTYPE, "C.UTF-8");                     // NOLINT(concurrency-mt-unsafe)
  }
}

// Makes the terminal's interrupt character, Ctrl-C, come as a character while a line is edited, and
// be a signal else. libedit copies the terminal's characters into those it edits with when it finds
// them changed, leaving out the ones that were turned off; so the character is away while libedit
// looks at the terminal for the first time, and back when it looks again.
EditLine* OpenEditor(FILE* output) {
  termios kept = {};
  const bool have_terminal = tcgetattr(STDIN_FILENO, &kept) == 0;
  termios changed = kept;
  changed.c_cc[VINTR] = _POSIX_VDISABLE;
  if (have_terminal) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &changed);
  EditLine* editor = el_init("quire", stdin, output, output);
  if (have_terminal) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &kept);
  el_set(editor, EL_SETTY, "-d", "-intr", nullptr);
  return editor;
}

}  // namespace

LineEditor::LineEditor(HistoryFile history_file) : history_file_(std::move(history_file)) {
  UseUtf8();
  output_ = fdopen(dup(STDERR_FILENO), "w");
  editor_ = OpenEditor(output_);
  el_set(editor_, EL_CLIENTDATA, this);
  el_set(editor_, EL_PROMPT, Prompt);
  el_set(editor_, EL_SIGNAL, 1);
  el_set(editor_, EL_EDITOR, "emacs");
  history_ = history_winit();
  HistEventW event;
  history_w(history_, &event, H_SETSIZE, static_cast<int>(HistoryFile::kMaxEntries));
  history_w(history_, &event, H_SETUNIQUE, 1);
  el_wset(editor_, EL_HIST, history_w, history_);
  for (const std::string& entry : history_file_.Load()) Enter(entry);
  el_source(editor_, nullptr);
  BindKeys();
}

LineEditor::~LineEditor() {
  el_end(editor_);
  history_wend(history_);
  (void)std::fclose(output_);
}

void LineEditor::BindKeys() {
  el_set(editor_, EL_ADDFN, "quire-paste", "Insert pasted text", OnPaste);
  el_set(editor_, EL_ADDFN, "quire-interrupt", "Drop the line", OnInterrupt);
  const char* const bindings[][2] = {
      {"^C", "quire-interrupt"},         {"\\e[200~", "quire-paste"},  {"^R", "em-inc-search-prev"},
      {"\\e[3~", "ed-delete-next-char"}, {"\\e[1~", "ed-move-to-beg"}, {"\\e[4~", "ed-move-to-end"},
      {"\\e[H", "ed-move-to-beg"},       {"\\e[F", "ed-move-to-end"},  {"\\e[1;5D", "ed-prev-word"},
      {"\\e[1;5C", "em-next-word"},
  };
  for (const auto& [key, function] : bindings) {
    el_set(editor_, EL_BIND, key, function, nullptr);
  }
}

char* LineEditor::Prompt(EditLine* editor) { return Owner(editor)->prompt_.data(); }

unsigned char LineEditor::OnPaste(EditLine* editor, int /*key*/) {
  std::wstring pasted;
  const size_t end_size = std::wcslen(kPasteEnd);
  wchar_t c = 0;
  while (el_wgetc(editor, &c) == 1) {
    pasted += c;
    if (pasted.size() >= end_size &&
        pasted.compare(pasted.size() - end_size, end_size, kPasteEnd) == 0) {
      pasted.resize(pasted.size() - end_size);
      break;
    }
  }
  const std::wstring clean = CleanPaste(pasted);
  if (!clean.empty() && el_winsertstr(editor, clean.c_str()) != 0) return CC_REFRESH_BEEP;
  return CC_REFRESH;
}

unsigned char LineEditor::OnInterrupt(EditLine* editor, int /*key*/) {
  Owner(editor)->interrupted_ = true;
  const LineInfoW* line = el_wline(editor);
  el_cursor(editor, static_cast<int>(line->lastchar - line->cursor));
  el_winsertstr(editor, L"^C");  // seen where the line ends; the line itself is dropped
  el_wpush(editor, L"\n");
  return CC_REFRESH;
}

LineEditor::Result LineEditor::Read(const std::string& prompt) {
  prompt_ = prompt;
  interrupted_ = false;
  // Before the prompt shows: what is typed or pasted at it must not come as the terminal's own
  // lines.
  el_set(editor_, EL_PREP_TERM, 1);
  (void)std::fputs(kPasteOn, output_);
  int size = 0;
  const wchar_t* line = nullptr;
  do {  // again after a signal that did nothing, like Ctrl-Z in a container, where no shell is
    errno = 0;
    line = el_wgets(editor_, &size);
  } while (line == nullptr && size < 0 && errno == EINTR);
  (void)std::fputs(kPasteOff, output_);
  (void)std::fflush(output_);
  if (interrupted_) return {Outcome::kInterrupted, ""};
  if (line == nullptr || size <= 0) return {Outcome::kEnd, ""};
  if (line[size - 1] == L'\n') --size;
  return {Outcome::kLine, ToUtf8(line, static_cast<size_t>(size))};
}

void LineEditor::Enter(const std::string& entry) {
  HistEventW event;
  history_w(history_, &event, H_ENTER, FromUtf8(entry).c_str());
}

void LineEditor::Remember(const std::string& entry) {
  Enter(entry);
  history_file_.Append(entry);
}

}  // namespace quire::client
