// The settings as the engine gets them. Plain functions; any thread.
#pragma once

#include <string>

#include "engine/engine_config.h"
#include "server/start/settings/settings.h"

namespace quire {

// The device that serves: "auto" becomes the GPU if this build and machine have one, else the CPU.
DeviceKind ServingDevice(const Settings& settings);

// The engine's configuration. `model_folder` replaces an empty `settings.model`.
EngineConfig ToEngineConfig(const Settings& settings, const std::string& model_folder);

}  // namespace quire
