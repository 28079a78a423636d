// A small tool for Kokkos: how much of the time inside the regions "petaflow::step" lies in kernels and in the regions
// of single stages (the parts of a step, "petaflow::forward" and so on, do not count), and which names there are.
// Written as JSON to $PETAFLOW_TOOL_OUTPUT.  Interface: Kokkos Tools, "Profiling hooks".
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::set<std::string> regions, kernels, allocations, copies;
std::vector<bool> open;  // regions and kernels inside a step, outermost first: does it count?
int counted = 0;         // how many of them
bool in_step = false;
Clock::time_point step_start, named_start;
double step_s = 0, named_s = 0;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void enter(bool counts) {
  if (!in_step) return;
  open.push_back(counts);
  if (counts && counted++ == 0) named_start = Clock::now();
}
void leave() {
  if (!in_step) return;
  if (open.back() && --counted == 0) named_s += seconds_since(named_start);
  open.pop_back();
}

void print(std::FILE* file, const char* key, const std::set<std::string>& names, const char* end) {
  std::fprintf(file, "\"%s\": [", key);
  const char* comma = "";
  for (const std::string& name : names) {
    std::fprintf(file, "%s\"%s\"", comma, name.c_str());
    comma = ", ";
  }
  std::fprintf(file, "]%s", end);
}

}  // namespace

struct SpaceHandle {
  char name[64];
};

extern "C" {

void kokkosp_init_library(int, std::uint64_t, std::uint32_t, void*) {}

void kokkosp_finalize_library() {
  std::FILE* file = std::fopen(std::getenv("PETAFLOW_TOOL_OUTPUT"), "w");
  if (file == nullptr) return;
  std::fprintf(file, "{\"step_s\": %.6f, \"named_s\": %.6f, ", step_s, named_s);
  print(file, "regions", regions, ", ");
  print(file, "kernels", kernels, ", ");
  print(file, "copies", copies, ", ");
  print(file, "allocations", allocations, "}\n");
  std::fclose(file);
}

void kokkosp_push_profile_region(const char* name) {
  regions.insert(name);
  if (std::string(name) == "petaflow::step") {
    in_step = true;
    step_start = Clock::now();
  } else {
    enter(std::string(name).find("::", std::string("petaflow::").size()) != std::string::npos);
  }
}

void kokkosp_pop_profile_region() {
  if (in_step && open.empty()) {
    in_step = false;
    step_s += seconds_since(step_start);
  } else {
    leave();
  }
}

void kokkosp_begin_parallel_for(const char* name, std::uint32_t, std::uint64_t*) {
  kernels.insert(name);
  enter(true);
}
void kokkosp_end_parallel_for(std::uint64_t) { leave(); }
void kokkosp_begin_parallel_reduce(const char* name, std::uint32_t, std::uint64_t*) {
  kernels.insert(name);
  enter(true);
}
void kokkosp_end_parallel_reduce(std::uint64_t) { leave(); }
void kokkosp_begin_parallel_scan(const char* name, std::uint32_t, std::uint64_t*) {
  kernels.insert(name);
  enter(true);
}
void kokkosp_end_parallel_scan(std::uint64_t) { leave(); }

void kokkosp_allocate_data(SpaceHandle, const char* name, void*, std::uint64_t) { allocations.insert(name); }

void kokkosp_begin_deep_copy(SpaceHandle, const char* to, const void*, SpaceHandle, const char* from, const void*,
                             std::uint64_t) {
  copies.insert(std::string(from) + " -> " + to);
}
void kokkosp_end_deep_copy() {}

}  // extern "C"
