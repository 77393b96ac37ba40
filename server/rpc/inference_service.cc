#include "server/rpc/inference_service.h"

#include <string>
#include <utility>

#include "engine/engine.h"
#include "kernels/base/status_macros.h"
#include "server/base/version.h"
#include "server/request/parameters.h"
#include "server/rpc/generate_reactors.h"
#include "server/rpc/unary.h"

namespace quire {

namespace {

absl::StatusOr<v1::TokenizeResponse> TokenizePrompt(const v1::TokenizeRequest& request,
                                                    const PromptEncoder& encoder) {
  v1::TokenizeResponse response;
  std::vector<TokenId> ids;
  switch (request.prompt_case()) {
    case v1::TokenizeRequest::kText: {
      ASSIGN_OR_RETURN(ids, encoder.EncodeText(request.text()));
      break;
    }
    case v1::TokenizeRequest::kMessages: {
      ASSIGN_OR_RETURN(const PromptEncoder::Rendered rendered, encoder.Render(request.messages()));
      ASSIGN_OR_RETURN(ids, encoder.EncodeRendered(rendered));
      response.set_rendered(rendered.text());
      break;
    }
    case v1::TokenizeRequest::PROMPT_NOT_SET:
      return absl::InvalidArgumentError("prompt: set one of text and messages");
  }
  for (TokenId id : ids) {
    response.add_ids(static_cast<uint32_t>(id));
    if (request.return_tokens()) {
      response.add_tokens(std::string(encoder.tokenizer()->IdToToken(id)));
    }
  }
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> DetokenizeIds(const v1::DetokenizeRequest& request,
                                                     const ServingContext& context) {
  RETURN_IF_ERROR(context.encoder->CheckHasTokenizer("ids"));
  std::vector<TokenId> ids;
  ids.reserve(request.ids_size());
  for (uint32_t id : request.ids()) {
    RETURN_IF_ERROR(CheckTokenId("ids", id, *context.model));
    ids.push_back(static_cast<TokenId>(id));
  }
  const bool skip_special_tokens =
      request.has_skip_special_tokens() ? request.skip_special_tokens() : true;
  v1::DetokenizeResponse response;
  response.set_text(context.encoder->tokenizer()->Decode(ids, skip_special_tokens));
  return response;
}

v1::GetModelResponse DescribeModel(const ServingContext& context) {
  const ModelInfo& info = context.engine->model_info();
  v1::GetModelResponse response;
  const std::vector<std::string>& names = context.model->served_names;
  response.set_name(names.front());
  response.mutable_aliases()->Add(names.begin() + 1, names.end());
  response.set_architecture(info.config.architecture);
  response.set_dtype(std::string(DTypeName(info.dtype)));
  response.set_device(info.device_name);
  response.set_num_parameters(info.num_parameters);
  response.set_vocab_size(info.config.vocab_size);
  response.set_max_model_len(info.max_model_len);
  response.set_block_size(info.block_size);
  response.set_num_kv_blocks(info.num_kv_blocks);
  response.set_has_chat_template(context.encoder->has_chat_template());
  for (TokenId id : context.model->eos_token_ids) {
    response.add_eos_token_ids(static_cast<uint32_t>(id));
  }
  response.set_version(kVersion);
  return response;
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request) {
  return StartGenerate(context_, call, *request);
}

grpc::ServerUnaryReactor* InferenceService::GenerateOnce(grpc::CallbackServerContext* call,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* answer) {
  return StartGenerateOnce(context_, call, *request, answer);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* answer) {
  return ServeUnary<v1::TokenizeRequest>(
      call, *request, answer,
      [encoder = context_.encoder](const v1::TokenizeRequest& message) {
        return TokenizePrompt(message, *encoder);
      },
      context_.work_pool, kMaxInlineBytes);
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* answer) {
  return ServeUnary<v1::DetokenizeRequest>(
      call, *request, answer,
      [this](const v1::DetokenizeRequest& message) { return DetokenizeIds(message, context_); },
      context_.work_pool, kMaxInlineBytes);
}

grpc::ServerUnaryReactor* InferenceService::GetModel(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* answer) {
  return ServeUnary<v1::GetModelRequest>(
      call, *request, answer, [this](const v1::GetModelRequest&) {
        return absl::StatusOr<v1::GetModelResponse>(DescribeModel(context_));
      });
}

}  // namespace quire
