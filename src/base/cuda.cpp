// What a GPU needs of CUDA beside Kokkos: whether there is one, a stream of its own, events that say how long its work
// takes, and graphs of work that comes again.
#include <Kokkos_Core.hpp>

#ifdef KOKKOS_ENABLE_CUDA

#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/arrival.hpp"
#include "base/context.hpp"
#include "base/device.hpp"
#include "base/error.hpp"
#include "base/replay.hpp"
#include "base/side_space.hpp"
#include "base/stopwatch.hpp"

namespace petaflow {
namespace {

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) failure("{}: {}", call, cudaGetErrorString(error));
}

/// Pieces of time between events.
struct Times {
  struct Piece {
    Moment from, to;
    double* sum;
  };
  std::vector<cudaEvent_t> events;
  std::size_t recorded = 0;  // of the events
  std::vector<Piece> pieces;

  Moment record(cudaStream_t stream, unsigned flags, cudaError_t& error) {
    const auto keep = [&](cudaError_t status) {
      if (error == cudaSuccess) error = status;
    };
    if (recorded == events.size()) keep(cudaEventCreate(&events.emplace_back()));
    keep(cudaEventRecordWithFlags(events[recorded], stream, flags));
    return recorded++;
  }
  void add_up() const {
    for (const Piece& piece : pieces) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events[piece.from], events[piece.to]), "cudaEventElapsedTime");
      *piece.sum += 1e-3 * static_cast<double>(milliseconds);
    }
  }
  void destroy_events() {
    for (const cudaEvent_t event : events) cudaEventDestroy(event);
    events.clear();
  }
};

/// What the thread that launches kernels has measured; never destroyed: the events end with Kokkos, not behind it.
struct AllTimes {
  Times called;                       // since collect_times()
  Times* recording = nullptr;         // of the graph that is being recorded
  std::vector<const Times*> replays;  // of the graphs that ran since collect_times()
  cudaError_t error = cudaSuccess;    // the first one: where a Stopwatch ends nothing can be thrown
};
AllTimes& all_times() {
  static auto* const all = [] {
    Kokkos::push_finalize_hook([] { all_times().called.destroy_events(); });
    return new AllTimes;
  }();
  return *all;
}

bool tool_looks_on() { return Kokkos::Tools::Experimental::get_callbacks().begin_parallel_for != nullptr; }

}  // namespace

Moment now(const Context& context) {
  AllTimes& all = all_times();
  const cudaStream_t stream = context.space.cuda_stream();
  // Inside a graph an event has a time of its own for each run only where it is recorded as an external one.
  return all.recording != nullptr ? all.recording->record(stream, cudaEventRecordExternal, all.error)
                                  : all.called.record(stream, cudaEventRecordDefault, all.error);
}

void add_time(Moment from, Moment to, double& sum) {
  AllTimes& all = all_times();
  (all.recording != nullptr ? *all.recording : all.called).pieces.push_back({from, to, &sum});
}

void collect_times() {
  check(std::exchange(all_times().error, cudaSuccess), "cudaEventRecord");
  all_times().called.add_up();
  for (const Times* times : all_times().replays) times->add_up();
  forget_times();
}

void forget_times() {
  AllTimes& all = all_times();
  all.called.pieces.clear();
  all.called.recorded = 0;
  all.replays.clear();
}

Arrival::Arrival() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }

void Arrival::expect(const Context& context) {
  check(cudaEventRecord(event_, context.space.cuda_stream()), "cudaEventRecord");
}

Arrival::~Arrival() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

bool Arrival::reached() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state != cudaErrorNotReady) check(state, "cudaEventQuery");
  return state == cudaSuccess;
}

SideSpace::SideSpace() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  space_.emplace(stream_);
  for (cudaEvent_t* event : {&begin_, &end_})
    check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

SideSpace::~SideSpace() {
  space_.reset();
  for (const cudaEvent_t event : {begin_, end_}) cudaEventDestroy(event);
  cudaStreamDestroy(stream_);
}

void SideSpace::wait_for(const Context& context) {
  check(cudaEventRecord(begin_, context.space.cuda_stream()), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream_, begin_, 0), "cudaStreamWaitEvent");
}

void SideSpace::hold_up(const Context& context) {
  check(cudaEventRecord(end_, stream_), "cudaEventRecord");
  check(cudaStreamWaitEvent(context.space.cuda_stream(), end_, 0), "cudaStreamWaitEvent");
}

struct Replay::Recorded {
  Times times;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  Recorded(const Context& context, const std::function<void()>& work) {
    const cudaStream_t stream = context.space.cuda_stream();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    all_times().recording = &times;
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    all_times().recording = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    const cudaError_t made = ended == cudaSuccess ? cudaGraphInstantiateWithFlags(&executable, graph, 0) : ended;
    if (!error && made == cudaSuccess) return;
    destroy();
    if (error) std::rethrow_exception(error);
    check(ended, "cudaStreamEndCapture");
    check(made, "cudaGraphInstantiateWithFlags");
  }
  ~Recorded() { destroy(); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  void run(const Context& context) {
    check(cudaGraphLaunch(executable, context.space.cuda_stream()), "cudaGraphLaunch");
    all_times().replays.push_back(&times);
  }

 private:
  void destroy() {
    forget_times();
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
    times.destroy_events();
  }
};

Replay::Replay() = default;
Replay::~Replay() = default;

void Replay::run(const Context& context, const std::function<void()>& work) {
  if (!called_ || tool_looks_on()) {
    work();
  } else {
    if (!recorded_) recorded_ = std::make_unique<Recorded>(context, work);
    recorded_->run(context);
  }
  called_ = true;
}

void check_device() {
  const auto version = [](int number) { return fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10); };
  int driver = 0, count = 0;
  cudaDriverGetVersion(&driver);
  const std::string built = fmt::format("this program was built for GPUs with {}", version(CUDART_VERSION));
  const std::string otherwise = "start it where there is one, or build for the processor (cmake --preset host)";
  if (driver == 0) user_error("{}, but this machine has no NVIDIA driver; {}", built, otherwise);
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    user_error("{}, but the driver of this machine knows no more than {}: build with a toolkit of that or update it",
               built, version(driver));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    user_error("{}, but no GPU is to be seen here (CUDA_VISIBLE_DEVICES, the job's --gpus); {}", built, otherwise);
  check(error, "cudaGetDeviceCount");
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    // Code for 9.0 runs on 9.1, but neither on 8.9 nor on 10.0.
    if (properties.major == PETAFLOW_CUDA / 10 && properties.minor >= PETAFLOW_CUDA % 10) continue;
    user_error(
        "this program was built for GPUs of compute capability {}.{}, but GPU {} ({}) has {}.{}; build with the preset "
        "for "
        "it, or leave it out (CUDA_VISIBLE_DEVICES)",
        PETAFLOW_CUDA / 10, PETAFLOW_CUDA % 10, device, properties.name, properties.major, properties.minor);
  }
}

DeviceIdentity device_identity() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {{std::begin(properties.uuid.bytes), std::end(properties.uuid.bytes)}, properties.name};
}

std::string free_device_memory() {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "";  // called where an error is told
  constexpr double kGib = 1 << 30;
  return fmt::format(" of a GPU's memory, of whose {:.1f} GiB {:.1f} are free", static_cast<double>(total) / kGib,
                     static_cast<double>(free) / kGib);
}

// Kokkos' own instance is the legacy stream, for which all others wait and which no graph can be captured from.
ExecutionSpace execution_space() {
  static std::mutex mutex;
  static auto* const space = new std::optional<ExecutionSpace>;  // ends with Kokkos, not behind it
  const std::lock_guard lock(mutex);
  if (!*space) {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    space->emplace(stream);
    Kokkos::push_finalize_hook([stream] {
      space->reset();
      cudaStreamDestroy(stream);
    });
  }
  return **space;
}

}  // namespace petaflow

#endif
