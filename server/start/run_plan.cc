#include "server/start/run_plan.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/capacity.h"
#include "kernels/backend.h"
#include "kernels/base/status_macros.h"
#include "kernels/device_facts.h"
#include "server/base/exit_code.h"
#include "server/observe/log/log_setup.h"
#include "server/observe/log/log_writer.h"
#include "server/start/capacity_text.h"
#include "server/start/model_location.h"
#include "server/start/settings/engine_settings.h"

namespace quire {
namespace {

// The device that is here, which `backend` keeps open, or one of the memory that was asked for.
absl::StatusOr<DeviceFacts> FindFacts(const EngineConfig& config, int64_t memory_bytes,
                                      const BackendOpener& open_backend,
                                      std::unique_ptr<Backend>* backend) {
  if (config.device == DeviceKind::kCuda && memory_bytes > 0) return FactsOfGpu(memory_bytes);
  absl::StatusOr<std::unique_ptr<Backend>> opened = open_backend(config.backend_options());
  if (!opened.ok() && config.device == DeviceKind::kCuda) {
    return absl::Status(opened.status().code(),
                        absl::StrCat(opened.status().message(),
                                     "; --plan-memory SIZE plans for a GPU that is not here"));
  }
  ASSIGN_OR_RETURN(*backend, std::move(opened));
  ASSIGN_OR_RETURN(DeviceFacts facts, FactsOf(**backend));
  if (memory_bytes > 0) facts.memory = {.free_bytes = memory_bytes, .total_bytes = memory_bytes};
  return facts;
}

int Fail(const CommandLine& command_line, ExitCode code, const absl::Status& status) {
  PrintFailure(WithPlaces(command_line, std::string(status.message())));
  return static_cast<int>(code);
}

}  // namespace

int RunPlan(const CommandLine& command_line, const BackendOpener& open_backend) {
  const Settings& settings = command_line.settings;
  SetUpLog(settings.log_level, settings.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  const absl::Status fits = CheckDevice(command_line, ServingDevice(settings));
  if (!fits.ok()) return Fail(command_line, ExitCode::kUsage, fits);
  const ModelNeeds needs = {.weights = false, .tokenizer = false};
  const absl::StatusOr<std::string> folder = FindModelFolder(settings, needs, nullptr);
  if (!folder.ok()) {
    return Fail(command_line, ModelLocationFailureCode(folder.status()), folder.status());
  }
  const EngineConfig config = ToEngineConfig(settings, *folder);
  std::unique_ptr<Backend> backend;
  const absl::StatusOr<DeviceFacts> facts =
      FindFacts(config, command_line.plan->memory_bytes, open_backend, &backend);
  if (!facts.ok()) return Fail(command_line, StartFailureCode(facts.status()), facts.status());
  const absl::StatusOr<Capacity> capacity = PlanCapacity(config, *facts);
  if (!capacity.ok()) {
    return Fail(command_line, StartFailureCode(capacity.status()), capacity.status());
  }
  const std::string text = command_line.plan->as_json ? CapacityJson(*capacity, *folder)
                                                      : CapacityText(*capacity, *folder);
  std::fputs(text.c_str(), stdout);
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace quire
