#include "server/surfaces/grpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/call/messages.h"

namespace quire {

namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

// The file after all files that it needs, each once.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>* added,
             google::protobuf::RepeatedPtrField<std::string>* out) {
  if (!added->insert(&file).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, out);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  out->Add(proto.SerializeAsString());
}

template <typename Response>
void SetError(absl::StatusCode code, std::string sentence, Response* response) {
  response->mutable_error_response()->set_error_code(static_cast<int>(code));
  response->mutable_error_response()->set_error_message(std::move(sentence));
}

template <typename Response>
void SetFile(const FileDescriptor* file, const std::string& asked, Response* response) {
  if (file == nullptr) {
    SetError(absl::StatusCode::kNotFound, absl::StrCat("there is no \"", asked, "\" here"),
             response);
    return;
  }
  std::set<const FileDescriptor*> added;
  AddFile(*file, &added,
          response->mutable_file_descriptor_response()->mutable_file_descriptor_proto());
}

template <typename Request, typename Response>
std::string Answer(const Request& request, const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kListServices:
      for (const std::string& service : services) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case Request::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(),
              &response);
      break;
    case Request::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              request.file_containing_symbol(), &response);
      break;
    case Request::kFileContainingExtension:
    case Request::kAllExtensionNumbersOfType:
      SetError(absl::StatusCode::kNotFound, "no message here has extensions", &response);
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      SetError(absl::StatusCode::kInvalidArgument, "message_request: set one", &response);
      break;
  }
  return response.SerializeAsString();
}

template <typename Request, typename Response>
GrpcMethod MethodFor(std::shared_ptr<const std::vector<std::string>> services) {
  const google::protobuf::MethodDescriptor& method =
      *Request::descriptor()->file()->FindServiceByName("ServerReflection")->method(0);
  GrpcMethod reflection;
  reflection.path = PathOf(method);
  reflection.client_streams = true;
  reflection.is_passive = true;
  reflection.on_message = [services = std::move(services)](const GrpcCallRef& call,
                                                           const std::string& bytes) {
    const absl::StatusOr<Request> request = Parse<Request>(bytes);
    if (request.ok()) {
      call->Send(Answer<Request, Response>(*request, *services), nullptr);
    } else {
      call->Finish(request.status());
    }
  };
  reflection.on_messages_end = [](const GrpcCallRef& call) { call->Finish(absl::OkStatus()); };
  return reflection;
}

}  // namespace

std::vector<GrpcMethod> ReflectionMethods(std::vector<std::string> services) {
  namespace v1 = ::grpc::reflection::v1;
  namespace v1alpha = ::grpc::reflection::v1alpha;
  services.push_back("grpc.reflection.v1.ServerReflection");
  services.push_back("grpc.reflection.v1alpha.ServerReflection");
  const auto shared = std::make_shared<const std::vector<std::string>>(std::move(services));
  return {MethodFor<v1::ServerReflectionRequest, v1::ServerReflectionResponse>(shared),
          MethodFor<v1alpha::ServerReflectionRequest, v1alpha::ServerReflectionResponse>(shared)};
}

}  // namespace quire
