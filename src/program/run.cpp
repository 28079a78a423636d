#include "program/run.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>

#include <Kokkos_Core.hpp>

#include "base/activity.hpp"
#include "base/device.hpp"
#include "comm/agree.hpp"
#include "io/log.hpp"
#include "measure/threads.hpp"
#include "measure/tools.hpp"
#include "program/command_line.hpp"
#include "program/commands.hpp"
#include "program/kokkos_options.hpp"
#include "program/say_failure.hpp"
#include "train/stop_request.hpp"

namespace petaflow {
namespace {

int run_command(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter,
                Communicator& comm) {
  if (line.json) log_nothing_but_warnings();
  if (line.command == "generate") return command_generate(line, config, task, comm);
  if (line.command == "train") return command_train(line, config, task, reporter, comm);
  if (line.command == "evaluate") return command_evaluate(line, config, task, reporter, comm);
  if (line.command == "predict") return command_predict(line, config, task, comm);
  if (line.command == "inspect") return command_inspect(line, config, task, comm);
  if (line.command == "summary") return command_summary(line, config, task, comm);
  if (line.command == "bench") return command_bench(line, config, task, comm);
  if (line.command == "report") return command_report(line, task, reporter, comm);
  if (line.command == "export") return command_export(line, config, task, comm);
  for (const TaskCommand& own : task.commands()) {
    if (line.command != own.name) continue;
    config.load_options(comm, line.overrides);
    watch_stop_signals();
    own.run(line, comm);
    return kDone;
  }
  failure("the command line knows a command {}", line.command);
}

extern "C" void end_without_the_others(int) {
  constexpr char kText[] = "other ranks are missing in MPI_Finalize; all results are written\n";
  static_cast<void>(write(STDERR_FILENO, kText, sizeof kText - 1));
  _exit(kHangExitCode);
}

/// MPI_Finalize waits for a lost rank without end, out of sight of the watch over collectives.
void limit_finalize(double seconds) {
  if (seconds <= 0) return;
  std::signal(SIGALRM, end_without_the_others);
  alarm(static_cast<unsigned>(std::min(std::ceil(seconds), 1e9)));
}

int run_in_mpi(const std::vector<std::string>& arguments, const std::vector<std::string>& kokkos_given, Task& task,
               const Reporter& reporter, char* program) {
  const std::unique_ptr<Communicator> world = make_communicator();
  std::optional<Kokkos::ScopeGuard> kokkos;
  try {
    log_start(world->rank());
    const ParsedLine parsed = parse_command_line(arguments, task.name(), task.description(), task.commands());
    if (parsed.exit_code) {
      if (world->rank() == 0 && *parsed.exit_code == kDone) std::printf("%s", parsed.text.c_str());
      if (world->rank() == 0 && *parsed.exit_code != kDone)
        std::fprintf(stderr, "%s: %s\n", task.name().c_str(), parsed.text.c_str());
      return *parsed.exit_code;
    }
    agree(*world, [&] {
      check_kokkos_arguments(kokkos_given);
      prepare_kokkos_tools();
    });
    std::vector<std::string> options = kokkos_arguments(*world, kokkos_given);
    std::vector<char*> pointers = {program};
    for (std::string& option : options) pointers.push_back(option.data());
    int count = static_cast<int>(pointers.size());
    pointers.push_back(nullptr);
    if (parsed.line.gpu.empty()) {
      agree(*world, [&] {
        check_device();
        kokkos.emplace(count, pointers.data());
      });
    }
    Configuration config(task);
    const int code = run_command(parsed.line, config, task, reporter, *world);
    const Activity activity("ending");
    world->barrier();
    if (world->size() > 1) limit_finalize(config.options.run.hang_timeout);
    return code;
  } catch (...) {
    return say_failure(task.name(), world.get());
  }
}

}  // namespace

int run(int argc, char** argv, Task& task, const Reporter& reporter) {
  try {
    const MpiSession mpi(&argc, &argv);
    std::vector<std::string> arguments, kokkos;
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      (argument.starts_with("--kokkos-") ? kokkos : arguments).push_back(argument);
    }
    return run_in_mpi(arguments, kokkos, task, reporter, argv[0]);
  } catch (...) {
    return say_failure(task.name());
  }
}

}  // namespace petaflow
