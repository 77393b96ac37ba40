// quire info: the served model and the state of the server.

#include <cstdio>
#include <memory>
#include <string>

#include "google/protobuf/util/json_util.h"
#include "quire/v1/inference.grpc.pb.h"
#include "tools/client/commands.h"
#include "tools/client/rpc.h"

namespace quire::client {

namespace {

struct InfoFlags {
  std::string target = kDefaultTarget;
  bool json = false;
};

void PrintModel(const v1::GetModelResponse& model) {
  std::printf("model             %s (%s, %.1f M parameters, %s)\n", model.name().c_str(),
              model.architecture().c_str(), static_cast<double>(model.num_parameters()) / 1e6,
              model.dtype().c_str());
  std::printf("device            %s\n", model.device().c_str());
  std::printf("context           %lld tokens, vocabulary %lld\n",
              static_cast<long long>(model.max_model_len()),
              static_cast<long long>(model.vocab_size()));
  std::printf("server            quire %s\n", model.version().c_str());
}

void PrintStatus(const v1::GetStatusResponse& status) {
  std::printf(
      "requests          %lld waiting, %lld sequences running, %lld paused, %lld streams%s\n",
      static_cast<long long>(status.waiting_requests()),
      static_cast<long long>(status.running_sequences()),
      static_cast<long long>(status.paused_sequences()),
      static_cast<long long>(status.active_streams()), status.draining() ? ", draining" : "");
  std::printf("KV blocks         %lld in use, %lld cached, %lld in all\n",
              static_cast<long long>(status.kv_blocks_in_use()),
              static_cast<long long>(status.kv_blocks_cached()),
              static_cast<long long>(status.kv_blocks_total()));
  const auto queried = static_cast<double>(status.prefix_queried_tokens());
  std::printf("prefix cache      %.1f %% of %.0f prompt tokens were hits\n",
              queried > 0 ? 100.0 * static_cast<double>(status.prefix_hit_tokens()) / queried : 0.0,
              queried);
  std::printf(
      "since start       %.0f s, %lld steps, %lld prompt and %lld generated tokens, "
      "%lld preemptions\n",
      status.uptime_seconds(), static_cast<long long>(status.steps()),
      static_cast<long long>(status.prompt_tokens()),
      static_cast<long long>(status.generated_tokens()),
      static_cast<long long>(status.preemptions()));
}

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  // Messages of this contract always print: they hold no Any.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

int Info(const InfoFlags& flags) {
  const auto channel = Connect(flags.target);
  v1::GetModelResponse model;
  v1::GetStatusResponse status;
  {
    grpc::ClientContext context;
    const grpc::Status result = v1::Inference::NewStub(channel)->GetModel(&context, {}, &model);
    if (!result.ok()) return ReportFailure(result, flags.target);
  }
  {
    grpc::ClientContext context;
    const grpc::Status result = v1::Admin::NewStub(channel)->GetStatus(&context, {}, &status);
    if (!result.ok()) return ReportFailure(result, flags.target);
  }
  if (flags.json) {
    std::printf("{\"model\":%s,\"status\":%s}\n", Json(model).c_str(), Json(status).c_str());
    return kOk;
  }
  PrintModel(model);
  PrintStatus(status);
  return kOk;
}

}  // namespace

Command AddInfo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("info", "The served model and the server's state");
  const auto flags = std::make_shared<InfoFlags>();
  command->add_option("--target", flags->target, "HOST:PORT of the server")->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return Info(*flags); };
}

}  // namespace quire::client
