// allreduce: the time of a sum over ranks by every reduction of the list, beside MPI's own.
//   mpirun -n 2 build/host/bin/allreduce --to 64e6
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/reduction_choice.hpp"
#include "program/say_failure.hpp"

namespace petaflow::perf {
namespace {

struct Sizes {
  double from = 1e3, to = 256e6;  // bytes
  double seconds = 0.2;           // of each figure
};

void run(Communicator& comm, const Sizes& sizes) {
  const auto say = [&](const std::string& text) {
    if (comm.rank() == 0) std::printf("%s\n", text.c_str()), std::fflush(stdout);
  };
  say(fmt::format("{} ranks, {} on this node, {}: milliseconds, and times as fast as MPI's own", comm.size(),
                  comm.node_size(), comm.name() == "mpi" ? mpi_library() : comm.name()));
  std::vector<const ReductionImpl*> impls;
  std::string head = fmt::format("{:>12}", "bytes");
  for (const ReductionImpl* impl : reduction_impls()) {
    const std::string reason = impl->why_not(comm.transport(), Wire::kF32);
    if (!reason.empty()) {
      say(fmt::format("{} is left out: {}", impl->name, reason));
      continue;
    }
    impls.push_back(impl);
    head += fmt::format("{:>20}", impl->name);
  }
  say(head);
  for (double bytes = sizes.from; bytes <= sizes.to * 1.001; bytes *= 4) {
    const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
    std::string line = fmt::format("{:>12}", static_cast<std::size_t>(elements) * sizeof(float));
    double mpi = 0;
    for (const ReductionImpl* impl : impls) {
      const double s = seconds_of_sum(*impl, comm, Wire::kF32, elements, sizes.seconds);
      if (impl->plan == nullptr) mpi = s;
      line += fmt::format("{:>12.4f}{:>8}", 1e3 * s, mpi > 0 ? fmt::format("{:.2f}", mpi / s) : "");
    }
    say(line);
  }
}

}  // namespace
}  // namespace petaflow::perf

int main(int argc, char** argv) {
  using namespace petaflow;
  perf::Sizes sizes;
  CLI::App program("Times sums over ranks by every reduction of the list, beside MPI's own.");
  const CLI::Range bytes(4.0, 1e12);
  program.add_option("--from", sizes.from, "smallest vector, bytes")->check(bytes)->capture_default_str();
  program.add_option("--to", sizes.to, "largest vector at most, bytes; sizes grow by 4")
      ->check(bytes)
      ->capture_default_str();
  program.add_option("--time", sizes.seconds, "seconds for each figure, at least three sums")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 1;
  }
  const MpiSession mpi(&argc, &argv);
  const std::unique_ptr<Communicator> world = make_communicator();
  try {
    perf::run(*world, sizes);
  } catch (...) {
    return say_failure("allreduce", world.get());
  }
  return 0;
}
