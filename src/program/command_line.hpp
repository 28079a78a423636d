// The arguments of the program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/application.hpp"
#include "program/job.hpp"

namespace petaflow {

/// What parsing gives: a command to run, or a text (help or a complaint) and the exit code.
struct ParsedLine {
  CommandLine line;
  std::optional<int> exit_code;
  std::string text;
};

ParsedLine parse_command_line(const std::vector<std::string>& arguments, const Application& application);

}  // namespace petaflow
