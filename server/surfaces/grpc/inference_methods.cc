#include <string>
#include <utility>

#include "kernels/base/status_macros.h"
#include "server/call/service_methods.h"
#include "server/call/unary_method.h"
#include "server/request/generate/describe.h"
#include "server/request/generate/tokenize.h"
#include "server/surfaces/grpc/generate_methods.h"
#include "server/surfaces/grpc/request_messages.h"

namespace quire {

namespace {

absl::StatusOr<v1::TokenizeResponse> AnswerTokenize(const v1::TokenizeRequest& request,
                                                    const PromptEncoder& encoder,
                                                    const CancelToken* token) {
  ASSIGN_OR_RETURN(const Prompt asked, ToPrompt(request));
  ASSIGN_OR_RETURN(TokenizedPrompt prompt, TokenizePrompt(asked, kQuireNames, encoder, token));
  v1::TokenizeResponse response;
  response.mutable_ids()->Add(prompt.ids.begin(), prompt.ids.end());
  if (request.return_tokens()) {
    for (std::string& token : SpellTokens(encoder, prompt.ids)) {
      response.add_tokens(std::move(token));
    }
    for (const TokenId id : prompt.ids) {
      response.add_token_bytes(encoder.tokenizer()->TokenBytes(id));
    }
  }
  response.set_rendered(std::move(prompt.rendered));
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> AnswerDetokenize(const v1::DetokenizeRequest& request,
                                                        const ServingContext& context) {
  const bool skip_special_tokens =
      request.has_skip_special_tokens() ? request.skip_special_tokens() : true;
  ASSIGN_OR_RETURN(std::string text, Detokenize("ids", request.ids(), *context.encoder,
                                                *context.model, skip_special_tokens));
  v1::DetokenizeResponse response;
  response.set_text(std::move(text));
  return response;
}

v1::GetModelResponse ToMessage(const ModelDescription& model) {
  v1::GetModelResponse response;
  response.set_name(model.name);
  response.mutable_aliases()->Add(model.aliases.begin(), model.aliases.end());
  response.set_architecture(model.architecture);
  response.set_dtype(model.dtype);
  response.set_kv_cache_dtype(model.kv_cache_dtype);
  response.set_device(model.device);
  response.set_num_parameters(model.num_parameters);
  response.set_vocab_size(model.vocab_size);
  response.set_max_model_len(model.max_model_len);
  response.set_block_size(model.block_size);
  response.set_num_kv_blocks(model.num_kv_blocks);
  response.set_has_chat_template(model.has_chat_template);
  response.mutable_eos_token_ids()->Add(model.eos_token_ids.begin(), model.eos_token_ids.end());
  response.set_version(model.version);
  return response;
}

}  // namespace

GrpcService InferenceService(const ServingContext& context) {
  const google::protobuf::ServiceDescriptor& service =
      *v1::TokenizeRequest::descriptor()->file()->FindServiceByName("Inference");
  return {service.full_name(),
          {
              GenerateMethod(context),
              GenerateOnceMethod(context),
              UnaryMethod<v1::TokenizeRequest>(
                  *service.FindMethodByName("Tokenize"),
                  [encoder = context.encoder](const v1::TokenizeRequest& message,
                                              const GrpcCall& call) {
                    return AnswerTokenize(message, *encoder, call.token().get());
                  },
                  context.work_pool),
              UnaryMethod<v1::DetokenizeRequest>(
                  *service.FindMethodByName("Detokenize"),
                  [context](const v1::DetokenizeRequest& message, const GrpcCall&) {
                    return AnswerDetokenize(message, context);
                  },
                  context.work_pool),
              UnaryMethod<v1::GetModelRequest>(
                  *service.FindMethodByName("GetModel"),
                  [context](const v1::GetModelRequest&, const GrpcCall&) {
                    return absl::StatusOr<v1::GetModelResponse>(ToMessage(DescribeModel(context)));
                  }),
          }};
}

}  // namespace quire
