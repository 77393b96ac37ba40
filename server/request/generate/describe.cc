#include "server/request/generate/describe.h"

#include "engine/engine.h"
#include "kernels/base/clock.h"
#include "server/base/version.h"

namespace quire {

ModelDescription DescribeModel(const ServingContext& serving) {
  const ModelInfo& info = serving.engine->model_info();
  const std::vector<std::string>& names = serving.model->served_names;
  ModelDescription model;
  model.name = names.front();
  model.aliases.assign(names.begin() + 1, names.end());
  model.architecture = info.config.architecture;
  model.dtype = std::string(DTypeName(info.dtype));
  model.kv_cache_dtype = std::string(DTypeName(info.kv_cache_dtype));
  model.device = info.device_name;
  model.num_parameters = info.num_parameters;
  model.vocab_size = info.config.vocab_size;
  model.max_model_len = info.max_model_len;
  model.block_size = info.block_size;
  model.num_kv_blocks = info.num_kv_blocks;
  model.has_chat_template = serving.encoder->has_chat_template();
  model.eos_token_ids = serving.model->eos_token_ids;
  model.version = kVersion;
  return model;
}

ServerStatus DescribeStatus(const ServingContext& serving) {
  ServerStatus status;
  status.engine = serving.engine->status();
  status.uptime = MonotonicNow() - serving.start_time;
  status.num_requests = serving.registry->size();
  return status;
}

}  // namespace quire
