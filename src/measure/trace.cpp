#include "measure/trace.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include <Kokkos_Core.hpp>
#include <nlohmann/json.hpp>

#include "base/build_info.hpp"
#include "io/atomic_file.hpp"

namespace petaflow {
namespace {

namespace tools = Kokkos::Tools::Experimental;
using Clock = std::chrono::steady_clock;

/// Kokkos calls plain functions, so what they write to is global.
struct Recorder {
  std::vector<StepTrace::Event> events;
  std::vector<std::size_t> open;  // of events, innermost last
  Clock::time_point zero;
  std::thread::id thread = std::this_thread::get_id();
  tools::EventSet before{};  // Kokkos' calls without the recording
};
Recorder* recorder = nullptr;

bool ours() { return recorder != nullptr && std::this_thread::get_id() == recorder->thread; }

double now_us() { return std::chrono::duration<double, std::micro>(Clock::now() - recorder->zero).count(); }

void open_event(const char* name, const char* category) {
  if (!ours()) return;
  recorder->open.push_back(recorder->events.size());
  recorder->events.push_back({name, category, now_us()});
}

void close_event() {
  if (!ours() || recorder->open.empty()) return;  // it began before the recording
  StepTrace::Event& event = recorder->events[recorder->open.back()];
  event.duration_us = now_us() - event.begin_us;
  recorder->open.pop_back();
}

void begin_kernel(const char* name, std::uint32_t, std::uint64_t* id) {
  *id = 0;
  open_event(name, "kernel");
}
void end_kernel(std::uint64_t) { close_event(); }
void push_region(const char* name) { open_event(name, "region"); }
void pop_region() { close_event(); }
void begin_copy(Kokkos_Profiling_SpaceHandle, const char* to, const void*, Kokkos_Profiling_SpaceHandle,
                const char* from, const void*, std::uint64_t) {
  const std::string source = from, target = to;
  open_event((source == target ? "copy " + target : "copy " + source + " to " + target).c_str(), "copy");
}
void end_copy() { close_event(); }

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // of bytes that are no UTF-8

/// @param everything  kernels and copies too
nlohmann::json to_json(const std::vector<StepTrace::Event>& events, int rank, bool everything) {
  nlohmann::json json = nlohmann::json::array();
  json.push_back({{"name", "process_name"},
                  {"ph", "M"},
                  {"pid", rank},
                  {"tid", 0},
                  {"args", {{"name", "rank " + std::to_string(rank)}}}});
  for (const StepTrace::Event& event : events) {
    const std::string category = event.category;
    if (!everything && category != "step" && category != "region") continue;
    json.push_back({{"name", event.name},
                    {"cat", category},
                    {"ph", "X"},
                    {"ts", event.begin_us},
                    {"dur", event.duration_us},
                    {"pid", rank},
                    {"tid", 0}});
  }
  return json;
}

void write(const std::string& path, const nlohmann::json& events) {
  const nlohmann::json trace = {{"traceEvents", events},
                                {"displayTimeUnit", "ms"},
                                {"otherData", {{"program", "petaflow"}, {"commit", build_info().commit}}}};
  write_file_atomically(path, trace.dump(-1, ' ', false, kReplace) + "\n");
}

}  // namespace

StepTrace::StepTrace(std::int64_t steps, std::string path) : left_(steps), path_(std::move(path)) {}

StepTrace::~StepTrace() { stop(); }

bool StepTrace::tool_is_loaded() {
  const tools::EventSet set = tools::get_callbacks();
  return set.begin_parallel_for != nullptr || set.push_region != nullptr || set.begin_deep_copy != nullptr ||
         set.allocate_data != nullptr;
}

void StepTrace::begin_step(std::int64_t step) {
  if (left_ == 0 || seen_++ < kSkipped) return;
  if (!records_) start();
  open_event(("step " + std::to_string(step)).c_str(), "step");
}

void StepTrace::end_step() {
  if (!records_) return;
  close_event();
  if (--left_ == 0) finish();
}

void StepTrace::start() {
  records_ = true;
  recorder = new Recorder;
  recorder->zero = zero_;
  tools::EventSet calls{};
  calls.begin_parallel_for = calls.begin_parallel_reduce = calls.begin_parallel_scan = begin_kernel;
  calls.end_parallel_for = calls.end_parallel_reduce = calls.end_parallel_scan = end_kernel;
  calls.push_region = push_region;
  calls.pop_region = pop_region;
  calls.begin_deep_copy = begin_copy;
  calls.end_deep_copy = end_copy;
  recorder->before = tools::get_callbacks();
  tools::set_callbacks(calls);
}

void StepTrace::stop() {
  if (!records_) return;
  records_ = false;
  left_ = 0;
  tools::set_callbacks(recorder->before);
  events_ = std::move(recorder->events);
  std::erase_if(events_, [](const Event& event) { return event.duration_us < 0; });  // not over
  delete recorder;
  recorder = nullptr;
}

void StepTrace::finish() {
  if (!records_) return;
  stop();
  if (!path_.empty()) write(path_, to_json(events_, 0, true));
}

void StepTrace::write_all(Communicator& comm) const {
  if (comm.size() == 1) return;
  const int apart = (comm.size() + kRanks - 1) / kRanks;
  const bool mine = comm.rank() % apart == 0;
  const std::string text = mine ? to_json(events_, comm.rank(), comm.rank() == 0).dump(-1, ' ', false, kReplace) : "";
  const std::vector<std::string> texts = gather_text(comm, text);
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& theirs : texts) {
    if (theirs.empty()) continue;
    for (nlohmann::json& event : nlohmann::json::parse(theirs)) all.push_back(std::move(event));
  }
  if (!path_.empty() && !events_.empty()) write(path_, all);
}

}  // namespace petaflow
