#include "program/command_line.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/build_info.hpp"
#include "comm/communicator.hpp"
#include "config/schema.hpp"
#include "kernels/card.hpp"
#include "program/commands.hpp"

namespace petaflow {
namespace {

constexpr const char* kFooter =
    "Options of Kokkos (--kokkos-...) are passed on.  Exit codes: 0 done, 1 user error, 2 failure, 3 stopped by a "
    "signal or run.wall_time, checkpoint written; continue with --resume.";

void add_input(CLI::App& command, CommandLine& line) {
  command.add_option("INPUT", line.input, "input file (TOML)")->required();
  command.add_option("OVERRIDE", line.overrides, "options of the input file, changed for this run: train.batch=16")
      ->option_text("option=value ...");
}

/// Files and options in any order: take_overrides() tells them apart.
void add_files(CLI::App& command, CommandLine& line) {
  command
      .add_option("FILE", line.files,
                  "data files or patterns, and options of an input file that say how to read them: data.threads=2")
      ->required();
}

void take_overrides(CommandLine& line) {
  const auto is_override = [](const std::string& text) {
    return text.find('=') != std::string::npos && !std::filesystem::exists(text);
  };
  std::ranges::copy_if(line.files, std::back_inserter(line.overrides), is_override);
  std::erase_if(line.files, is_override);
}

void add_run(CLI::App& command, CommandLine& line) {
  command.add_option("RUN", line.input, "run folder or checkpoint")->required();
  command.add_option("FILE", line.files, "data files or patterns")->required();
}

std::string version_text(const std::string& program) {
  const BuildInfo& build = build_info();
  return fmt::format("{} of petaflow {}, commit {}\nKokkos {}, {}, {}, HDF5 {}", program, build.version, build.commit,
                     build.kokkos, *build.onednn != '\0' ? fmt::format("oneDNN {}", build.onednn) : "without oneDNN",
                     mpi_library(), build.hdf5);
}

void add_version(CLI::App& app, const std::string& program) {
  app.set_version_flag("--version", [=] { return version_text(program); }, "print what this program was built from");
}

CLI::App& add_command(CLI::App& program, const std::string& name, const std::string& description) {
  CLI::App& command = *program.add_subcommand(name, description);
  command.footer(kFooter);
  add_version(command, program.get_name());
  return command;
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

/// The mistake in the arguments where CLI11 only lists those that it did not expect; empty: something else.
std::string unknown_argument(const CLI::App& program, const std::vector<std::string>& arguments) {
  const auto unknown = [](const char* what, const std::string& name, const std::vector<std::string>& known) {
    const std::string nearest = nearest_name(name, known);
    return fmt::format(
        "unknown {} {}; {}", what, name,
        nearest.empty() ? fmt::format("there are {}", fmt::join(known, ", ")) : "the nearest is " + nearest);
  };
  const auto commands = program.get_subcommands([](const CLI::App*) { return true; });
  const auto is_option = [](const std::string& argument) { return argument.starts_with("-"); };
  if (!arguments.empty() && !is_option(arguments[0])) {
    const std::vector<std::string> names = names_of(commands);
    if (std::ranges::find(names, arguments[0]) == names.end()) return unknown("command", arguments[0], names);
  }
  const auto chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen[0];
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--") && std::ranges::find(options, name) == options.end()) {
      return unknown("argument", name, options);
    }
  }
  return "";
}

}  // namespace

ParsedLine parse_command_line(const std::vector<std::string>& arguments, const std::string& name,
                              const std::string& description, const std::vector<TaskCommand>& own) {
  ParsedLine parsed;
  CommandLine& line = parsed.line;
  CLI::App program(description, name);
  program.footer(kFooter);
  program.require_subcommand(0, 1);
  add_version(program, name);

  CLI::App& generate = add_command(program, "generate", "Write a small valid data set to the files that INPUT names");
  add_input(generate, line);
  generate.add_flag("--overwrite", line.overwrite, "replace files that exist");

  CLI::App& train = add_command(program, "train", "Train the network; writes a run folder");
  add_input(train, line);
  train.add_flag("--check", line.check, "validate everything, estimate memory and time, and quit");
  CLI::Option* overwrite = train.add_flag("--overwrite", line.overwrite, "replace a run folder that exists");
  train.add_flag("--resume", line.resume, "go on from the newest checkpoint of the run folder, where there is one")
      ->excludes(overwrite);

  add_files(add_command(program, "inspect", "Show what data files hold: format, shape, classes, ranges"), line);

  CLI::App& evaluate = add_command(program, "evaluate", "Evaluate a trained network on files");
  add_run(evaluate, line);
  evaluate.add_flag("--json", line.json, "print JSON");

  CLI::App& predict = add_command(program, "predict", "Write the score of every sample in files");
  add_run(predict, line);
  predict.add_option("-o,--output", line.output, "file to write: HDF5, or what the application writes")->required();
  predict.add_flag("--overwrite", line.overwrite, "replace the output file");

  CLI::App& summary =
      add_command(program, "summary", "Show layers, stages, implementations, flop and memory; needs no data");
  add_input(summary, line);
  summary.add_flag("--json", line.json, "print JSON");
  std::vector<std::string> gpus;
  for (const Card& card : kCards) gpus.emplace_back(card.name);
  summary
      .add_option("--gpu", line.gpu,
                  "show cuDNN's engines and their workspaces instead, for a GPU that need not be here")
      ->transform(CLI::IsMember(gpus, CLI::ignore_case));

  CLI::App& bench =
      add_command(program, "bench", "Measure training steps, on synthetic samples in memory or on data.train");
  add_input(bench, line);
  bench.add_option("--steps", line.steps, "steps to measure")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  bench.add_flag("--io", line.io,
                 "on the samples of data.train, loaded as in training: bytes read, MB/s, steps that waited; ends with "
                 "the epoch where --steps does not end it before");
  bench.add_flag("--json", line.json, "print JSON");

  CLI::App& report = add_command(program, "report", "Make the report of runs again, from their folders alone");
  report.add_option("RUN", line.files, "run folders; several are shown side by side")->required();
  report.add_option("-o,--output", line.output,
                    "HTML file to write (default: report.html in the folder of the one run, made again; of several "
                    "runs a table is printed)");
  report.add_flag("--overwrite", line.overwrite, "replace the output file");

  CLI::App& save = add_command(program, "export", "Write the weights as safetensors, which PyTorch loads");
  save.add_option("RUN", line.input, "run folder or checkpoint")->required();
  save.add_option("-o,--output", line.output, "safetensors file to write")->required();
  save.add_flag("--pytorch", line.pytorch, "write the network too, as a Python file beside it");
  save.add_flag("--overwrite", line.overwrite, "replace the output file");

  for (const TaskCommand& command : own) {
    CLI::App& added = add_command(program, command.name, command.description);
    add_files(added, line);
    if (command.output.empty()) continue;
    added.add_option("-o,--output", line.output, command.output)->required();
    added.add_flag("--overwrite", line.overwrite, "replace files that exist");
  }

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    program.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = program.get_subcommands();
    parsed.text = chosen.empty() ? program.help() : chosen[0]->help(name);
    parsed.exit_code = kDone;
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.text = fmt::format("{}\n", version.what());
    parsed.exit_code = kDone;
    return parsed;
  } catch (const CLI::ParseError& error) {
    const auto chosen = program.get_subcommands();
    const std::string command = chosen.empty() ? "" : " " + chosen[0]->get_name();
    const std::string unknown = unknown_argument(program, arguments);
    parsed.text = fmt::format("{}; see {}{} --help", unknown.empty() ? error.what() : unknown, name, command);
    parsed.exit_code = kUserErrorCode;
    return parsed;
  }
  if (program.get_subcommands().empty()) {
    parsed.text = program.help();
    parsed.exit_code = kDone;
    return parsed;
  }
  line.command = program.get_subcommands()[0]->get_name();
  if (line.command == "inspect" || std::ranges::find(own, line.command, &TaskCommand::name) != own.end()) {
    take_overrides(line);
  }
  return parsed;
}

}  // namespace petaflow
