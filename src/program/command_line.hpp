// The arguments of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace petaflow {

/// The command line's settings, of all commands together.
struct CommandLine {
  std::string command;                 // "train"
  std::string input;                   // input file, or run folder or checkpoint
  std::vector<std::string> overrides;  // option=value
  std::vector<std::string> files;      // evaluate, predict; report: run folders
  std::string output;                  // predict, report, export; commands of an application
  bool check = false, overwrite = false, resume = false, json = false;
  bool io = false;          // bench: on the training data
  bool pytorch = false;     // export: the network too
  std::string gpu;          // summary: name of a Card
  std::int64_t steps = 20;  // bench
};

/// A command that one application alone has: FILE... [option=value ...] [-o OUTPUT].
struct TaskCommand {
  std::string name, description;
  std::string output;                                          // what -o names, for the help; empty: there is no -o
  std::function<void(const CommandLine&, Communicator&)> run;  // on all ranks, after the options were set
};

/// Result of parsing: a command to run, or a text (help or a complaint) and the exit code.
struct ParsedLine {
  CommandLine line;
  std::optional<int> exit_code;
  std::string text;
};

/// @param program, description, own  of the application: its name, what it does, commands of its own
ParsedLine parse_command_line(const std::vector<std::string>& arguments, const std::string& program,
                              const std::string& description, const std::vector<TaskCommand>& own = {});

}  // namespace petaflow
