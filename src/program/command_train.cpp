// train INPUT: what each rank is, a worker of a group, a server, or both.
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/context.hpp"
#include "comm/agree.hpp"
#include "io/host_name.hpp"
#include "io/log.hpp"
#include "program/commands.hpp"
#include "program/train_on.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/served_rank.hpp"
#include "train/stop_request.hpp"

namespace petaflow {
namespace {

/// Of all ranks, on every rank.
std::vector<std::string> hosts_of(Communicator& comm) {
  std::istringstream names(broadcast_text(comm, fmt::format("{}", fmt::join(gather_text(comm, host_name()), "\n"))));
  std::vector<std::string> hosts;
  for (std::string name; std::getline(names, name);) hosts.push_back(name);
  return hosts;
}

}  // namespace

int command_train(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter,
                  Communicator& world) {
  config.load_input(world, line);
  const CommonOptions& options = config.options;
  const std::unique_ptr<Communicator> slower = delayed(world, options.inject);
  Communicator& comm = slower ? *slower : world;
  const UpdateOptions& update = options.update;
  if (update.servers == 0 && update.average_every == 0) return train_on(line, config, task, reporter, comm, {comm});
  if (checks_alone(line, comm)) {
    log_info("one rank checks what one of the groups would do alone");
    return train_on(line, config, task, reporter, comm, {comm});
  }

  const ServerLayout layout = server_layout(options, comm.size());
  if (update.servers == 0) {
    const std::unique_ptr<Communicator> group = comm.split(layout.group_of(comm.rank()));
    const std::unique_ptr<Communicator> across = comm.split(comm.rank() % layout.members());
    return train_on(line, config, task, reporter, comm, {*group, nullptr, across.get()});
  }
  say_binding(comm, Context().threads);  // of servers too
  OptimizerOptions optimizer = options.optimizer;
  optimizer.ranks = layout.members();
  ServeOptions serving{optimized_layers(optimizer, layout.groups), serving_order(options)};
  serving.hangs = config.hang_options();
  serving.hosts = hosts_of(comm);
  ServedRank rank(comm, layout, serving);
  if (!rank.works()) {
    watch_stop_signals();  // so that one does not end them before the workers have stopped
    const int code = rank.serve();
    if (code == kUserErrorCode || code == kFailureCode) {  // rank 0 says which
      throw AgreedError(code == kUserErrorCode ? ErrorKind::kUser : ErrorKind::kFailure, "the workers failed");
    }
    return code;
  }
  int code = kFailureCode;
  std::optional<AgreedError> failed;
  try {
    CommandLine from_here = line;
    while ((code = train_on(from_here, config, task, reporter, rank.workers(), {rank.group(), &rank.session()})) ==
           kOtherGroups) {
      ServerLayout other;
      agree(rank.workers(), [&] { other = server_layout(options, comm.size()); });
      rank.regroup(other);
      from_here.resume = true;
      from_here.overwrite = false;
    }
  } catch (const AgreedError& error) {
    failed = error;
    code = exit_code(error);
  }
  rank.session().end(code);
  if (failed) throw AgreedError(*failed);
  return code;
}

}  // namespace petaflow
