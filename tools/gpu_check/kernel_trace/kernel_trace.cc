// A library that CUDA loads into a program to write down when each kernel ran, those of graphs,
// too:
//   CUDA_INJECTION64_PATH=kernel_trace.so QUIRE_KERNEL_TRACE=FILE quire-bench ...
// FILE gets one line for each of the last million kernels when the program ends; kernel_profile.py
// reads it. The times come from CUPTI, which lies beside CUDA where there is a toolkit. Without it,
// or when FILE cannot be written, the program ends at once with 69 and says why on stderr.

#include <cupti.h>
#include <dlfcn.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr size_t kMaxKernels = 1 << 20;
constexpr size_t kBufferBytes = 4 << 20;
constexpr size_t kBufferAlignment = 64;
constexpr int kUnavailableExit = 69;

// CUPTI's functions, found when the library is loaded: it is not on every machine.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiGetResultString) result_text;
};

struct Kernel {
  uint64_t start_ns;
  uint64_t end_ns;
  int32_t grid[3];
  int32_t num_threads;  // of a CTA, along x
  const char* name;     // mangled
};

// The last kernels that CUPTI told of, in its order, which is not that of time: a buffer may come
// long after later ones, so there should be room for all. Any thread may add.
class KernelLog {
 public:
  void Add(const CUpti_ActivityKernel10& record) {
    const std::lock_guard lock(mutex_);
    const Kernel kernel = {
        .start_ns = record.start,
        .end_ns = record.end,
        .grid = {record.gridX, record.gridY, record.gridZ},
        .num_threads = record.blockX,
        // A copy: CUPTI's own may be gone once the kernel's module is.
        .name = names_.emplace(record.name).first->c_str(),
    };
    if (kernels_.size() < kMaxKernels) {
      kernels_.push_back(kernel);
    } else {
      kernels_[oldest_] = kernel;
      oldest_ = (oldest_ + 1) % kMaxKernels;
    }
  }

  void Write(std::FILE* file) {
    const std::lock_guard lock(mutex_);
    std::fputs("start_ns,end_ns,grid_x,grid_y,grid_z,threads,name\n", file);
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const Kernel& k = kernels_[(oldest_ + i) % kernels_.size()];
      std::fprintf(file, "%" PRIu64 ",%" PRIu64 ",%d,%d,%d,%d,%s\n", k.start_ns, k.end_ns,
                   k.grid[0], k.grid[1], k.grid[2], k.num_threads, k.name);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Kernel> kernels_;  // a ring once it is full
  size_t oldest_ = 0;
  std::set<std::string> names_;
};

// Ends the program, which is in the middle of starting CUDA: none of its own handlers may run.
[[noreturn]] void Fail(const char* format, ...) {
  std::fputs("kernel_trace: ", stderr);
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::_Exit(kUnavailableExit);
}

void* OpenCupti() {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/"}) {
    for (const char* name : {"libcupti.so.13", "libcupti.so"}) {
      void* library = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) return library;
    }
  }
  Fail("no libcupti.so.13 where libraries are looked for or in /usr/local/cuda: install CUPTI");
}

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) Fail("CUPTI has no %s", name);
}

Cupti LoadCupti() {
  void* library = OpenCupti();
  Cupti cupti;
  Find(library, "cuptiActivityRegisterCallbacks", cupti.register_callbacks);
  Find(library, "cuptiActivityEnable", cupti.enable);
  Find(library, "cuptiActivityGetNextRecord", cupti.next_record);
  Find(library, "cuptiActivityFlushAll", cupti.flush_all);
  Find(library, "cuptiGetResultString", cupti.result_text);
  return cupti;
}

// Never destroyed, as CUPTI's thread may outlive everything else.
struct Tracer {
  Cupti cupti;
  std::FILE* file;
  KernelLog log;
};

// The program's only one, as CUPTI passes nothing of ours to what it calls. Made at the first call,
// which is InitializeInjection's.
Tracer& TheTracer() {
  static Tracer* const tracer = [] {  // NOLINT(*-avoid-non-const-global-variables)
    const char* path = std::getenv("QUIRE_KERNEL_TRACE");
    if (path == nullptr) Fail("QUIRE_KERNEL_TRACE names no file to write");
    std::FILE* file = std::fopen(path, "w");
    if (file == nullptr) Fail("cannot write %s", path);
    return new Tracer{.cupti = LoadCupti(), .file = file, .log = {}};
  }();
  return *tracer;
}

// CUPTI drops what it cannot store if there is no memory.
void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer,
                         size_t /*size*/, size_t valid_size) {
  Tracer& tracer = TheTracer();
  CUpti_Activity* record = nullptr;
  while (valid_size > 0 && tracer.cupti.next_record(buffer, valid_size, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      tracer.log.Add(*reinterpret_cast<const CUpti_ActivityKernel10*>(record));
    }
  }
  std::free(buffer);
}

void WriteTrace() {
  Tracer& tracer = TheTracer();
  tracer.cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  tracer.log.Write(tracer.file);
  if (std::fclose(tracer.file) != 0) {
    std::fputs("kernel_trace: the trace could not be written to its end\n", stderr);
  }
}

}  // namespace

// CUDA calls it by this name while it starts. Returns 1: tracing.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const Cupti& cupti = TheTracer().cupti;
  CUptiResult result = cupti.register_callbacks(GiveBuffer, TakeBuffer);
  if (result == CUPTI_SUCCESS) result = cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result != CUPTI_SUCCESS) {
    const char* text = "unknown";
    cupti.result_text(result, &text);
    Fail("CUPTI does not trace kernels here: %s (%d)", text, result);
  }
  std::atexit(WriteTrace);
  return 1;
}
