// Run by the build with the names of our .proto files: ends with 1 when a method declares no role.
#include <google/protobuf/descriptor.h>

#include <cstdio>

#include "server/auth/method_role.h"

namespace {

using google::protobuf::FileDescriptor;

int CountWithoutRole(const FileDescriptor& file) {
  int count = 0;
  for (int s = 0; s < file.service_count(); ++s) {
    for (int m = 0; m < file.service(s)->method_count(); ++m) {
      const google::protobuf::MethodDescriptor& method = *file.service(s)->method(m);
      if (quire::RequiredRole(method).has_value()) continue;
      ++count;
      std::fprintf(stderr, "%s: error: %s declares no role: option (required_role) = ROLE_...;\n",
                   file.name().c_str(), method.full_name().c_str());
    }
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  int num_mistakes = 0;
  for (int i = 1; i < argc; ++i) {
    const FileDescriptor* file =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName(argv[i]);
    if (file == nullptr) {
      std::fprintf(stderr, "%s: error: is not linked into this program\n", argv[i]);
      ++num_mistakes;
    } else {
      num_mistakes += CountWithoutRole(*file);
    }
  }
  return num_mistakes == 0 ? 0 : 1;
}
