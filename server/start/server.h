// Server: every part of quire-server, built in order and taken down in the opposite one. Start,
// Drain and the destructor are called by the main thread; everything else happens in the parts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine_status.h"
#include "engine/start_clock.h"
#include "server/start/settings/settings.h"
#include "server/wire/transport/listener.h"

namespace quire {

class Backend;
class Progress;
class Security;
struct BackendOptions;

// How a server gets its device: OpenBackend, or a test's replacement for it.
using BackendOpener =
    std::function<absl::StatusOr<std::unique_ptr<Backend>>(const BackendOptions& options)>;

class Server {
 public:
  // Loads tokenizer, template and engine side by side, then begins to accept on `listener`.
  // `progress` shows the start and may be null. `security` outlives the server. `on_engine_failure`
  // is called at most once, from a thread of the engine; then the server must be ended with
  // EndStreams. Statuses as server/base/exit_code.h maps them.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Settings& settings, const std::string& model_folder, Listener listener,
      const BackendOpener& open_backend, Progress* progress, const Security& security,
      std::function<void(const absl::Status&)> on_engine_failure);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Health turns NOT_SERVING, new requests get UNAVAILABLE, running ones go on.
  void BeginDrain();
  // Health says that the process will not serve again.
  void SetDead();
  // Waits until no request runs; false when the deadline came first.
  bool WaitUntilDrained(absl::Time deadline);
  // Ends the requests that still run with this status, whether the engine still answers or not.
  void EndStreams(const absl::Status& status);
  // Waits until every client has the end of its calls, or for the deadline. Then closes the port
  // and all connections, so that a client that still calls gets UNAVAILABLE.
  void FinishCalls(absl::Time deadline);

  // One line for the log: address, model, device, context, cache.
  std::string Describe() const;
  const MemoryLedger& memory_ledger() const;
  const StartStages& start_stages() const;

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace quire
