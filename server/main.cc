// quire-server.
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "server/run_server.h"

int main(int argc, char** argv) {
  return quire::RunServer(std::vector<std::string>(argv + 1, argv + argc), quire::OpenBackend);
}
