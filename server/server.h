// Server: every part of quire-server, built in order and taken down in the opposite one. Start,
// Drain and the destructor are called by the main thread; everything else happens in the parts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/settings/settings.h"
#include "server/transport/listener.h"

namespace quire {

class Server {
 public:
  // Loads tokenizer, template and engine side by side, then begins to accept on `listener`.
  // `on_engine_failure` is called at most once, from the engine's thread, after every stream has
  // been failed. Statuses as server/exit_code.h maps them.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Settings& settings, const std::string& model_folder, Listener listener,
      std::function<void(const absl::Status&)> on_engine_failure);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Health turns NOT_SERVING, new requests get UNAVAILABLE, running ones go on.
  void BeginDrain();
  // Waits until no request runs; false when the deadline came first.
  bool WaitUntilDrained(absl::Time deadline);
  // Ends what still runs with UNAVAILABLE.
  void EndStreams();

  // One line for the log: address, model, device, context, cache.
  std::string Describe() const;
  std::string MemoryLedger() const;

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace quire
