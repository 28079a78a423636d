#include "program/configuration.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "comm/agree.hpp"
#include "io/hdf5.hpp"
#include "io/log.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

Configuration::Configuration(Task& task) : program_(task.name()) {
  declare(schema, options);
  task.declare(schema);
}

HangOptions Configuration::hang_options() const {
  HangOptions hangs;
  hangs.limit_s = options.run.hang_timeout;
  hangs.interrupted = [] { return stop_request() == StopRequest::kSignal; };
  hangs.say = [program = program_](const std::string& text) {
    log_status("");
    std::fprintf(stderr, "%s: %s\n", program.c_str(), text.c_str());
  };
  return hangs;
}

bool checks_alone(const CommandLine& line, const Communicator& comm) { return line.check && comm.size() == 1; }

void Configuration::load_input(Communicator& comm, const CommandLine& line) {
  agree(comm, [&] {
    schema.load(line.input, line.overrides);
    const bool on_ranks = (line.command == "train" && !checks_alone(line, comm)) || line.command == "bench";
    for (const std::string& sentence : schema.drop_idle(on_ranks ? comm.size() : 0)) log_info("{}", sentence);
    if (options.run.name.empty()) options.run.name = std::filesystem::path(line.input).stem().string();
    const std::string& name = options.run.name;
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      user_error("run.name must be the name of a folder below run.folder, found \"{}\"", name);
    }
    if (name.size() > 200) user_error("run.name must have at most 200 characters, found {}", name.size());
    check(options);
    if (line.command == "train" && !checks_alone(line, comm)) {
      check_ranks(options, server_layout(options, comm.size()).members());
      if (options.update.tune_groups > 0) check_fewer_groups(options, comm.size());
    }
    if (line.command == "bench") check_ranks(options, comm.size());
    set_hdf5_locking(options.data.hdf5_locking);
    comm.watch_hangs(hang_options());
    groups_ = options.update.groups;
  });
}

void Configuration::regroup(std::int64_t groups) { options = with_groups(options, groups); }

std::string Configuration::resolved() {
  if (groups_ == 0 || options.update.groups == groups_) return schema.resolved();
  const CommonOptions regrouped = options;
  regroup(groups_);
  std::string text = schema.resolved();
  options = regrouped;
  return text;
}

void Configuration::load_options(Communicator& comm, const std::vector<std::string>& overrides) {
  agree(comm, [&] {
    schema.load("", overrides);
    set_hdf5_locking(options.data.hdf5_locking);
  });
  comm.watch_hangs(hang_options());
}

void Configuration::load_text(Communicator& comm, const std::string& config, const std::string& where) {
  agree(comm, [&] {
    schema.load_text(config, where + ": its configuration is not one of this program");
    // The run's own ranks do not bind those who use it.
    options.train.deterministic = false;
    options.update = {};
    options.train.batch = std::max<std::int64_t>(options.train.batch, comm.size());
    check(options);
    set_hdf5_locking(options.data.hdf5_locking);
  });
  comm.watch_hangs(hang_options());
}

}  // namespace petaflow
